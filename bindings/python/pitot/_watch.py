# SPDX-License-Identifier: Apache-2.0
"""Watches the interpreter: the holder of its lock, its garbage collections, and the names of its threads.

A thread of Python asks for the interpreter's lock every 10 ms, unless one thread alone ran meanwhile. It reads the clock before
it asks, without the lock. If it has to wait, another thread had the lock, and others waited as well. The threads' CPU time
tells the holder: it ran during the wait, and sleeps after it. Threads in native code without the lock run on. The holder's
frame is the place reached when it gave the lock up.

A free-threaded interpreter has no lock. It stops all threads at times, for collections and for looks at all of them. The
watching thread waits for the end of such a stop when it asks.
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

_NAME = "pitot-python"
_INTERVAL_US = 10_000
_TICK_US = 100_000  # for what has to be looked at in Python
_RENAMED_TICKS = 10
_STAYS_TICKS = 10  # a lock that is there for longer is there to stay
_LIKELY = 8  # threads that ran most lately, among them nearly always the holder
_CONTENDED_US = 1_000  # while the lock is contended: threads take turns of 5 ms
_MOST_RAN = 32  # threads whose CPU time the library reads when it asks
_LOOK_US = 100  # a pause with the lock held, for its former holder to fall asleep

_AFTER_FAILURE_S = 1


_keeping_lock = ctypes.PyDLL(None)
_open, _read, _close = _keeping_lock.open, _keeping_lock.read, _keeping_lock.close
_open.argtypes = [ctypes.c_char_p, ctypes.c_int]
_read.argtypes, _read.restype = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_ssize_t

_LIBRARIES = tuple({os.path.dirname(os.__file__) + os.sep, os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep})


def is_library(code: Any) -> bool:
    path = code.co_filename
    return any(part in path for part in _LIBRARIES) or path.startswith("<frozen")


def has_lock() -> bool:
    """Whether threads share the interpreter's lock (GIL). A free-threaded interpreter gets it when an extension needs it."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


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


def _record_collection(end_ns: int, took_ns: int, info: Dict[str, int]) -> None:
    # By now another thread may have had the interpreter's lock.
    lib.collection(max(0, time.monotonic_ns() - end_ns), took_ns, info["generation"], max(0, info["collected"]))
    thread = threading._active.get(threading.get_ident())  # current_thread would make one up
    if thread is not None:
        lib.name_thread(thread.native_id or 0, lib.encode("name", thread.name))


_on_collection = lib.CollectionFunction(_record_collection)  # lives as long as the library may call it


class Collections:
    """Records garbage collections of 1 ms and more, on the collecting thread."""

    def start(self) -> None:
        lib.on_collection(ctypes.cast(_on_collection, ctypes.c_void_p))
        gc.callbacks.append(lib.see_collection)

    def stop(self) -> None:
        if lib.see_collection in gc.callbacks:
            gc.callbacks.remove(lib.see_collection)
        lib.on_collection(None)


