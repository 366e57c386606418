# SPDX-License-Identifier: Apache-2.0
"""Stacks of threads while a request is late: where they are in Python, and in which system call.

The watching thread reads the frames of other threads with the interpreter's lock held. It stops none of them.
"""

import ctypes
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Tuple

from pitot import _library as lib
from pitot import _loops, _watch

_MOST_THREADS = 16  # of one look
_MOST_STACKS = 64  # at once, and in _REFILL_NS
_REFILL_NS = 5_000_000_000
_CPU_SHARE = 100  # a look is followed by a pause of so many times its length: 1 % of a CPU
_PAUSE_PART = 8  # a pause is at least this part of the time since requests are late, up to _MOST_PAUSE_NS
_MOST_PAUSE_NS = 50_000_000
_MOST_FRAMES = 64  # looked through for one outside of libraries
_MOST_NAMES = 1000  # of frames; later ones are "(other)"
_FRAMES = 3
_NO_OWN = 3

# Where threads of the standard library sleep with a timeout.
_WAITS = frozenset(function.__code__ for function in (threading.Condition.wait, threading.Thread.join,
                                                      getattr(threading.Thread, "_wait_for_tstate_lock", threading.Thread.join)))

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def why_not() -> str:
    """The reason for having no stacks; "" if they can be had."""
    return "" if _watch.has_lock() else \
        "stacks.not_recorded: without the interpreter's lock, reading frames would stop all threads"


def _is_library(code: Any) -> bool:
    return _watch.is_library(code) or code.co_filename.startswith(_PACKAGE)


def _text(frame: Any) -> str:
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]
    line = f" ({os.path.basename(code.co_filename)}:{frame.f_lineno})"
    return name[:max(8, 110 - len(line))] + line


def frames_of(frame: Any) -> Tuple[List[str], int]:
    """The innermost frame, the innermost outside of libraries, and its callers; and the place of the second: 3 if there is none.

    "fetch (app.py:88)" is a frame.
    """
    own, depth = frame, 0
    while own is not None and depth < _MOST_FRAMES and _is_library(own.f_code):
        own, depth = own.f_back, depth + 1
    if own is None or depth == _MOST_FRAMES:
        chosen, place = [frame, frame.f_back], _NO_OWN
    elif own is frame:
        chosen, place = [frame, frame.f_back, frame.f_back and frame.f_back.f_back], 0
    else:
        chosen, place = [frame, own, own.f_back], 1
    return [_text(one) for one in chosen if one is not None], place


class Stacks:
    """Takes stacks while a request is late. Its functions are called by one thread."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._tids = (ctypes.c_int64 * _MOST_THREADS)()
        self._names: Dict[str, int] = {}
        self._none = int(lib.intern(b""))
        # Threads that want the interpreter's lock wait in a timed futex: such a thread may be about to run.
        self._futex, self._timed_futex = int(lib.intern(b"futex")), int(lib.intern(b"timed futex"))
        self._lock = int(lib.intern(b"lock"))
        self._late_since = 0  # 0: no request is late
        self._next_ns = 0
        self._refilled_ns = 0
        self._left = float(_MOST_STACKS)
        self._missed = 0

    def look(self, _find: Callable[..., int] = lib.find_late_threads) -> None:
        """Takes stacks, if a request is late and the budget has room. Called every 10 ms with the interpreter's lock.

        Without a lock, reading frames would stop all threads.
        """
        if not _watch.has_lock():
            return
        found = _find(self._tids, _MOST_THREADS)
        if found == 0:
            if self._late_since != 0:
                self._late_since = 0
                if self._missed:
                    self._record(0, self._none, _NO_OWN, [])
            return
        now = self._clock()
        if self._late_since == 0:
            self._late_since = now
            self._next_ns = min(self._next_ns, now + _MOST_PAUSE_NS)
        if now < self._next_ns:
            return
        self._missed += max(0, found - _MOST_THREADS)
        self._refill(now)
        self._take(self._tids[:min(found, _MOST_THREADS)])
        took = self._clock() - now
        pause = min((now - self._late_since) // _PAUSE_PART, _MOST_PAUSE_NS)
        self._next_ns = now + max(pause, _CPU_SHARE * took)

    def _refill(self, now: int) -> None:
        gained = (now - self._refilled_ns) * _MOST_STACKS / _REFILL_NS
        self._left = min(float(_MOST_STACKS), self._left + gained)
        self._refilled_ns = now

    def _take(self, tids: List[int]) -> None:
        """Takes stacks of these threads, those first that matter most, and of threads with event loops."""
        frames, me = sys._current_frames(), threading.get_ident()
        idents = {thread.native_id: ident for ident, thread in list(threading._active.items())}  # type: ignore[attr-defined]
        loops = [tid for tid, ident in idents.items() if ident in _loops._threads and tid not in tids]
        for tid in tids + loops:
            ident = idents.get(tid)
            frame = frames.get(ident) if ident is not None and ident != me else None
            if frame is None:  # it has ended, or is not Python's
                continue
            if self._left < 1:
                self._missed += 1
                continue
            self._left -= 1
            texts, own = frames_of(frame)
            self._record(tid, self._call_of(tid, frame), own, texts)
        del frames

    def _call_of(self, tid: int, frame: Any) -> int:
        """The system call of a sleeping thread; "lock" for locks of Python; "" if it may run."""
        call = int(lib.system_call_of(tid))
        if call == self._timed_futex:
            return self._lock if frame.f_code in _WAITS else self._none
        return self._lock if call == self._futex else call

    def _record(self, tid: int, call: int, own: int, texts: List[str]) -> None:
        names = (ctypes.c_uint32 * _FRAMES)(*[self._name(text) for text in texts[:_FRAMES]])
        lib.record_stack(tid, call, own, names, min(len(texts), _FRAMES), self._missed)
        self._missed = 0

    def _name(self, text: str) -> int:
        name = self._names.get(text)
        if name is None:
            known = len(self._names) < _MOST_NAMES
            name = int(lib.intern(lib.text("name", text if known else "(other)")))
            if known:
                self._names[text] = name
        return name
