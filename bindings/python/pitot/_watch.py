# SPDX-License-Identifier: Apache-2.0
"""Watches the interpreter: the holder of its lock, its garbage collections, and the names of its threads.

A thread of Python asks for the interpreter's lock every 10 ms. It reads the clock before it asks, without the lock. If it
has to wait, another thread had the lock, and others waited as well. The threads' CPU time tells the holder: it ran during
the wait, and sleeps after it. Threads in native code without the lock run on. The holder's frame is the place reached
when it gave the lock up.
"""

import ctypes
import gc
import logging
import opcode
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from pitot import _library as lib
from pitot import _record

_log = logging.getLogger("pitot")

_INTERVAL_US = 10_000
_NAMES_US = 100_000  # if only threads are named
_CONTENDED_US = 1_000  # while the lock is contended: threads take turns of 5 ms
_LEAST_NS = 2_000_000  # shorter waits are not recorded
_LOOK_US = 100  # a pause with the lock held, for its former holder to fall asleep
_REFRESH_NS = 100_000_000  # how old the list of threads may be
_MOST_READ = 32  # threads read each time, for their CPU time; the others once a refresh

_AFTER_FAILURE_S = 1
_LEAST_COLLECTION_NS = 1_000_000


_keeping_lock = ctypes.PyDLL(None)
_open, _read, _close = _keeping_lock.open, _keeping_lock.read, _keeping_lock.close
_open.argtypes = [ctypes.c_char_p, ctypes.c_int]
_read.argtypes, _read.restype = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_ssize_t

_LIBRARIES = tuple({os.path.dirname(os.__file__) + os.sep, os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep})


def is_library(code: Any) -> bool:
    path = code.co_filename
    return any(part in path for part in _LIBRARIES) or path.startswith("<frozen")


def _line(frame: Any) -> str:
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {getattr(code, 'co_qualname', code.co_name)}"


def place_of(frame: Any, until: Any = None) -> str:
    """"cache.py:88 get" for the frame's current line; in a library, "encoder.py:261 iterencode, from cache.py:88 get".

    Callers from `until` on do not count.
    """
    text = _line(frame)
    if not is_library(frame.f_code):
        return text
    outer = frame.f_back
    while outer is not None and outer is not until and is_library(outer.f_code):
        outer = outer.f_back
    return text if outer is None or outer is until else f"{text[:56]}, from {_line(outer)}"


class Collections:
    """Records garbage collections of 1 ms and more, on the collecting thread."""

    def __init__(self) -> None:
        self._began = 0

    def start(self) -> None:
        gc.callbacks.append(self)

    def stop(self) -> None:
        if self in gc.callbacks:
            gc.callbacks.remove(self)

    def __call__(self, phase: str, info: Dict[str, int], _clock: Callable[[], int] = time.perf_counter_ns) -> None:
        # A collection never begins within another, and all threads wait for it: one time is enough.
        if phase == "start":
            self._began = _clock()
            return
        took = _clock() - self._began
        if took >= _LEAST_COLLECTION_NS and self._began != 0:
            lib.collection(took, info["generation"], max(0, info["collected"]))
            thread = threading._active.get(threading.get_ident())  # current_thread would make one up
            if thread is not None:
                lib.name_thread(thread.native_id or 0, lib.encode(thread.name))