class _Threads:
    """The interpreter's threads and their CPU time. The library sorts the arrays, the busiest threads first."""

    def __init__(self, watch: lib.WatchStruct) -> None:
        self._watch = watch
        self.threads: List[threading.Thread] = []
        self.by_tid: Dict[int, threading.Thread] = {}
        self._known: Dict[int, Tuple[str, bool]] = {}  # by tid: name, and whether it is set
        self._use((ctypes.c_int64 * 0)())

    def _use(self, tids: Any) -> None:
        count = len(tids)
        self.tids, self.cpu, self._listed = tids, (ctypes.c_uint64 * count)(), (ctypes.c_uint64 * count)()
        lib.read_cpu(0, tids, self.cpu, count)
        self._listed[:] = self.cpu[:]
        self._now = (ctypes.c_uint64 * count)()
        watch = self._watch
        watch.tids, watch.cpu_ns, watch.listed_ns, watch.count = tids, self.cpu, self._listed, count

    def list(self) -> None:
        """Lists the threads anew. Those known stay in their order."""
        me = threading.get_ident()
        alive = {thread.native_id: thread for thread in threading.enumerate()
                 if getattr(thread, "native_id", None) and (thread.ident != me or thread.name != _NAME)}
        order = [tid for tid in self.tids if tid in alive]
        known = set(order)
        order += [tid for tid in alive if tid not in known]
        self.by_tid = alive
        self.threads = list(alive.values())
        self._use((ctypes.c_int64 * len(order))(*order))
        self.name()

    def name(self) -> None:
        """Names threads in the trace, as far as they have recorded something."""
        alive = {}
        for tid, thread in self.by_tid.items():
            name, known = thread.name, self._known.get(tid)
            if known is None or known[0] != name or not known[1]:
                known = (name, bool(lib.name_thread(tid, lib.encode("name", name))))
            alive[tid] = known
        self._known = alive

    def is_renamed(self) -> bool:
        """Whether a thread has another name than before. Makes no container."""
        threads, at = self.threads, len(self.threads)
        while at > 0:
            at -= 1
            thread = threads[at]
            known = self._known.get(thread.native_id)
            if known is not None and known[0] != thread.name:
                return True
        return False

    def read(self, pause_us: int, most: int) -> List[int]:
        """The CPU time of the first `most` threads, after a pause with the lock held."""
        count = min(len(self.tids), most)
        lib.read_cpu(pause_us, self.tids, self._now, count)
        return self._now[:count]

    def newcomer(self, waited_ns: int) -> Tuple[Optional[threading.Thread], int]:
        """The busiest thread begun since the last listing, if it can have held the lock, and how long it ran. Lists anew."""
        known = set(self.by_tid)
        self.list()
        cpu = dict(zip(self.tids, self.cpu))
        new = [thread for tid, thread in self.by_tid.items() if tid not in known]
        busiest = max(new, key=lambda thread: cpu[thread.native_id], default=None)
        if busiest is None or 5 * cpu[busiest.native_id] < waited_ns:
            return None, 0
        return busiest, min(cpu[busiest.native_id], waited_ns)


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


