#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evidence of the interpreter in the Python package: collections, its lock, event loops, stacks and names of threads.

Environment: PITOT_LIBRARY, PITOT_PACKAGE (the package's folder; unset: the sources), PITOT_CALLS
"""

import asyncio
import contextvars
import ctypes
import faulthandler
import functools
import gc
import hashlib
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.environ.get("PITOT_PACKAGE", os.path.join(os.path.dirname(os.path.dirname(HERE)), "bindings", "python"))
sys.path.insert(0, PACKAGE)

import pitot  # noqa: E402
from pitot import _library, _loops, _record, _stacks, _watch  # noqa: E402

FILE = os.path.basename(__file__)
with_lock = unittest.skipUnless(_watch.has_lock(), "this interpreter has no lock")


def without_lock():
    """As in a free-threaded interpreter."""
    return unittest.mock.patch.object(sys, "_is_gil_enabled", lambda: False, create=True)


class WithRecorder(unittest.TestCase):
    def wait_until(self, is_so, claim):
        """Fails with the claim unless it comes true in time."""
        deadline = time.monotonic() + 60
        while not is_so():
            self.assertLess(time.monotonic(), deadline, f"not within a minute: {claim}")
            time.sleep(0)

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.incidents = []
        self.recorder = pitot.start(temporary.name, post_window_ms=0, perfetto_file=True, interpreter_lock=False,
                                    stacks=False)
        self.addCleanup(self.recorder.stop)
        self.assertTrue(self.recorder.status, self.recorder.status)
        self.recorder.on_incident(self.incidents.append)

    def trace(self):
        """The bytes of the Perfetto trace of an incident triggered now."""
        self.assertTrue(self.recorder.trigger("look"))
        self.assertTrue(self.recorder.flush())
        with open(os.path.join(self.incidents[-1].directory, "trace.pftrace"), "rb") as file:
            return file.read()


class EventLoops(WithRecorder):
    def test_the_threads_request_follows_the_tasks(self):
        seen = []

        async def serve(route, pause):
            with pitot.Request(route) as request:
                for _ in range(3):
                    await asyncio.sleep(pause)
                    seen.append((pitot.this_owner().request, request.id))
            await asyncio.sleep(0)
            seen.append((pitot.this_owner().request, 0))

        async def main():
            await asyncio.gather(serve("/a", 0.001), serve("/b", 0.0015))
            seen.append((pitot.this_owner().request, 0))

        asyncio.run(main())
        self.assertEqual(len(seen), 9)
        for owner, request in seen:
            self.assertIn(owner, (request,) if request else (0, *(known for _, known in seen)))

    def test_a_loop_run_in_a_request_leaves_it_to_the_thread(self):
        async def part():
            await asyncio.sleep(0)
            pitot.instant("an event")
            return pitot.this_owner().request

        with pitot.Request("/sync") as request:
            self.assertEqual(asyncio.run(part()), request.id)
            self.assertEqual(pitot.this_owner().request, request.id)
        self.assertEqual(pitot.this_owner().request, 0)

    def test_tasks_made_for_a_request_belong_to_it(self):
        async def part():
            await asyncio.sleep(0)
            return pitot.this_owner().request

        async def main():
            with pitot.Request("/a") as request:
                self.assertEqual(await asyncio.gather(part(), asyncio.create_task(part())), [request.id] * 2)
            return await asyncio.create_task(part())

        asyncio.run(main())

    def test_a_task_that_outlives_its_request_belongs_to_none(self):
        async def engine(go_on):
            await go_on.wait()
            return pitot.this_owner().request

        async def serve(end):
            go_on, request = asyncio.Event(), pitot.Request("/a")
            task = asyncio.create_task(engine(go_on))
            await asyncio.sleep(0)
            end(request)
            del request
            go_on.set()
            return await task, pitot.this_owner().request

        def on_another_thread(request):
            thread = threading.Thread(target=request.finish)
            thread.start()
            thread.join()

        for end in (pitot.Request.finish, lambda dropped: None, on_another_thread):
            self.assertEqual(asyncio.run(serve(end)), (0, 0))

    def test_after_a_part_of_a_request_its_task_belongs_to_the_request(self):
        async def main():
            with pitot.Request("/a") as request:
                with request.child("/part") as part:
                    await asyncio.sleep(0)
                    self.assertEqual(pitot.this_owner().request, part.id)
                await asyncio.sleep(0)
                self.assertEqual(pitot.this_owner().request, request.id)

        asyncio.run(main())

    def test_a_step_that_ends_its_request_is_recorded_with_it(self):
        recorded, context = [], contextvars.copy_context()
        request = context.run(pitot.Request, "/a")
        with unittest.mock.patch.object(_loops.lib, "step_record", lambda name, request: recorded.append(request)):
            _loops._record_step(print, context, 0)
            began = _loops._tick()
            context.run(request.finish)
            _loops._record_step(print, context, began)
            _loops._record_step(print, context, _loops._tick())
        self.assertEqual(recorded, [request.id, request.id, 0])

    def test_a_step_that_leaves_the_interpreter_ends(self):
        context, loop = contextvars.copy_context(), asyncio.new_event_loop()
        self.addCleanup(loop.close)
        request = context.run(pitot.Request, "/a")
        with pitot.Request("/outer") as outer:
            for leave in (SystemExit, KeyboardInterrupt):
                with self.assertRaises(leave):
                    asyncio.Handle(unittest.mock.Mock(side_effect=leave), (), loop, context)._run()
                self.assertEqual(pitot.this_owner().request, outer.id)
        request.finish()

    def test_a_scope_around_an_await_is_counted_and_not_recorded(self):
        async def take(name, pause):
            with pitot.scope(name):
                await asyncio.sleep(pause)
            with pitot.scope("whole"):
                pass

        async def main():
            await asyncio.gather(take("takes 5 ms", 0.005), take("takes 20 ms", 0.02))

        with pitot.scope("around the loop"):
            asyncio.run(main())
        trace = self.trace()
        stats = self.recorder.stats()
        self.assertEqual((stats.scopes_closed_elsewhere, stats.scopes_misnested), (2, 0))
        self.assertNotIn(b"takes ", trace)
        for text in (b"whole", b"around the loop"):
            self.assertIn(text, trace)

    def test_a_step_that_held_the_loop_is_recorded_by_its_function(self):
        async def slow_handler():
            time.sleep(0.002)

        def slow_callback(_number):
            time.sleep(0.002)

        async def main():
            await asyncio.create_task(slow_handler())
            asyncio.get_running_loop().call_soon(functools.partial(slow_callback, 1))
            await asyncio.sleep(0.001)

        asyncio.run(main())
        trace = self.trace()
        for function in ("slow_handler", "slow_callback"):
            self.assertRegex(trace, f"{function} \\({FILE}:[0-9]+\\)".encode())

    @with_lock
    def test_a_step_has_the_line_at_which_it_was_seen(self):
        async def handler():
            time.sleep(0.002)  # from now on the thread is known to have a loop
            await asyncio.sleep(0)
            look()
            time.sleep(0.002)

        def look():
            looker = threading.Thread(target=_loops.look)
            looker.start()
            looker.join()

        asyncio.run(handler())
        # On a busy machine the recorder's own watch may have seen the handler before it called `look`.
        self.assertRegex(self.trace(), f"handler \\({FILE}:[0-9]+\\), at (?:[^\n]*, from )?{FILE}:[0-9]+ ".encode())

    def test_without_the_interpreters_lock_no_line_of_a_step_is_looked_for(self):
        with unittest.mock.patch.object(_loops, "_threads", {threading.get_ident()}), without_lock(), \
                unittest.mock.patch.object(sys, "_current_frames", side_effect=AssertionError("it stops all threads")):
            _loops.look()

    def test_a_line_seen_in_an_earlier_step_is_not_the_steps(self):
        names, context = [], contextvars.copy_context()

        def look():  # as the watch at the step's frame; a later step's frame may get its id
            _loops._places[threading.get_ident()] = id(sys._getframe(1)), _loops._tick(), "app.py:3 f"

        def step():
            look()
            _loops._record_step(print, context, before)
            _loops._record_step(print, context, before)
            look()
            _loops._record_step(print, context, _loops._tick())

        before = _loops._tick()
        with unittest.mock.patch.object(_record, "evidence_name", lambda name, _rough: names.append(name) or 0):
            step()
        self.assertEqual(names, ["app.py:3 f", "print", "print"])

    def test_names_of_callbacks(self):
        class Callable:
            def __call__(self):
                pass

        self.assertEqual(_loops.name_of(print), "print")
        self.assertEqual(_loops.name_of(print, "app.py:3 f"), "app.py:3 f")
        self.assertEqual(_loops.name_of(asyncio.sleep, "app.py:3 f"), "app.py:3 f")
        self.assertEqual(_loops.name_of(Callable()), "Callable")
        self.assertRegex(_loops.name_of(self.trace), f"^WithRecorder.trace \\({FILE}:[0-9]+\\)$")

    def test_asyncio_imported_after_the_start_is_followed(self):
        code = """
import sys, time, pitot
recorder = pitot.start()
assert "asyncio" not in sys.modules
import asyncio
deadline = time.monotonic() + 60
while asyncio.events.Handle._run.__module__ != "pitot._loops":
    assert time.monotonic() < deadline
    time.sleep(0.01)
recorder.stop()
print(asyncio.events.Handle._run.__module__)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120,
                              env={**os.environ, "PYTHONPATH": PACKAGE})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "asyncio.events\n", ""))


