# SPDX-License-Identifier: Apache-2.0
"""Event loops of asyncio: a thread's context follows its tasks, and long steps are recorded.

asyncio runs each callback, and each step of a task, by Handle._run in the context (contextvars) of its task. This module puts
a function around it. A request becomes part of the context where it begins, and of tasks created from there. uvloop has
handles of its own. They cannot be wrapped.
"""

import contextvars
import ctypes
import itertools
import sys
import threading
from typing import Any, Dict, Optional, Set, Tuple

from pitot import _library as lib
from pitot import _record, _watch


_tick = itertools.count(1).__next__  # orders moments of all threads, for less than the price of a clock


class Current(ctypes.c_uint64):
    """A request as a part of contexts: its id, or 0 once it has ended. Tasks keep their context when the request is over."""

    id = 0  # after its end, too
    ended = 0  # the tick

    def leave(self, outer: "Optional[Current]") -> None:
        """Ends it in all contexts. In the calling task `outer` is current again."""
        self.ended = _tick()
        self.value = 0
        if outer is not None and _current.get() is self:
            _current.set(outer)


_NONE = Current(0)
_current: "contextvars.ContextVar[Current]" = contextvars.ContextVar("pitot.request", default=_NONE)


_MOST_FRAMES = 64  # of a thread's stack are looked through for the step's
_run_code: Any = None  # of the function around Handle._run
_threads: Set[int] = set()  # with a loop: had a long step
# By thread: its step's frame (a later one may have its id) at the last look, the look's tick, and the line it was at.
_places: Dict[int, Tuple[int, int, str]] = {}


def _function_of(callback: Any) -> Tuple[Any, Any]:
    """The function of a task or callback, and its code; None for code of C."""
    owner = getattr(callback, "__self__", None)
    coroutine = owner.get_coro() if hasattr(owner, "get_coro") else None
    if coroutine is not None:
        return coroutine, getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    function = getattr(callback, "func", callback)  # functools.partial
    return function, getattr(function, "__code__", None)


def name_of(callback: Any, place: str = "") -> str:
    """The function of a task or callback: "handle (server.py:12)", with the line of its definition.

    `place` is a line at which the step was seen. It is added, or takes the place of a function of a library.
    """
    function, code = _function_of(callback)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    name = name.rpartition("<locals>.")[2]
    if code is not None:
        name = f"{name} ({code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno})"
    if not place:
        return name
    return place if code is None or _watch.is_library(code) else f"{name}, at {place}"


def look() -> None:
    """Notes where the steps are that run just now. Called by the watch every 10 ms."""
    if not _threads:
        return
    tick, frames = _tick(), sys._current_frames()
    for thread in tuple(_threads):
        frame = top = frames.get(thread)
        if frame is None:
            _threads.discard(thread)
        for _ in range(_MOST_FRAMES):
            if frame is None or frame.f_code is _run_code:
                break
            frame = frame.f_back
        if frame is None or frame.f_code is not _run_code:
            _places.pop(thread, None)
        else:
            _places[thread] = id(frame), tick, _watch.place_of(top, frame)


class Loops:
    """The wrapper of asyncio's handles."""

    def __init__(self) -> None:
        self._is_over = False
        self._original: Any = None
        self._wrapper: Any = None

    def install(self) -> None:
        """Wraps asyncio's handles, if asyncio has been imported. Importing it takes too long for servers without it.

        Does nothing after `remove`, which may run on another thread meanwhile.
        """
        events = sys.modules.get("asyncio.events")
        handle = getattr(events, "Handle", None)
        if self._is_over or self._original is not None or handle is None:
            return
        original = handle._run

        def run(self: Any, _get: Any = contextvars.Context.get, _current: Any = _current, _none: Any = _NONE,
                _begin: Any = lib.step_begin, _end: Any = lib.step_end, _tick: Any = _tick) -> None:
            context = self._context
            callback = self._callback
            began = _tick()
            _begin(_get(context, _current, _none))
            try:
                original(self)
            finally:  # SystemExit, KeyboardInterrupt
                if _end():
                    _record_step(callback, context, began)
                self = None  # needed as in the original, to break cycles

        global _run_code  # pylint: disable=global-statement
        _run_code = run.__code__
        run.__qualname__ = "Handle._run"
        self._original, self._wrapper = original, run
        handle._run = run
        if self._is_over and handle._run is run:
            handle._run = original

    def remove(self) -> None:
        self._is_over = True
        original, self._original = self._original, None
        events = sys.modules.get("asyncio.events")
        if original is not None and events.Handle._run is self._wrapper:  # type: ignore[union-attr]
            events.Handle._run = original  # type: ignore[union-attr]


def _record_step(callback: Any, context: Any, began: int) -> None:
    try:
        thread = threading.get_ident()
        _threads.add(thread)
        frame, tick, place = _places.pop(thread, (0, 0, ""))
        name = name_of(callback, place if tick > began and frame == id(sys._getframe(1)) else "")
    except Exception:  # pylint: disable=broad-except
        name = "callback"  # of a class with odd attributes
    current = context.get(_current, _NONE)
    lib.step_record(_record.evidence_name(name), current.id if current.ended >= began else current.value)


def enter(request: int) -> Current:
    """Makes the request part of the calling task's context, until `leave`."""
    current = Current(request)
    current.id = request
    _current.set(current)
    return current