def _unless_alone(busy: List[int]) -> Set[int]:
    """Several may have run while all threads of Python were stopped: those in native code are not."""
    return set(busy) if len(busy) > 1 else set()


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
    """The watching thread.

    It sleeps and looks in the library, without the interpreter's lock. It runs Python only if there is something to do.
    """

    def __init__(self, locks: bool, on_tick: Callable[[], None], look: Optional[Callable[[], None]] = None,
                 look_if_late: Optional[Callable[[], None]] = None) -> None:
        self._has_lock = self._had_lock = has_lock()
        self._ticks_with_lock = 0
        contention = 0 if not locks else lib.WATCH_LOCK if self._has_lock else lib.WATCH_STOP
        self._on_tick = on_tick
        self._look = look
        self._look_if_late = look_if_late
        self._struct = lib.WatchStruct(
            let_go=ctypes.cast(ctypes.pythonapi.PyEval_SaveThread, ctypes.c_void_p),
            take=ctypes.cast(ctypes.pythonapi.PyEval_RestoreThread, ctypes.c_void_p),
            pause_us=_INTERVAL_US, most_us=_TICK_US,
            looks_for=contention | (lib.WATCH_STEP if look is not None else 0)
            | (lib.WATCH_LATE if look_if_late is not None else 0))
        self._pointer = ctypes.pointer(self._struct)
        self._threads = _Threads(self._struct)
        self._ticks = 0
        self._thread = threading.Thread(target=self._run, name=_NAME, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._struct.is_over = 1
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(1)

    def _run(self) -> None:
        watch, failures = self._watch, 0
        lib.set_thread_name(lib.encode("name", _NAME))
        while not self._struct.is_over:
            try:
                watch()
            except Exception:  # pylint: disable=broad-except
                failures += 1
                if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th: one that stays fills no log
                    _log.exception("watching the interpreter failed (%d times); it goes on", failures)
                time.sleep(_AFTER_FAILURE_S)

    def _watch(self) -> None:
        """Waits until there is something to do, and does it. Makes no container if only a tick has passed."""
        found = lib.watch_interpreter(self._pointer)
        if found & lib.WATCH_TIME:
            self._ticks += 1
            self._on_tick()
            if not self._had_lock:
                self._follow_lock()
        if found & lib.WATCH_THREADS or (found & lib.WATCH_TIME and self._ticks % _RENAMED_TICKS == 0
                                         and self._threads.is_renamed()):
            self._threads.list()
        if found & lib.WATCH_STEP and self._look is not None:
            self._look()
        if found & lib.WATCH_LATE and self._look_if_late is not None:
            self._look_if_late()
        is_contended = found & lib.WATCH_LOCK
        if is_contended:
            self._record(self._struct.got_ns - self._struct.asked_ns, self._struct.got_ns)
        if found & lib.WATCH_STOP:
            self._record_stop(self._struct.got_ns - self._struct.asked_ns, self._struct.got_ns)
        self._struct.pause_us = _CONTENDED_US if is_contended else _INTERVAL_US

    def _follow_lock(self) -> None:
        """Free-threaded, the lock is there while an extension is imported. It stays for one that cannot do without."""
        if has_lock() != self._has_lock:
            self._has_lock = not self._has_lock
            if self._struct.looks_for & (lib.WATCH_STOP | lib.WATCH_LOCK):
                self._struct.looks_for ^= lib.WATCH_STOP | lib.WATCH_LOCK
        self._ticks_with_lock = self._ticks_with_lock + 1 if self._has_lock else 0
        if self._ticks_with_lock == _STAYS_TICKS:
            self._had_lock = True
            _log.warning("interpreter.lock_enabled: an extension brought the interpreter's lock (GIL) back, so threads of Python run "
                         "one at a time. Python's own RuntimeWarning names it. The lock and stacks are recorded from now on")

    def _record_stop(self, waited: int, got: int) -> None:
        """Records a stop of all threads. Reading frames would be another one, so it has no place."""
        threads = self._threads
        at, ran = find_holder(threads.cpu, threads.read(0, _MOST_RAN), waited, _unless_alone)
        tid = threads.tids[at] if at is not None else 0
        thread = threads.by_tid.get(tid)
        name = thread.name if thread is not None else ""
        lib.threads_stopped(time.monotonic_ns() - got, waited, tid, _record.evidence_name(name, name), ran)

    def _runs_on(self, busy: List[int], frames: Dict[int, Any]) -> Set[int]:
        """Those of these threads that may have run native code without the lock.

        A thread at an instruction where the interpreter gives up the lock needs it. Otherwise those still running or runnable
        may not: the former holder sleeps, once it has had a CPU for that. A single busy thread need not be the holder: it
        may have waited for a CPU.
        """
        threads, tids = self._threads.by_tid, self._threads.tids
        in_python = {at for at in busy if _gives_up_lock(frames.get(threads[tids[at]].ident))}
        if in_python:
            return set(busy) - in_python
        runnable = {at for at in busy if _is_runnable(tids[at])}
        if len(runnable) == len(busy):  # the holder may be on its way to sleep
            self._threads.read(_LOOK_US, 0)
            runnable = {at for at in busy if _is_runnable(tids[at])}
        return runnable

    def _record(self, waited: int, got: int) -> None:
        threads, frames = self._threads, sys._current_frames()

        def runs_on(busy: List[int]) -> Set[int]:
            return self._runs_on(busy, frames)

        at, ran = find_holder(threads.cpu, threads.read(0, _LIKELY), waited, runs_on)
        if at is None:
            at, ran = find_holder(threads.cpu, threads.read(0, len(threads.tids)), waited, runs_on)
        thread = threads.by_tid[threads.tids[at]] if at is not None else None
        if thread is None:
            thread, ran = threads.newcomer(waited)
        tid, name, place, function = 0, "", "", ""
        if thread is not None:
            tid, name = thread.native_id or 0, thread.name
            frame = frames.get(thread.ident)
            if frame is not None:
                place, function = place_of(frame), frame.f_code.co_name
        lib.lock_held(time.monotonic_ns() - got, waited, tid, _record.evidence_name(name, name),
                      _record.evidence_name(place, function), ran)