@unittest.skipUnless(importlib.util.find_spec("uvloop"), "uvloop is not installed")
class EventLoopsOfUvloop(WithRecorder):
    def setUp(self):
        super().setUp()
        import uvloop
        self.run_loop = uvloop.run
        self.wait_until(lambda: "call_soon" in vars(uvloop.Loop), "the watch follows uvloop")

    def test_requests_follow_their_tasks(self):
        seen = []

        async def serve(route, pause):
            with pitot.Request(route) as request:
                for _ in range(3):
                    await asyncio.sleep(pause)
                    seen.append((pitot.this_owner().request, request.id))

        async def main():
            await asyncio.gather(serve("/a", 0.001), serve("/b", 0.0015), serve("/c", 0))
            seen.append((pitot.this_owner().request, 0))

        self.run_loop(main())
        self.assertEqual(len(seen), 10)
        for owner, request in seen:
            self.assertEqual(owner, request)

    def test_a_step_that_held_the_loop_is_recorded_by_its_function(self):
        async def slow_handler():
            time.sleep(0.002)

        def slow_callback(_number):
            time.sleep(0.002)

        def slow_timer():
            time.sleep(0.002)

        async def main():
            await asyncio.create_task(slow_handler())
            asyncio.get_running_loop().call_soon(functools.partial(slow_callback, 1))
            asyncio.get_running_loop().call_later(0.001, slow_timer)
            await asyncio.sleep(0.005)

        self.run_loop(main())
        trace = self.trace()
        for function in ("slow_handler", "slow_callback", "slow_timer"):
            self.assertRegex(trace, f"{function} \\({FILE}:[0-9]+\\)".encode())


