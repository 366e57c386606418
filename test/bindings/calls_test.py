#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The two forms of the Python package's calls, in C and through ctypes: each passes this test.

Environment: PITOT_LIBRARY, PITOT_PACKAGE (the package's folder; unset: the sources), PITOT_CALLS ("native" or "ctypes").
"""

import contextlib
import faulthandler
import gc
import inspect
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import weakref

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.environ.get("PITOT_PACKAGE", os.path.join(HERE, "..", "..", "bindings", "python"))
sys.path.insert(0, PACKAGE)

import pitot  # noqa: E402
from pitot import _calls, _record, _request  # noqa: E402

IS_NATIVE = os.environ.get("PITOT_CALLS") == "native"


def run_python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": PACKAGE, **environment}, timeout=120).stdout


class Forms(unittest.TestCase):
    def test_the_environment_chooses(self):
        self.assertEqual(pitot.is_native, IS_NATIVE)
        code = "import pitot; print(pitot.is_native, pitot.Token is pitot._request.Token)"
        self.assertEqual(run_python(code, PITOT_CALLS="ctypes"), "False True\n")
        if IS_NATIVE:  # and so it is built
            self.assertEqual(run_python(code, PITOT_CALLS=""), "True False\n")

    @unittest.skipUnless(IS_NATIVE, "there is one form")
    def test_both_have_the_same_members_and_parameters(self):
        for native, through_ctypes in ((pitot.Request, _request.Request), (pitot.Batch, _request.Batch), (pitot.Token, _request.Token),
                                       (pitot.Wait, _record.Wait)):
            names = {name for name in vars(through_ctypes) if not name.startswith("_")}
            self.assertEqual({name for name in vars(native) if not name.startswith("_")}, names)
            for name in names | {"__init__"}:
                with self.subTest(f"{native.__name__}.{name}"):
                    one, other = ((native, through_ctypes) if name == "__init__" else
                                  (inspect.getattr_static(native, name), inspect.getattr_static(through_ctypes, name)))
                    if isinstance(other, property):
                        continue
                    one, other = (getattr(it, "__func__", it) for it in (one, other))
                    if name == "from_token" or name == "begin_step":
                        one, other = getattr(native, name), getattr(through_ctypes, name)
                    self.assertEqual(self.parameters(one), self.parameters(other))
        for name in ("scope", "hook", "instant", "counter", "now", "emit_many"):
            self.assertEqual(self.parameters(getattr(pitot, name)),
                             self.parameters(getattr(_record, name, None) or getattr(_request, name)))

    @staticmethod
    def parameters(function):
        return [(it.name, it.kind, it.default) for it in inspect.signature(function).parameters.values() if it.name != "self"]

    @unittest.skipUnless(IS_NATIVE, "there is one form")
    def test_a_token_goes_to_a_process_with_the_other_form(self):
        token = pickle.dumps(pitot.Token(bytes(range(32))))
        code = "import pickle, pitot; token = pickle.loads({}); print(isinstance(token, pitot.Token), bytes(token) == bytes(range(32)))"
        self.assertEqual(run_python(code.format(token), PITOT_CALLS="ctypes"), "True True\n")
        token = run_python("import pickle, pitot; print(pickle.dumps(pitot.Token(bytes(range(32)))))", PITOT_CALLS="ctypes")
        self.assertEqual(run_python(code.format(token.strip())), "True True\n")

    @unittest.skipUnless(IS_NATIVE, "there is one form")
    def test_a_subinterpreter_uses_ctypes(self):
        code = ("try:\n import _xxsubinterpreters as it\nexcept ImportError:\n import _interpreters as it\n"
                "import pitot; print(pitot.is_native, flush=True)\n"
                "where = it.create('legacy') if it.__name__ == '_interpreters' else it.create(isolated=False)\n"
                "failed = it.run_string(where, 'import pitot; print(pitot.is_native, flush=True)')\n"
                "print(failed or '', flush=True); it.destroy(where); pitot.Request('/x').finish()")
        self.assertEqual(run_python(code, PITOT_CALLS="").split(), ["True", "False"])

    @unittest.skipUnless(IS_NATIVE, "there is one form")
    def test_a_library_without_a_function_is_named(self):
        code = ("import ctypes, pitot._library as l\nl._quick = ctypes.PyDLL('libc.so.6')\n"
                "try:\n import pitot._native\nexcept ImportError as error: print(error)")
        self.assertIn("the loaded libpitot_c.so has no pitot_", run_python(code, PITOT_CALLS="ctypes"))


class Recorded(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.recorder = pitot.start(folder.name, collections=False, interpreter_lock=False, stacks=False)
        self.addCleanup(self.recorder.stop)

    def test_a_step_records_what_its_parts_record(self):
        requests = [pitot.Request("/x") for _ in range(70)]
        work = [float(i + 1) for i in range(70)]
        before = self.recorder.stats().events_recorded
        with pitot.Batch("slots", "tokens") as batch:
            batch.join_many([request.token for request in requests], work)
            batch.close(pitot.BatchClose.STEP)
        for request in requests:
            request.emit()
        parts = self.recorder.stats().events_recorded - before
        self.assertGreater(parts, 70)
        before = self.recorder.stats().events_recorded
        step = pitot.Batch.begin_step("slots", requests, work)
        step.end_step(requests)
        self.assertEqual(self.recorder.stats().events_recorded - before, parts)
        step.end_step(finished=requests)
        self.assertEqual(self.recorder.stats().requests_finished, 70)

    def test_tokens_of_many_requests_call_the_triggers(self):
        self.assertTrue(self.recorder.add_tokens_trigger("/generate", first_token_above_ms=1e-6))
        requests = [pitot.Request("/x"), pitot.Request("/generate")]
        pitot.emit_many(requests, [1, 0])
        self.assertEqual(self.recorder.stats().triggers_fired, 0)
        pitot.emit_many(requests, [0, 2])
        self.assertEqual(self.recorder.stats().triggers_fired, 1)

    def test_subclasses_have_members_and_arguments_of_their_own(self):
        class Job(pitot.Request):
            def __init__(self, number):
                super().__init__("/job", id=f"job {number}")
                self.number = number

        class Step(pitot.Batch):
            pass

        job = Job(7)
        self.assertNotEqual((job.id, job.number), (0, 7))
        self.assertIs(type(job.child("/part")), pitot.Request)
        after = Job.from_token(job.token, "/after")
        after.number = 8
        self.assertEqual((type(after), after.id != job.id), (Job, True))
        step = Step.begin_step("x", [job, after])
        step.note = "own"
        self.assertIs(type(step), Step)
        step.end_step(finished=(job, after))
        self.assertEqual(self.recorder.stats().requests_finished, 3)

    def test_blocks_are_context_managers_for_everyone(self):
        before = self.recorder.stats()
        with contextlib.ExitStack() as stack:
            request = stack.enter_context(pitot.Request("/x"))
            self.assertIs(type(stack.enter_context(pitot.Batch("slots"))), pitot.Batch)
            self.assertIsNone(stack.enter_context(pitot.scope("work")))
            self.assertIs(type(stack.enter_context(pitot.Wait(pitot.WaitKind.IO, "disk"))), pitot.Wait)
            self.assertIsNone(stack.enter_context(request.token.adopt()))
            self.assertEqual(pitot.this_owner().request, request.id)
        stats = self.recorder.stats()
        self.assertEqual((stats.requests_finished, stats.scopes_misnested), (1, 0))
        scope = pitot.scope("work")
        scope.__enter__()
        self.assertIsNone(scope.__exit__(None, None, None))
        with self.assertRaises(ZeroDivisionError), scope, pitot.Wait(pitot.WaitKind.IO, "disk") as wait:
            self.assertIsNone(wait.set_owner(pitot.Owner(1, 2)))
            raise ZeroDivisionError
        for block in (scope, pitot.Wait(pitot.WaitKind.IO, "disk"), request.token.adopt()):
            with self.assertRaises(TypeError):
                type(block).__enter__()
        self.assertEqual(self.recorder.stats().scopes_misnested, 0)
        self.assertGreater(self.recorder.stats().events_recorded, before.events_recorded)

    def test_a_hook_calls_the_function_in_a_scope_and_then_what_looks_at_it(self):
        seen = []

        class Engine:
            def step(self, number, *, by=1):
                self.inner = pitot.this_owner()
                return number + by

        engine = Engine()
        engine.step = pitot.hook(engine.step, "step", after=lambda result, *args, **kwargs: seen.append((result, args, kwargs)))
        before = self.recorder.stats().events_recorded
        self.assertEqual((engine.step(3), engine.step(number=3, by=4)), (4, 7))
        self.assertEqual(seen, [(4, (3,), {}), (7, (), {"number": 3, "by": 4})])
        self.assertEqual(self.recorder.stats().events_recorded - before, 2)
        self.assertEqual(engine.step.__wrapped__.__func__, Engine.step)
        many = pitot.hook(lambda *args: len(args), "many", after=lambda result, *args: seen.append((result, len(args))))
        self.assertEqual((many(*range(20)), seen[-1]), (20, (20, 20)))

    def test_a_hook_on_a_function_that_raises_looks_at_nothing(self):
        seen = []
        with self.assertRaises(ZeroDivisionError):
            pitot.hook(lambda: 1 // 0, "fails", after=seen.append)()
        self.assertEqual((seen, self.recorder.stats().scopes_misnested), ([], 0))

    def test_a_server_sees_no_failure_of_what_looks_and_that_is_called_no_more(self):
        told, failing = [], unittest.mock.Mock(side_effect=ValueError("mine"))
        hook = pitot.hook(lambda: 7, "work", failing, told.append)
        self.assertEqual((hook(), hook(), failing.call_count), (7, 7, 1))
        self.assertEqual([str(error) for error in told], ["mine"])
        self.assertIsNotNone(told[0].__traceback__)
        with self.assertLogs("pitot", "ERROR") as logged:
            self.assertEqual(pitot.hook(lambda: 7, "work", failing)(), 7)
        self.assertIs(logged.records[0].exc_info[1], failing.side_effect)
        with self.assertRaises(KeyboardInterrupt):
            pitot.hook(lambda: 7, "work", unittest.mock.Mock(side_effect=KeyboardInterrupt), told.append)()
        self.assertEqual(len(told), 1)

    def test_what_looks_at_a_hook_may_end_that_and_may_put_the_function_back(self):
        class Engine:
            def step(self):
                del self.step
                return 1

        engine, looks = Engine(), unittest.mock.Mock(side_effect=[None, True, None])
        hook = pitot.hook(lambda: 7, "work", looks)
        self.assertEqual(([hook() for _ in range(4)], looks.call_count), ([7] * 4, 2))
        engine.step = pitot.hook(engine.step, "step", lambda result: seen.append(result))
        seen = []
        self.assertEqual((engine.step(), seen), (1, [1]))
        self.assertNotIn("step", vars(engine))

    def test_a_hook_in_a_cycle_is_collected(self):
        class Engine:
            def step(self):
                return self

        engine, gone = Engine(), []
        engine.step = pitot.hook(engine.step, "step", lambda result: None)
        weakref.finalize(engine, gone.append, True)
        del engine
        gc.collect()
        self.assertEqual(gone, [True])

    def test_a_hook_wants_a_name(self):
        with self.assertRaises(pitot.InvalidArgument):
            pitot.hook(len, 7)

    @unittest.skipUnless(IS_NATIVE, "the other form leaks it")
    def test_a_second_init_abandons_the_first_request(self):
        request = pitot.Request("/x")
        first = request.id
        request.__init__("/y")
        self.assertNotIn(request.id, (0, first))
        request.finish()
        stats = self.recorder.stats()
        self.assertEqual((stats.requests_open, stats.requests_abandoned), (0, 1))

    def test_a_cycle_is_collected_and_its_request_abandoned(self):
        class Node(pitot.Request):
            pass

        node = Node("/x")
        node.itself = node
        del node
        gc.collect()
        self.assertEqual(self.recorder.stats().requests_abandoned, 1)

    def test_a_predicate_sees_no_exception_in_flight(self):
        seen = []

        def predicate(view):
            seen.append(view.outcome)
            raise RuntimeError("of the predicate")

        self.assertTrue(self.recorder.add_predicate_trigger(predicate))

        with self.assertLogs("pitot", "ERROR") as logged, self.assertRaises(ZeroDivisionError):
            print(pitot.Request("/x"), 1 / 0)  # the request goes while the exception looks for its handler
        self.assertIn("of the predicate", logged.output[0])
        self.assertEqual(seen, [pitot.Outcome.ABANDONED])

    def test_a_predicate_may_finish_the_request_that_called_it(self):
        again = []

        def predicate(view):
            again.append(view.id)
            request.finish(pitot.Outcome.FAILED)
            request.emit()
            return False

        self.assertTrue(self.recorder.add_predicate_trigger(predicate))
        request = pitot.Request("/x")
        request.finish()
        self.assertEqual(again, [request.id])

    def test_threads_finish_a_request_once(self):
        pairs, barrier = [pitot.Request("/x") for _ in range(200)], threading.Barrier(4)

        def finish():
            barrier.wait()
            for request in pairs:
                request.finish()

        threads = [threading.Thread(target=finish) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = self.recorder.stats()
        self.assertEqual((stats.requests_open, stats.requests_finished), (0, 200))

    def test_threads_record_at_the_same_time(self):
        most, wrong = 500, []

        def serve(number):
            requests = [pitot.Request(f"/route {number}") for _ in range(4)]
            for i in range(most):
                with pitot.scope(f"stage {i % 50}"), pitot.Wait(pitot.WaitKind.QUEUE, f"queue {i % 7}"):
                    step = pitot.Batch.begin_step("slots", requests, [1, 2, 3, 4])
                    pitot.counter("depth", i)
                    step.end_step(requests)
                with requests[0].token.adopt():
                    if pitot.this_owner().request != requests[0].id:
                        wrong.append(i)
            for request in requests:
                request.finish()

        threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = self.recorder.stats()
        self.assertEqual((wrong, stats.requests_finished, stats.scopes_misnested), ([], 16, 0))

    def test_nothing_is_left_of_calls(self):
        requests = [pitot.Request("/x") for _ in range(8)]
        texts = ["route " + "x" * 10, "\ud800 without UTF-8"]

        hooked = []

        def look(result, *args):
            hooked.append(result)

        def wrong_look(result, *args):
            raise ValueError

        class Text(str):
            """A name that is compared by code of its own, so no scope is kept for it."""

        def work():
            for text in texts:
                with pitot.Request(text, arrival=pitot.now(), id=text) as request, pitot.scope("work"):
                    token = request.enqueue(text)
                    request.set_label(text, text)
                    pitot.instant("moment", text)
                    pitot.scope(Text("own"))
                    token.stage(text)
                    request.traceparent, request.is_late, token.request_id, token.is_late
                    pickle.loads(pickle.dumps(token))
                    with token.adopt(), request.child("/y"), pitot.Wait(pitot.WaitKind.IO, "disk", pitot.this_owner()):
                        pass
                    pitot.Request.from_token(token, "/z").finish(reason=text)
                step = pitot.Batch.begin_step("slots", requests, [1.0] * 8)
                step.end_step(requests, [1] * 8)
                pitot.Batch("x").join_many(requests * 10, [2.0] * 80)
                pitot.emit_many(requests * 10, [1] * 80)
                self.assertEqual(pitot.hook(len, text, look)(requests), 8)
                self.assertEqual(pitot.hook(len, text, wrong_look, hooked.append)(requests), 8)
                hooked.clear()
                for wrong in (lambda: request.emit("1"), lambda: pitot.Request(7), lambda: pitot.emit_many([7]),
                              lambda: pitot.Batch.begin_step("x", requests, [1, "2"] * 4), lambda: request.set_label(text, 7)):
                    with self.assertRaises(pitot.InvalidArgument):
                        wrong()

        for _ in range(100):
            work()
        gc.collect()
        held = [requests[0], *texts, None, pitot.Outcome.OK]
        blocks, references = sys.getallocatedblocks(), [sys.getrefcount(it) for it in held]
        for _ in range(300):
            work()
        gc.collect()
        self.assertLess(sys.getallocatedblocks() - blocks, 150)
        for it, before in zip(held, references):
            self.assertLess(abs(sys.getrefcount(it) - before), 150, it)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(280, exit=True)
    unittest.main()