class _Threads:
    """The interpreter's threads and their CPU time."""

    def __init__(self) -> None:
        self.listed_ns = 0
        self.threads: List[threading.Thread] = []  # the busiest first
        self.tids: Any = (ctypes.c_int64 * 0)()
        self._listed_cpu: List[int] = []  # of the rest, when they were listed
        self._arguments: Optional[Tuple[Any, Any, int]] = None
        self._known: Dict[int, Tuple[str, bool]] = {}  # by tid: name, and whether it is set

    def list(self, now_ns: int) -> None:
        """Lists the threads anew, sorted by their CPU time since the last listing."""
        threads = [thread for thread in threading.enumerate() if getattr(thread, "native_id", None)]
        tids = (ctypes.c_int64 * len(threads))(*[thread.native_id for thread in threads])
        cpu = (ctypes.c_uint64 * len(threads))()
        lib.read_cpu(0, tids, cpu, len(threads))
        before = dict(zip(self.tids, self._listed_cpu))
        order = sorted(range(len(threads)), key=lambda at: before.get(tids[at], 0) - cpu[at])
        self.threads = [threads[at] for at in order]
        self.tids = (ctypes.c_int64 * len(threads))(*[tids[at] for at in order])
        self._listed_cpu = [cpu[at] for at in order]
        self._arguments = None
        self.listed_ns = now_ns
        self._name()

    def _name(self) -> None:
        """Names threads in the trace, as far as they have recorded something."""
        alive = {}
        for thread in self.threads:
            tid, name = thread.native_id, thread.name
            known = self._known.get(tid)
            if known is None or known[0] != name or not known[1]:
                known = (name, bool(lib.name_thread(tid, lib.encode(name))))
            alive[tid] = known
        self._known = alive

    def arguments(self) -> Tuple[Any, Any, int]:
        """The arguments for reading CPU time. The second takes it; `before` copies it."""
        if self._arguments is None:
            count = min(len(self.threads), _MOST_READ)
            self._arguments = self.tids, (ctypes.c_uint64 * count)(), count
        return self._arguments

    def read(self, pause_us: int) -> List[int]:
        """The CPU time of all, after a pause with the lock held."""
        count = len(self.threads)
        cpu = (ctypes.c_uint64 * count)()
        lib.read_cpu(pause_us, self.tids, cpu, count)
        return list(cpu)

    def newcomer(self, waited_ns: int) -> Tuple[Optional[threading.Thread], int]:
        """The busiest thread begun since the last listing, if it can have held the lock, and how long it ran. Lists anew."""
        known = {thread.native_id for thread in self.threads}
        self.list(time.monotonic_ns())
        cpu = {thread.native_id: ran for thread, ran in zip(self.threads, self._listed_cpu)}
        new = [thread for thread in self.threads if thread.native_id not in known]
        busiest = max(new, key=lambda thread: cpu[thread.native_id], default=None)
        if busiest is None or 5 * cpu[busiest.native_id] < waited_ns:
            return None, 0
        return busiest, min(cpu[busiest.native_id], waited_ns)

    def before(self, cpu: Any) -> List[int]:
        """The CPU time of all: those read, and the others' of the last listing."""
        return list(cpu) + self._listed_cpu[len(cpu):]


def find_holder(before: Sequence[int], now: Sequence[int], waited_ns: int,
                runs_on: Callable[[List[int]], Set[int]]) -> Tuple[Optional[int], int]:
    """Returns the holder of the lock during the watcher's wait, and how long it ran. None: it slept, or is not listed.

    `before` and `now` are the CPU time of each thread when the wait began and ended. The holder ran for a fifth of the wait or
    more. `runs_on` returns those still running or runnable although the watcher has the lock. They did not need it.
    """
    ran = [end - start for start, end in zip(before, now)]
    busy = [at for at, ns in enumerate(ran) if 5 * ns >= waited_ns]
    others = runs_on(busy) if busy else set()
    busy = [at for at in busy if at not in others]
    if not busy:
        return None, 0
    holder = max(busy, key=lambda at: ran[at])
    return holder, min(ran[holder], waited_ns)


def _gives_up_lock(frame: Any) -> bool:
    """Whether the frame is at an instruction that only asks whether to give up the lock. A call may be of native code."""
    if frame is None or frame.f_lasti < 0:
        return False
    name = opcode.opname[frame.f_code.co_code[frame.f_lasti]]
    return name.startswith(("JUMP_", "POP_JUMP_")) or name == "RESUME"