class LoopsWithHandlesOfTheirOwn(unittest.TestCase):
    """As uvloop.Loop: its callbacks do not run by asyncio's handles."""

    class Base:
        def __init__(self):
            self.ready = []

        def call_soon(self, callback, *args, context=None):
            self.ready.append((contextvars.copy_context() if context is None else context, callback, args))
            return len(self.ready)

        def call_soon_threadsafe(self, callback, *args, context=None):
            return self.call_soon(callback, *args, context=context)

        def call_later(self, delay, callback, *args, context=None):
            return self.call_soon(callback, *args, context=context)

        def run(self):
            for context, callback, args in self.ready:
                context.run(callback, *args)

    def setUp(self):
        class Loop(self.Base):
            pass

        self.loop_type, self.steps = Loop, []
        for patch in (unittest.mock.patch.dict(sys.modules, {"uvloop": types.SimpleNamespace(Loop=Loop)}),
                      unittest.mock.patch.object(_loops, "step_begin", lambda of: self.steps.append(of.value)),
                      unittest.mock.patch.object(_loops, "step_end", lambda: self.steps.append("end"))):
            patch.start()
            self.addCleanup(patch.stop)
        self.loops = _loops.Loops()
        self.addCleanup(self.loops.remove)

    def test_each_callback_is_a_step_of_its_contexts_request(self):
        self.loops.install()
        loop, context = self.loop_type(), contextvars.copy_context()
        context.run(_loops.enter, 7)
        self.assertEqual(loop.call_soon(self.steps.append, "a", context=context), 1)
        loop.call_later(0, self.steps.append, "b")
        loop.run()
        self.assertEqual(self.steps, [7, "a", "end", 0, "b", "end"])
        self.assertEqual(repr(loop.ready[0][1]), repr(self.steps.append))

    def test_the_loop_itself_gets_what_cannot_be_called(self):
        self.loops.install()
        loop = self.loop_type()
        loop.call_soon(None)
        self.assertIsNone(loop.ready[0][1])

    def test_a_callback_that_fails_ends_its_step(self):
        self.loops.install()
        loop = self.loop_type()
        loop.call_soon([].pop)
        with self.assertRaises(IndexError):
            loop.run()
        self.assertEqual(self.steps, [0, "end"])

    def test_the_loop_is_as_before_after_the_end(self):
        before = dict(vars(self.loop_type))
        self.loops.install()
        self.assertNotEqual(vars(self.loop_type), before)
        self.loops.remove()
        self.loops.install()
        self.assertEqual(vars(self.loop_type), before)

    def test_a_loop_that_cannot_be_followed_is_logged_once(self):
        self.loops.install()
        of_asyncio = asyncio.new_event_loop()
        self.addCleanup(of_asyncio.close)
        for loop, is_logged in ((of_asyncio, False), (self.loop_type(), False), (None, False), (self.Base(), True), (self.Base(), False)):
            with unittest.mock.patch.object(_loops, "_running_loop", lambda running=loop: running), \
                    self.assertLogs("pitot", "WARNING") as logged:
                _loops.enter(7).leave(None)
                _loops._log.warning("the end")
            self.assertEqual(len(logged.output), 2 if is_logged else 1, logged.output)
            if is_logged:
                self.assertRegex(logged.output[0], "loops.not_followed: .*Base")


