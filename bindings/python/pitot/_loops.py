# SPDX-License-Identifier: Apache-2.0
"""Event loops of asyncio: a thread's context follows its tasks, and long steps are recorded.

asyncio runs each callback, and each step of a task, by Handle._run in the context (contextvars) of its task. This module puts
a function around it. A request becomes part of the context where it begins, and of tasks created from there. uvloop has
handles of its own. They cannot be wrapped.
"""

import contextvars
import ctypes
import sys
from typing import Any, Optional

from pitot import _library as lib
from pitot import _record

_NONE = ctypes.c_uint64(0)
_current: "contextvars.ContextVar[ctypes.c_uint64]" = contextvars.ContextVar("pitot.request", default=_NONE)


def name_of(callback: Any) -> str:
    """The function of a task or callback: "handle (server.py:12)", with the line of its definition."""
    owner = getattr(callback, "__self__", None)
    coroutine = owner.get_coro() if hasattr(owner, "get_coro") else None
    if coroutine is None:
        function = getattr(callback, "func", callback)  # functools.partial
        code = getattr(function, "__code__", None)
    else:
        function = coroutine
        code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return name if code is None else f"{name} ({code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno})"


class Loops:
    """The wrapper of asyncio's handles."""

    def __init__(self) -> None:
        self._original: Any = None
        self._wrapper: Any = None

    def install(self) -> None:
        """Wraps asyncio's handles, if asyncio has been imported. Importing it takes too long for servers without it."""
        events = sys.modules.get("asyncio.events")
        handle = getattr(events, "Handle", None)
        if self._original is not None or handle is None:
            return
        original = handle._run

        def run(self: Any, _get: Any = contextvars.Context.get, _current: Any = _current, _none: Any = _NONE,
                _begin: Any = lib.step_begin, _end: Any = lib.step_end) -> None:
            context = self._context
            callback = self._callback
            _begin(_get(context, _current, _none))
            original(self)
            if _end():
                _record_step(callback, context)
            self = None  # needed as in the original, to break cycles

        run.__qualname__ = "Handle._run"
        self._original, self._wrapper = original, run
        handle._run = run

    def remove(self) -> None:
        events = sys.modules.get("asyncio.events")
        if self._original is not None and events.Handle._run is self._wrapper:  # type: ignore[union-attr]
            events.Handle._run = self._original  # type: ignore[union-attr]
        self._original = None


def _record_step(callback: Any, context: Any) -> None:
    try:
        name = name_of(callback)
    except Exception:  # pylint: disable=broad-except
        name = "callback"  # of a class with odd attributes
    lib.step_record(_record._name(name), context.get(_current, _NONE).value)


def enter(request: int) -> None:
    """Makes the request part of the calling task's context."""
    _current.set(ctypes.c_uint64(request))