def _is_runnable(tid: int) -> bool:
    # Python's files let go of the lock: its former holder would take it and run.
    file = _open(b"/proc/self/task/%d/stat" % tid, os.O_RDONLY | os.O_CLOEXEC)
    if file < 0:  # it has ended
        return False
    stat = ctypes.create_string_buffer(256)  # the state comes after the name, which is short
    length = _read(file, stat, len(stat))
    _close(file)
    return stat.raw[:max(0, length)].rpartition(b") ")[2][:1] == b"R"


class Watch:
    """The watching thread."""

    def __init__(self, locks: bool, on_tick: Callable[[], None], look: Callable[[], None] = lambda: None,
                 look_if_late: Optional[Callable[[], None]] = None) -> None:
        self._locks = locks and getattr(sys, "_is_gil_enabled", lambda: True)()
        self._on_tick = on_tick
        self._look = look
        self._look_if_late = look_if_late
        self._is_over = False
        self._threads = _Threads()
        self._thread = threading.Thread(target=self._run, name="pitot-python", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over = True
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(1)

    def _run(self) -> None:
        pause_us, watch, failures = _INTERVAL_US, self._watch, 0
        while not self._is_over:
            try:
                pause_us = watch(pause_us)
            except Exception:  # pylint: disable=broad-except
                failures += 1
                if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th: one that stays fills no log
                    _log.exception("watching the interpreter failed (%d times); it goes on", failures)
                time.sleep(_AFTER_FAILURE_S)

    def _watch(self, pause_us: int) -> int:
        """One look; returns the pause until the next."""
        threads = self._threads
        now = time.monotonic_ns()
        if now - threads.listed_ns > _REFRESH_NS:
            threads.list(now)
            self._on_tick()
        if not self._locks:
            lib.sleep_and_read_cpu(pause_us, None, None, 0)
            if self._look_if_late is None:
                return _NAMES_US
            self._look_if_late()
            return _INTERVAL_US
        tids, cpu, count = threads.arguments()
        asked = lib.sleep_and_read_cpu(pause_us, tids, cpu, count)  # without the lock; then asks for it
        got = time.monotonic_ns()
        self._look()
        if self._look_if_late is not None:
            self._look_if_late()
        if got - asked < _LEAST_NS:
            return _INTERVAL_US
        self._record(cpu, got - asked, got)
        return _CONTENDED_US

    def _runs_on(self, busy: List[int]) -> Set[int]:
        """Those of these threads that may have run native code without the lock.

        A thread at an instruction where the interpreter gives up the lock needs it. Otherwise those still running or runnable
        may not: the former holder sleeps, once it has had a CPU for that. A single busy thread need not be the holder: it
        may have waited for a CPU.
        """
        threads, tids, frames = self._threads.threads, self._threads.tids, sys._current_frames()
        in_python = {at for at in busy if _gives_up_lock(frames.get(threads[at].ident))}
        if in_python:
            return set(busy) - in_python
        runnable = {at for at in busy if _is_runnable(tids[at])}
        if len(runnable) == len(busy):  # the holder may be on its way to sleep
            self._threads.read(_LOOK_US)
            runnable = {at for at in busy if _is_runnable(tids[at])}
        return runnable

    def _record(self, cpu: Any, waited: int, got: int) -> None:
        threads = self._threads
        at, ran = find_holder(threads.before(cpu), threads.read(0), waited, self._runs_on)
        thread = threads.threads[at] if at is not None else None
        if thread is None:
            thread, ran = threads.newcomer(waited)
        tid, name, place = 0, "", ""
        if thread is not None:
            tid, name = thread.native_id or 0, thread.name
            frame = sys._current_frames().get(thread.ident)
            place = place_of(frame) if frame is not None else ""
            del frame
        lib.lock_held(time.monotonic_ns() - got, waited, tid, _record.evidence_name(name), _record.evidence_name(place), ran)
