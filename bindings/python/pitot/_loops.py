# SPDX-License-Identifier: Apache-2.0
"""Event loops of asyncio: a thread's context follows its tasks, and long steps are recorded.

asyncio runs each callback, and each step of a task, by Handle._run in the context (contextvars) of its task. This module puts
a function around it. A request becomes part of the context where it begins, and of tasks created from there. uvloop has
handles of its own, in C. There the functions that make them get a function around each callback.
"""

import contextvars
import functools
import logging
import sys
import threading
from typing import Any, Dict, Optional, Set, Tuple

from pitot import _library as lib
from pitot import _record, _watch
from pitot._calls import Current, current as _current, step_begin, step_end, tick as _tick

_log = logging.getLogger("pitot")

_NONE = Current(0)

_MOST_FRAMES = 64  # of a thread's stack are looked through for the step's
_run_codes: Set[Any] = set()  # of the functions around Handle._run and callbacks
_running_loop: Any = None  # the function that returns the calling thread's; None while loops are not followed
_known_loops: Set[type] = set()  # are followed, or the log says that they are not
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
    """Notes where the steps are that run just now. Called by the watch every 10 ms.

    Without the interpreter's lock, reading frames would stop all threads.
    """
    if not _threads or not _watch.has_lock():
        return
    tick, frames = _tick(), sys._current_frames()
    for thread in tuple(_threads):
        frame = top = frames.get(thread)
        if frame is None:
            _threads.discard(thread)
        for _ in range(_MOST_FRAMES):
            if frame is None or frame.f_code in _run_codes:
                break
            frame = frame.f_back
        if frame is None or frame.f_code not in _run_codes:
            _places.pop(thread, None)
        else:
            _places[thread] = id(frame), tick, _watch.place_of(top, frame)


class _Step:
    """A callback as a step, for a loop with handles of its own. It runs in the context of its task."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Any) -> None:
        self._callback = callback

    def __repr__(self) -> str:  # of messages of the loop
        return repr(self._callback)

    def __call__(self, *args: Any) -> Any:
        callback = self._callback
        began = _tick()
        step_begin(_current.get())
        try:
            return callback(*args)
        finally:
            if step_end():
                _record_step(callback, contextvars.copy_context(), began)


def _as_step(callback: Any) -> Any:
    # What cannot be called is refused by the loop itself, in its caller's stack.
    return _Step(callback) if callable(callback) and type(callback) is not _Step else callback


def _around_soon(original: Any) -> Any:
    @functools.wraps(original)
    def call_soon(self: Any, callback: Any, *args: Any, context: Any = None) -> Any:
        return original(self, _as_step(callback), *args, context=context)

    return call_soon


def _around_later(original: Any) -> Any:
    @functools.wraps(original)
    def call_later(self: Any, delay: Any, callback: Any, *args: Any, context: Any = None) -> Any:
        return original(self, delay, _as_step(callback), *args, context=context)

    return call_later


class _OwnHandles:
    """The wrappers of uvloop.Loop. Callbacks of its transports (data_received of a protocol) do not come through them."""

    _AROUND = (("call_soon", _around_soon), ("call_soon_threadsafe", _around_soon), ("call_later", _around_later))

    def __init__(self) -> None:
        self._loop: Any = None
        self._before: Dict[str, Tuple[Any, Any]] = {}  # by name: the class's own function or None, and the wrapper

    def install(self) -> None:
        loop = getattr(sys.modules.get("uvloop"), "Loop", None)
        if loop is None or self._loop is not None:
            return
        self._loop = loop
        _run_codes.add(_Step.__call__.__code__)
        for name, around in self._AROUND:
            wrapper = around(getattr(loop, name))
            self._before[name] = vars(loop).get(name), wrapper
            setattr(loop, name, wrapper)

    def remove(self) -> None:
        """Takes the wrappers away, unless somebody else has put one around them. Steps that wait to run stay steps."""
        for name, (own, wrapper) in list(self._before.items()):
            if vars(self._loop).get(name) is not wrapper:
                continue
            if own is not None:
                setattr(self._loop, name, own)
            else:
                delattr(self._loop, name)


class Loops:
    """The wrapper of asyncio's handles, and of loops with others."""

    def __init__(self) -> None:
        self._is_over = False
        self._own_handles = _OwnHandles()
        self._original: Any = None
        self._wrapper: Any = None

    def install(self) -> None:
        """Wraps handles of loops that have been imported. Importing asyncio takes too long for servers without it.

        Does nothing after `remove`, which may run on another thread meanwhile.
        """
        if self._is_over:
            return
        self._own_handles.install()
        if self._is_over:
            self._own_handles.remove()
        self._install_asyncio()

    def _install_asyncio(self) -> None:
        events = sys.modules.get("asyncio.events")
        handle = getattr(events, "Handle", None)
        if self._is_over or self._original is not None or handle is None:
            return
        original = handle._run

        def run(self: Any, _get: Any = contextvars.Context.get, _current: Any = _current, _none: Any = _NONE,
                _begin: Any = step_begin, _end: Any = step_end, _tick: Any = _tick) -> None:
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

        global _running_loop  # pylint: disable=global-statement
        _running_loop = getattr(events, "_get_running_loop", None)
        _run_codes.add(run.__code__)
        run.__qualname__ = "Handle._run"
        self._original, self._wrapper = original, run
        handle._run = run
        if self._is_over and handle._run is run:
            handle._run = original

    def remove(self) -> None:
        global _running_loop  # pylint: disable=global-statement
        self._is_over = True
        _running_loop = None
        self._own_handles.remove()
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
    lib.step_record(_record.evidence_name(name, name), current.id if current.ended >= began else current.value)


def _look_at_loop(kind: type) -> None:
    """Says once that loops of a type are not followed: if they do not run asyncio's handles."""
    _known_loops.add(kind)
    followed = (getattr(sys.modules.get("asyncio.base_events"), "BaseEventLoop", None), getattr(sys.modules.get("uvloop"), "Loop", None))
    if not any(base is not None and issubclass(kind, base) for base in followed):
        _log.warning("loops.not_followed: %s.%s has handles of its own, so requests do not follow its tasks, and long steps have no "
                     "record. Use asyncio's loops or uvloop, or pass request.token on", kind.__module__, kind.__qualname__)


def enter(request: int) -> Current:
    """Makes the request part of the calling task's context, until `leave`."""
    loop = _running_loop() if _running_loop is not None else None
    if loop is not None and type(loop) not in _known_loops:
        _look_at_loop(type(loop))
    current = Current(request)
    current.id = request
    _current.set(current)
    return current