class Interpreter(WithRecorder):
    def test_a_collection_of_a_millisecond_is_recorded(self):
        for is_long in (False, True):
            _library.see_collection("start", {})
            began = time.monotonic_ns()
            while is_long and time.monotonic_ns() - began < 1_000_000:
                pass
            _library.see_collection("stop", {"generation": 2, "collected": 7})
            self.assertEqual(b"garbage collection" in self.trace(), is_long)

    @with_lock
    def test_a_collection_ends_before_another_thread_has_the_lock(self):
        told = []
        function = _library.CollectionFunction(lambda end_ns, took_ns, info: told.append((took_ns, info["generation"])))
        _library.on_collection(ctypes.cast(function, ctypes.c_void_p))
        self.addCleanup(_library.on_collection, None)
        heap = [[]]
        while not told or told[-1][0] < 30_000_000:  # long enough for the other thread to ask for the lock
            heap += [[] for _ in heap]
            gc.collect()
        hold_us = told[-1][0] // 1000 * 10
        go = threading.Lock()

        def hold(began):
            with go:
                began.append(True)
                ctypes.PyDLL(None).usleep(hold_us)  # keeps the interpreter's lock

        def collects_beside_it():
            """Whether the other thread had the lock at the end of the collection. On a busy machine it may get no CPU in it."""
            began = []
            with go:
                thread = threading.Thread(target=hold, args=(began,))
                thread.start()
            gc.collect()
            had_lock = bool(began)
            thread.join()
            return had_lock

        self.wait_until(collects_beside_it, "the other thread had the lock at the end of a collection")
        self.assertLess(told[-1][0], hold_us * 1000)
        self.assertEqual(told[-1][1], 2)

    def test_the_lock_is_held_by_the_thread_that_ran_and_then_slept(self):
        ms = 1_000_000
        find = _watch.find_holder
        self.assertEqual(find([0, 5 * ms, 0], [0, 14 * ms, 1 * ms], 10 * ms, lambda busy: set()), (1, 9 * ms))
        self.assertEqual(find([0, 0], [3 * ms, 10 * ms], 10 * ms, lambda busy: {1}), (0, 3 * ms))
        self.assertEqual(find([0, 0], [10 * ms, 10 * ms], 10 * ms, set), (None, 0))
        self.assertEqual(find([0, 0], [1 * ms, 1 * ms], 10 * ms, lambda busy: set()), (None, 0))
        self.assertEqual(find([], [], 10 * ms, lambda busy: set()), (None, 0))

    def test_a_thread_in_native_code_is_not_the_holder(self):
        watch = _watch.Watch(True, lambda: None)
        watch._threads.by_tid, watch._threads.tids = dict.fromkeys((10, 11, 12), threading.current_thread()), (ctypes.c_int64 * 3)(10, 11, 12)
        with unittest.mock.patch.object(_watch, "_is_runnable", lambda tid: tid == 10):
            self.assertEqual(watch._runs_on([0, 1, 2], {}), {0})
            self.assertEqual(watch._runs_on([0], {}), {0})  # the holder may have had no CPU
            self.assertEqual(watch._runs_on([1], {}), set())
            with unittest.mock.patch.object(_watch, "_gives_up_lock", unittest.mock.Mock(side_effect=[True, False, False])):
                self.assertEqual(watch._runs_on([0, 1, 2], {}), {1, 2})
        self.assertTrue(_watch._is_runnable(threading.get_native_id()))
        self.assertFalse(_watch._is_runnable(1 << 30))

    def test_a_stop_of_all_threads_is_seen_when_the_watch_asks(self):
        # As functions of the interpreter: it stops its threads for `state` us when it is asked for.
        let_go, take = ctypes.PYFUNCTYPE(ctypes.c_void_p)(lambda: 5000), ctypes.PyDLL(None).usleep
        for looks_for in (_library.WATCH_STOP, _library.WATCH_LOCK, 0):
            struct = _library.WatchStruct(let_go=ctypes.cast(let_go, ctypes.c_void_p), take=ctypes.cast(take, ctypes.c_void_p),
                                          looks_for=looks_for)
            self.assertEqual(_library.watch_interpreter(struct) & (_library.WATCH_STOP | _library.WATCH_LOCK), looks_for)
            self.assertGreaterEqual(struct.got_ns - struct.asked_ns, 2_000_000)

    def test_the_lock_is_not_asked_for_while_one_thread_alone_runs(self):
        asked, is_over = [], threading.Event()
        let_go, take = ctypes.PYFUNCTYPE(ctypes.c_void_p)(lambda: None), ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(asked.append)

        def spin():  # without the lock, for long
            while not is_over.is_set():
                hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000)

        def asks(*tids, pause_us=10_000):
            count = len(tids)
            struct = _library.WatchStruct(
                let_go=ctypes.cast(let_go, ctypes.c_void_p), take=ctypes.cast(take, ctypes.c_void_p), looks_for=_library.WATCH_LOCK,
                pause_us=pause_us, most_us=100_000, next_refresh_ns=(1 << 64) - 1, tids=(ctypes.c_int64 * count)(*tids), count=count,
                cpu_ns=(ctypes.c_uint64 * count)(), listed_ns=(ctypes.c_uint64 * count)())
            _library.watch_interpreter(struct)  # learns when the threads ran
            asked.clear()
            _library.watch_interpreter(struct)
            return len(asked)

        spinner = threading.Thread(target=spin)
        spinner.start()
        self.addCleanup(spinner.join)
        self.addCleanup(is_over.set)
        self.wait_until(lambda: asks(spinner.native_id) == 1, "at the end, for what has to be looked at in Python")
        self.wait_until(lambda: asks(spinner.native_id, spinner.native_id) > 4, "two run")
        self.wait_until(lambda: asks(threading.get_native_id()) > 4, "one hardly runs: it may wait for a holder that sleeps")
        self.wait_until(lambda: asks() > 4, "none is known")
        self.wait_until(lambda: asks(spinner.native_id, pause_us=2000) > 4, "one that waits may sleep for as long")

    def test_a_stop_is_recorded_with_the_only_thread_that_ran(self):
        ms, stops = 1_000_000, []
        with without_lock():
            watch = _watch.Watch(True, lambda: None)
        watch._threads.list()
        others = {tid: threading.current_thread() for tid in (1, 2)}
        with unittest.mock.patch.object(_watch.lib, "threads_stopped", lambda *stop: stops.append(stop[1:])), \
                unittest.mock.patch.multiple(watch._threads, by_tid=others, tids=(ctypes.c_int64 * 2)(1, 2), cpu=(0, 0)), \
                unittest.mock.patch.object(sys, "_current_frames", side_effect=AssertionError("it stops all threads")):
            for now in ([9 * ms, 0], [9 * ms, 9 * ms], [0, 0]):
                with unittest.mock.patch.object(watch._threads, "read", lambda pause, most, now=now: now):
                    watch._record_stop(10 * ms, time.monotonic_ns())
        main, nobody = _record.evidence_name("MainThread"), _record.evidence_name("")
        self.assertEqual(stops, [(10 * ms, 1, main, 9 * ms), (10 * ms, 0, nobody, 0), (10 * ms, 0, nobody, 0)])

    @unittest.skipIf(_watch.has_lock(), "this interpreter has a lock")
    def test_a_stop_that_waits_for_native_code_is_recorded(self):
        stops, is_over = [], []

        def stop_threads():
            while not is_over:
                sys._current_frames()

        stopper = threading.Thread(target=stop_threads)
        with unittest.mock.patch.object(_watch.lib, "threads_stopped", lambda *stop: stops.append(stop[1])):
            watch = _watch.Watch(True, lambda: None)
            watch.start()
            self.addCleanup(watch.stop)
            stopper.start()
            self.addCleanup(stopper.join)
            self.addCleanup(is_over.append, True)

            def native_code():
                ctypes.PyDLL(None).usleep(50_000)  # does not let the interpreter stop its thread
                return stops

            self.wait_until(native_code, "a stop is recorded")
            watch.stop()
        self.assertGreater(max(stops), 2_000_000)

    def test_an_extension_that_brings_the_lock_back_is_logged_once_and_the_lock_watched(self):
        self.recorder.stop()  # its own watch would log, too
        with without_lock():
            watch = _watch.Watch(True, lambda: None)
            self.assertEqual(watch._struct.looks_for, _library.WATCH_STOP)
            watch._struct.most_us = watch._struct.pause_us = 0
            watch._watch()
        with self.assertLogs("pitot", "WARNING") as logged:
            for ticks, is_there in ((_watch._STAYS_TICKS - 1, True), (1, False), (99, True)):  # for an import at first
                with unittest.mock.patch.object(sys, "_is_gil_enabled", lambda: is_there, create=True):  # pylint: disable=cell-var-from-loop
                    for _ in range(ticks):
                        watch._watch()
                self.assertEqual(watch._struct.looks_for, _library.WATCH_LOCK if is_there else _library.WATCH_STOP)
                self.assertEqual(len(logged.output), ticks // 99)
        self.assertRegex(logged.output[0], "^WARNING:pitot:interpreter.lock_enabled: [^\n]*$")

    @with_lock
    def test_the_lock_is_kept_while_states_of_threads_are_read(self):
        looks, is_over = [0], []

        def want_the_lock():
            while not is_over:
                looks[0] += 1
                time.sleep(0)

        other = threading.Thread(target=want_the_lock)
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        other.start()
        self.addCleanup(other.join)
        self.addCleanup(is_over.append, True)
        sys.setswitchinterval(1000)  # from now on the lock is only given up at calls that let go of it
        before = looks[0]
        # The other thread may still wait by the old interval, but not once it has had the lock.
        self.wait_until(lambda: looks[0] != before, "the other thread gets the lock")
        before = looks[0]
        for _ in range(1000):
            _watch._is_runnable(other.native_id)
        self.assertEqual(looks[0], before)

    def test_a_thread_in_a_loop_of_python_needs_the_lock(self):
        is_over = []

        def spin():
            while not is_over:
                pass

        spinner = threading.Thread(target=spin)
        spinner.start()
        self.addCleanup(spinner.join)
        self.addCleanup(is_over.append, True)
        self.wait_until(lambda: _watch._gives_up_lock(sys._current_frames().get(spinner.ident)), "the thread is in its loop")
        self.assertFalse(_watch._gives_up_lock(sys._getframe()))  # at a call
        self.assertFalse(_watch._gives_up_lock(None))

    def test_the_holder_is_recorded_with_its_thread_and_line(self):
        watch = _watch.Watch(True, lambda: None)
        watch._threads.list()
        ctypes.memset(watch._threads.cpu, 0, ctypes.sizeof(watch._threads.cpu))  # each thread ran all of its time since
        with pitot.scope("a record of this thread"), unittest.mock.patch.object(watch, "_runs_on", lambda *_: set()):
            watch._record(1_000_000, time.monotonic_ns())
        trace = self.trace()
        for text in (b"waited for the interpreter's lock", b"MainThread", b"_watch.py:"):
            self.assertIn(text, trace)

    def test_beyond_the_limit_a_place_keeps_its_function_and_a_thread_its_name(self):
        with unittest.mock.patch.multiple(_record, _MOST_EVIDENCE=2, _evidence={}, _rough_evidence={}):
            for line in range(9):
                _record.evidence_name(f"busy.py:{line} crunch", "crunch")
            thread = _record.evidence_name("report-7", "report-7")
            crunch = _record.evidence_name("busy.py:99 crunch", "crunch")
            other = _record.evidence_name("busy.py:99 rest", "rest")
        names = {name: int(_library.intern(name.encode())) for name in ("crunch", "report-7", "(other)")}
        self.assertEqual((crunch, thread, other), (names["crunch"], names["report-7"], names["(other)"]))

    def test_a_thread_that_began_since_the_last_look_may_be_the_holder(self):
        threads = _watch._Threads(_library.WatchStruct())
        threads.list()
        ran, go_on = threading.Event(), threading.Event()

        def run():
            while time.thread_time_ns() < 2_000_000:
                pass
            ran.set()
            go_on.wait()

        newcomer = threading.Thread(target=run)
        newcomer.start()
        self.addCleanup(newcomer.join)
        self.addCleanup(go_on.set)
        ran.wait()
        self.assertEqual(threads.newcomer(1_000_000), (newcomer, 1_000_000))
        self.assertEqual(threads.newcomer(1_000_000), (None, 0))

    def test_a_place_in_a_library_has_the_line_that_called_it(self):
        frames = []
        with unittest.mock.patch.object(_watch, "is_library", lambda code: code.co_name != "call"):
            def library():
                frames.append(_watch.place_of(sys._getframe()))

            def call():
                library()
                frames.append(_watch.place_of(sys._getframe()))

            call()
        self.assertRegex(frames[0], f"^{FILE}:[0-9]+ .*, from {FILE}:[0-9]+ .*call$")
        self.assertRegex(frames[1], f"^{FILE}:[0-9]+ .*call$")
        own = sys._getframe()
        with unittest.mock.patch.object(_watch, "is_library", lambda code: True):
            self.assertNotIn("from", _watch.place_of(own, own.f_back))

    def test_names_of_evidence_leave_most_of_the_table_to_the_host(self):
        places = [f"app.py:{line} of evidence" for line in range(1100)]
        functions = {f"function_{number}": 0 for number in range(1000)}
        with unittest.mock.patch.multiple(_record, _evidence={}, _rough_evidence=functions):
            names = [_record.evidence_name(place) for place in places]
            self.assertEqual(len(set(names[:1000])), 1000)
            self.assertEqual(set(names[1000:]), {_record._name("(other)")})
            self.assertEqual(_record.evidence_name(places[3]), names[3])
            self.assertEqual(_record.evidence_name(""), _record._name(""))
            with unittest.mock.patch.object(_record.lib, "intern", side_effect=AssertionError("a new name")):
                watch = _watch.Watch(True, lambda: None)
                watch._threads.list()
                watch._record(1_000_000, time.monotonic_ns())
                _loops._record_step(print, contextvars.copy_context(), 0)

    def test_threads_have_their_names_of_python(self):
        ready, go_on = threading.Event(), threading.Event()

        def run():
            pitot.instant("an event")
            ready.set()
            go_on.wait()

        def run_named():
            pitot.set_thread_name("named by itself")
            run()

        self.addCleanup(go_on.set)
        for target, name in ((run, "worker-7"), (run_named, "worker-8")):
            ready.clear()
            threading.Thread(target=target, name=name).start()
            ready.wait()
        pitot.instant("an event")
        _watch._Threads(_library.WatchStruct()).list()
        trace = self.trace()
        for text in (b"worker-7", b"named by itself", b"MainThread"):
            self.assertIn(text, trace)
        self.assertNotIn(b"worker-8", trace)

    def test_a_thread_renamed_later_gets_its_new_name(self):
        pitot.instant("an event")
        thread, threads = threading.current_thread(), _watch._Threads(_library.WatchStruct())
        self.addCleanup(setattr, thread, "name", thread.name)
        threads.list()
        self.assertFalse(threads.is_renamed())
        thread.name = "renamed"
        self.assertTrue(threads.is_renamed())
        threads.list()
        self.assertFalse(threads.is_renamed())

    def test_the_watch_runs_no_python_and_makes_no_container_while_nothing_happens(self):
        watch = self.quiet_watch()
        watch._struct.looks_for &= ~(_library.WATCH_LOCK | _library.WATCH_STOP)  # on a busy machine it waits for the lock
        self.assertTrue(watch._threads.by_tid)
        with unittest.mock.patch.object(sys, "_current_frames", side_effect=AssertionError("frames are read")), \
                unittest.mock.patch.object(watch._threads, "list", side_effect=AssertionError("threads are listed")):
            enabled = gc.isenabled()
            gc.disable()
            try:
                watch._watch()
                before = gc.get_count()[0]
                for _ in range(100):
                    watch._watch()
                made = gc.get_count()[0] - before
            finally:
                if enabled:
                    gc.enable()
        self.assertLess(made, 50)  # a list for each look would be 100

    def quiet_watch(self):
        """A watch that has listed the threads, and ticks at once. Its looks are made by the test."""
        watch = _watch.Watch(True, lambda: None, lambda: None, lambda: None)
        watch._watch()
        watch._struct.most_us = watch._struct.pause_us = 0
        watch._struct.next_refresh_ns = (1 << 64) - 1
        return watch

    def test_the_interpreters_lock_is_free_while_the_watch_sleeps(self):
        watch, ran = self.quiet_watch(), threading.Event()
        watch._struct.most_us, watch._struct.pause_us = 3_600_000_000 - 1, 1000
        waiter = threading.Thread(target=watch._watch)
        waiter.start()
        ran.set()  # this thread would never get here
        watch._struct.is_over = 1
        waiter.join(60)
        self.assertFalse(waiter.is_alive())

    def test_threads_are_sorted_by_the_time_they_ran(self):
        struct = _library.WatchStruct(let_go=ctypes.cast(ctypes.pythonapi.PyEval_SaveThread, ctypes.c_void_p),
                                      take=ctypes.cast(ctypes.pythonapi.PyEval_RestoreThread, ctypes.c_void_p))
        me = threading.get_native_id()
        tids = (ctypes.c_int64 * 40)(*[0] * 39, me)
        struct.tids, struct.count = tids, 40
        struct.cpu_ns, struct.listed_ns = (ctypes.c_uint64 * 40)(), (ctypes.c_uint64 * 40)()
        self.assertEqual(_library.watch_interpreter(struct), _library.WATCH_THREADS | _library.WATCH_TIME)
        self.assertEqual((tids[0], tids[39]), (me, 0))
        self.assertGreater(struct.cpu_ns[0], 0)
        self.assertGreater(struct.listed_ns[0], 0)

    def test_the_watch_is_told_of_new_threads_running_steps_and_late_requests(self):
        def look():
            watch._struct.next_refresh_ns = 0
            return _library.watch_interpreter(watch._pointer) & ~_library.WATCH_TIME & ~_library.WATCH_LOCK

        watch, go_on = self.quiet_watch(), threading.Event()
        self.wait_until(lambda: look() == 0, "the system no longer knows threads of before")
        thread = threading.Thread(target=go_on.wait)
        thread.start()
        self.addCleanup(go_on.set)
        self.assertEqual(look(), _library.WATCH_THREADS)
        self.assertEqual(look(), 0)
        go_on.set()
        thread.join()
        look()  # the system may still know the thread for a moment

        _loops.step_begin(_loops.Current(0))
        self.wait_until(lambda: look() & _library.WATCH_STEP, "a step is told of once it has run for 5 ms")
        _loops.step_end()
        self.assertFalse(look() & _library.WATCH_STEP)

        begun, go_on = threading.Event(), threading.Event()
        self.addCleanup(go_on.set)

        def serve():
            with pitot.Request("/late") as request:
                request.set_deadline(1e-6)
                begun.set()
                go_on.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        begun.wait()
        self.assertTrue(look() & _library.WATCH_LATE)
        self.assertTrue(look() & _library.WATCH_LATE)
        go_on.set()
        thread.join()
        self.assertTrue(look() & _library.WATCH_LATE)  # told once that none is late
        self.assertFalse(look() & _library.WATCH_LATE)

    def test_an_interpreter_that_ends_while_the_watch_runs_ends_well(self):
        code = ("import sys, time; sys.path.insert(0, sys.argv[1]); from pitot import _watch;"
                "_watch.Watch(True, lambda: None, lambda: None).start(); time.sleep(0.05)")
        done = subprocess.run([sys.executable, "-c", code, PACKAGE], check=False, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class Stacks(WithRecorder):
    def setUp(self):
        super().setUp()
        self.records = []
        self.addCleanup(unittest.mock.patch.stopall)

    def keep_records(self):
        """Keeps the arguments of each record: thread, call, own, names of frames, missed."""
        def record(tid, call, own, names, count, missed):
            self.records.append((tid, call, own, list(names)[:count], missed))

        unittest.mock.patch.object(_stacks.lib, "record_stack", record).start()

    def fetch_on_thread(self):
        """A thread receives from a silent peer."""
        ours, peer = socket.socketpair()

        def fetch():
            with pitot.Request("/fetch") as request:
                request.set_deadline(0.001)
                ours.recv(1)

        thread = threading.Thread(target=fetch)
        thread.start()

        def end():
            peer.close()
            thread.join()
            ours.close()

        self.addCleanup(end)
        recv = _library.intern(b"recv")
        self.wait_until(lambda: _library.system_call_of(thread.native_id) == recv, "the thread receives")
        return thread

    @with_lock
    def test_a_thread_blocked_in_a_late_request_is_seen_in_its_call_and_line(self):
        self.fetch_on_thread()
        _stacks.Stacks().look()
        trace = self.trace()
        self.assertRegex(trace, f"fetch \\({FILE}:[0-9]+\\)".encode())
        self.assertIn(b"recv", trace)

    def test_nothing_is_read_while_no_request_is_late(self):
        with unittest.mock.patch.object(_stacks.sys, "_current_frames", side_effect=AssertionError("frames are read")):
            _stacks.Stacks().look()
            go_on = threading.Event()

            def serve():
                with pitot.Request("/in-time") as request:
                    request.set_deadline(3_600_000)
                    go_on.set()
                    wait.wait()

            wait = threading.Event()
            thread = threading.Thread(target=serve)
            thread.start()
            self.addCleanup(thread.join)
            self.addCleanup(wait.set)
            go_on.wait()
            _stacks.Stacks().look()

    def wait_on_thread(self, event, timeout, call):
        """A late request whose thread waits for the event, once it sleeps in that call."""
        def serve():
            with pitot.Request("/wait") as request:
                request.set_deadline(0.001)
                (lambda: event.wait(timeout))()

        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(event.set)
        name = _library.intern(call)
        self.wait_until(lambda: _library.system_call_of(thread.native_id) == name, f"the thread is in {call.decode()}")
        return thread

    @with_lock
    def test_a_thread_that_waits_for_a_lock_of_python_is_below_its_own_function(self):
        for timeout, call in ((None, b"futex"), (3600, b"timed futex")):
            with self.subTest(call):
                self.keep_records()
                self.records.clear()
                event = threading.Event()
                thread = self.wait_on_thread(event, timeout, call)
                stacks = _stacks.Stacks()
                stacks.look()
                event.set()
                (tid, call_name, own, names, missed), = self.records
                thread.join()
                self.assertEqual((tid, call_name, missed), (thread.native_id, _library.intern(b"lock"), 0))
                self.assertEqual(own, 1)  # below the library's own wait
                texts = {name: text for text, name in stacks._names.items()}
                self.assertRegex(texts[names[1]], f"<lambda> \\({FILE}:[0-9]+\\)$")
                self.assertRegex(texts[names[0]], "wait \\(threading.py:[0-9]+\\)$")

    def test_a_thread_that_wants_the_interpreters_lock_is_in_no_call(self):
        stacks = _stacks.Stacks()
        frame = sys._getframe()
        calls = {b"futex": b"lock", b"timed futex": b"", b"recv": b"recv", b"": b""}
        for call, expected in calls.items():
            with unittest.mock.patch.object(_stacks.lib, "system_call_of", lambda tid: _library.intern(call)):
                self.assertEqual(stacks._call_of(1, frame), _library.intern(expected))

    @with_lock
    def test_stacks_are_bounded_and_each_one_left_out_is_counted(self):
        self.keep_records()
        thread, now = self.fetch_on_thread(), [1_000_000_000_000]

        def find(tids, most):
            tids[0] = thread.native_id
            return most + 2

        stacks = _stacks.Stacks(lambda: now[0])
        with unittest.mock.patch.object(_stacks, "_PAUSE_PART", 1 << 62):
            for _ in range(100):
                stacks.look(find)
            self.assertEqual([record[4] for record in self.records], [2] + [2] * 63)
            self.assertEqual(stacks._missed, 36 * 3)
            stacks.look(lambda tids, most: 0)
            self.assertEqual(self.records[-1][:1] + self.records[-1][4:], (0, 36 * 3))
            now[0] += _stacks._REFILL_NS // 64 + 1
            stacks.look(find)
        self.assertEqual(len(self.records), 66)

    @with_lock
    def test_a_look_is_followed_by_a_pause_of_a_hundred_times_its_length(self):
        thread, times = self.fetch_on_thread(), iter([0, 50_000, 4_999_999, 5_000_000, 5_000_000])
        self.keep_records()

        def find(tids, _most):
            tids[0] = thread.native_id
            return 1

        stacks = _stacks.Stacks(lambda: next(times))
        for expected in (1, 1, 2):
            stacks.look(find)
            self.assertEqual(len(self.records), expected)

    def test_a_thread_that_has_ended_is_left_out(self):
        self.keep_records()
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()

        def find(tids, _most):
            tids[0] = thread.native_id
            return 1

        _stacks.Stacks().look(find)
        self.assertEqual(self.records, [])

    def test_names_of_frames_are_bounded(self):
        stacks = _stacks.Stacks()
        for line in range(_stacks._MOST_NAMES):
            stacks._name(f"f (app.py:{line})")
        self.assertEqual(stacks._name("f (other.py:1)"), _library.intern(b"(other)"))
        self.assertEqual(stacks._name("f (app.py:1)"), _library.intern(b"f (app.py:1)"))

    def test_without_the_interpreters_lock_there_are_no_stacks_and_the_log_says_so(self):
        self.assertEqual(_stacks.why_not() == "", _watch.has_lock())
        self.fetch_on_thread()
        with without_lock(), \
                unittest.mock.patch.object(sys, "_current_frames", side_effect=AssertionError("it stops all threads")):
            self.assertRegex(_stacks.why_not(), "^stacks.not_recorded: .*stop all threads$")
            _stacks.Stacks().look()

    @with_lock
    def test_the_watch_takes_stacks_by_itself(self):
        self.recorder.stop()
        with tempfile.TemporaryDirectory() as folder:
            for options in ({}, {"interpreter_lock": False}):
                self.recorder = pitot.start(folder, post_window_ms=0, perfetto_file=True, **options)
                self.recorder.on_incident(self.incidents.append)
                self.fetch_on_thread()
                self.wait_until(lambda: b"fetch (" in self.trace(), "an incident has a stack of the thread")
                self.recorder.stop()


class Life(unittest.TestCase):
    def test_everything_ends_with_the_recorder_and_can_be_left_out(self):
        callbacks, run = list(gc.callbacks), asyncio.events.Handle._run
        for options, is_on in (({}, True), ({"collections": False, "event_loops": False, "interpreter_lock": False, "stacks": False}, False)):
            with pitot.start(**options) as recorder:
                self.assertTrue(recorder.status)
                self.assertEqual(gc.callbacks != callbacks, is_on)
                self.assertEqual(asyncio.events.Handle._run is not run, is_on)
            self.assertEqual(gc.callbacks, callbacks)
            self.assertIs(asyncio.events.Handle._run, run)
            self.assertNotIn("pitot-python", [thread.name for thread in threading.enumerate()])

    def test_a_childs_evidence_outlives_its_parents_recorder(self):
        parent = pitot.start(interpreter_lock=False)
        self.addCleanup(parent.stop)
        pid = os.fork()
        if pid == 0:
            is_on = False
            try:
                child = pitot.start(interpreter_lock=False)
                parent.stop()
                is_on = bool(child.status) and asyncio.events.Handle._run.__module__ == "pitot._loops"
                child.stop()
                is_on = is_on and asyncio.events.Handle._run.__module__ == "asyncio.events"
            finally:
                os._exit(0 if is_on else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_handles_of_asyncio_are_not_wrapped_after_the_end(self):
        run, loops = asyncio.events.Handle._run, _loops.Loops()
        loops.remove()
        loops.install()
        self.assertIs(asyncio.events.Handle._run, run)

        class RemovedMeanwhile(type):
            def __setattr__(cls, name, value):
                racing.remove()
                super().__setattr__(name, value)

        class Handle(metaclass=RemovedMeanwhile):
            _run = run

        racing = _loops.Loops()
        with unittest.mock.patch.dict(sys.modules, {"asyncio.events": types.SimpleNamespace(Handle=Handle)}):
            racing.install()
        self.assertIs(Handle._run, run)

    def test_a_failure_of_the_watch_is_logged_and_it_goes_on(self):
        looks = threading.Semaphore(0)

        def fail():
            looks.release()
            raise KeyError("tick")

        watch = _watch.Watch(True, fail)
        watch._struct.most_us = 0
        with self.assertLogs("pitot", "ERROR") as logged, \
                unittest.mock.patch.object(_watch, "_AFTER_FAILURE_S", 0):
            watch.start()
            for _ in range(8):
                self.assertTrue(looks.acquire(timeout=60))
            watch.stop()
        times = [record.args[0] for record in logged.records]
        self.assertEqual(times[:3], [1, 2, 4])
        self.assertEqual(times, [1 << at for at in range(len(times))])


if __name__ == "__main__":
    faulthandler.dump_traceback_later(240, exit=True)  # a test that hangs fails, and shows where
    unittest.main()
