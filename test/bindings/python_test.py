#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package.

Environment: PITOT_LIBRARY, PITOT_FAKE_LIBRARY (of another ABI), PITOT_FAKE_CUPTI, PITOT_FAKE_NVML, PITOT_FAKE_EMITTER,
PITOT_FAKE_RANGE (a CUPTI), PITOT_FAKE_DRIVER and PITOT_PROFILED_SERVER (with kernels), PITOT_PROGRAM (unset: dumps are not read),
PITOT_PACKAGE (the package's folder; unset: the sources), PITOT_CALLS
"""

import ast
import asyncio
import ctypes
import faulthandler
import importlib.util
import logging
import os
import pickle
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCES = os.path.join(ROOT, "bindings", "python")
PACKAGE = os.environ.get("PITOT_PACKAGE", SOURCES)
sys.path.insert(0, PACKAGE)

import incident  # noqa: E402
import pitot  # noqa: E402
from pitot import _cupti  # noqa: E402
from pitot import _library as lib  # noqa: E402
from pitot import _recorder  # noqa: E402

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NANOSECOND_MS = 1e-6  # too long on any machine


def run_python(code, package=PACKAGE, **environment):
    """Runs the code in a process of its own; returns its status and output."""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "PYTHONPATH": package, **environment}, timeout=240, check=False)
    return done.returncode, done.stdout


class WithFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.incidents = []

    def start(self, **options):
        recorder = pitot.start(self.folder, post_window_ms=0, perfetto_file=True, **options)
        self.addCleanup(recorder.stop)
        self.assertTrue(recorder.status, recorder.status)
        recorder.on_incident(self.incidents.append)
        return recorder

    def flush(self, recorder):
        self.assertEqual(recorder.flush(), pitot.Status(pitot.StatusCode.OK, ""))

    def trace_of(self, recorder):
        """The bytes of the Perfetto trace of an incident triggered now."""
        self.assertTrue(recorder.trigger("look"))
        self.flush(recorder)
        with open(os.path.join(self.incidents[-1].directory, "trace.pftrace"), "rb") as file:
            return file.read()


class Recording(WithFolder):
    @unittest.skipUnless("PITOT_PROGRAM" in os.environ, "the command line is not built")
    def test_a_slow_request_leaves_an_incident_that_the_command_line_reads(self):
        recorder = self.start(process_name="server in Python")
        self.assertTrue(recorder.add_latency_trigger("/slow", above_ms=NANOSECOND_MS))
        jobs = queue.SimpleQueue()

        def execute():
            pitot.set_thread_name("executor")
            tokens = [jobs.get() for _ in range(4)]
            with pitot.Batch("resnet50") as batch:
                self.assertNotEqual(batch.id, 0)
                for token in tokens:
                    batch.join(token)
                batch.close(pitot.BatchClose.FULL)
                with pitot.scope("forward"):
                    pitot.counter("queue depth", 2.5)
                batch.submitted()
                batch.leave(tokens[0])
            with tokens[1].adopt():
                pitot.instant("cache miss", "key 17")
                self.assertEqual(pitot.this_owner().request, tokens[1].request_id)
            self.assertEqual(pitot.this_owner().request, 0)
            for token in tokens:
                token.stage("respond")

        def decode():
            with pitot.scope("libjpeg"):
                pass

        pitot.set_thread_name("handler")
        requests = []
        for number in range(4):
            request = pitot.Request("/infer" if number < 3 else "/slow", TRACEPARENT)
            request.set_label("model", "resnet50")
            request.set_size("pixels", 50176)
            request.stage("decode")
            decode()
            request.stage("execute")
            jobs.put(request.enqueue("jobs"))
            requests.append(request)
        executor = threading.Thread(target=execute)
        executor.start()
        with pitot.Wait(pitot.WaitKind.FUTURE, "executor's thread"):
            executor.join()
        for number, request in enumerate(requests):
            try:
                with request:
                    if number == 2:
                        raise OSError("broken pipe")
            except OSError:
                pass
        self.flush(recorder)

        (told,) = self.incidents
        self.assertEqual((told.number, told.cause, told.slow_requests), (1, "latency /slow", 1))
        self.assertRegex(told.detail, r" ms, above ")
        self.assertTrue(told.status)
        self.assertEqual(f"{told.first_request:016x}", incident.requests_of(told.directory)[3]["id"])
        incident.check_served(self, told.directory, "server in Python")

    def test_scopes_nest_in_themselves_and_survive_exceptions(self):
        recorder = self.start()

        @pitot.traced
        def factorial(n):
            return 1 if n == 0 else n * factorial(n - 1)

        @pitot.traced("named otherwise")
        def fail():
            """A docstring."""
            raise KeyError("x")

        before = recorder.stats().events_recorded
        self.assertEqual(factorial(5), 120)
        self.assertEqual(recorder.stats().events_recorded - before, 6)
        with self.assertRaises(KeyError), pitot.scope("outer of a failure"):
            fail()
        self.assertEqual(recorder.stats().events_recorded - before, 8)
        self.assertEqual(recorder.stats().scopes_misnested, 0)
        self.assertEqual((fail.__name__, fail.__doc__), ("fail", "A docstring."))
        self.assertIs(pitot.scope("kept"), pitot.scope("kept"))
        trace = self.trace_of(recorder)
        for text in (b"factorial", b"named otherwise", b"outer of a failure"):
            self.assertIn(text, trace)

    def test_a_wait_has_its_resource_and_the_owner(self):
        recorder = self.start()
        with pitot.Request("/holder"):
            owner = pitot.this_owner()
            self.assertNotEqual(owner.request, 0)
        with pitot.Wait(pitot.WaitKind.LOCK, "the cache's lock", owner) as wait:
            wait.set_owner(owner)
        trace = self.trace_of(recorder)
        self.assertIn(b"the cache's lock", trace)
        self.assertIn(f"{owner.request:016x}".encode(), trace)

    def test_characters_without_utf8_become_question_marks(self):
        recorder = self.start()
        pitot.instant("half \ud800", "d\ud800")
        self.assertIn(b"half ?", self.trace_of(recorder))


class Requests(WithFolder):
    def test_a_predicate_that_raises_for_each_request_does_not_fill_the_log(self):
        recorder = self.start()
        self.assertTrue(recorder.add_predicate_trigger(lambda request: 1 / 0))
        with self.assertLogs("pitot", "ERROR") as logged:
            for _ in range(100):
                with pitot.Request("/x"):
                    pass
        lines = [record.getMessage() for record in logged.records]
        self.assertEqual(lines[0], "a predicate raised")
        self.assertEqual([line.split(" for the ")[1].split("th")[0] for line in lines[1:]],
                         ["2", "4", "8", "16", "32", "64"])

    def test_a_request_left_by_an_exception_has_failed(self):
        recorder = self.start()
        seen = []
        self.assertTrue(recorder.add_predicate_trigger(lambda request: seen.append(request.outcome) or False))
        with self.assertRaises(ZeroDivisionError), pitot.Request("/x"):
            raise ZeroDivisionError
        with self.assertRaises(asyncio.CancelledError), pitot.Request("/x"):
            raise asyncio.CancelledError
        with pitot.Request("/x"):
            pass
        with pitot.Request("/x") as request:
            request.finish(pitot.Outcome.SHED)
            request.finish(pitot.Outcome.FAILED)  # over already
        request = pitot.Request("/x")
        del request
        outcome = pitot.Outcome
        self.assertEqual(seen, [outcome.FAILED, outcome.CANCELLED, outcome.OK, outcome.SHED, outcome.ABANDONED])
        self.assertEqual(recorder.stats().requests_abandoned, 1)

    def test_a_request_has_an_id_of_your_own(self):
        recorder = self.start()
        with pitot.Request("/x", id="cmpl-17") as first, first.child("/y") as part:
            part.set_id("cmpl-17, part 1")
            self.assertNotIn(first.id, (0, part.id))
        for wrong in (lambda: pitot.Request("/x", id=17), lambda: first.set_id(None)):
            with self.assertRaisesRegex(pitot.InvalidArgument, "id is "):
                wrong()
        self.assertEqual(recorder.stats().requests_open, 0)
        trace = self.trace_of(recorder)
        self.assertIn(b"cmpl-17", trace)
        self.assertIn(b"cmpl-17, part 1", trace)

    def test_a_failed_request_says_why(self):
        recorder = self.start()
        pitot.Request("/x").finish(pitot.Outcome.FAILED, "KV cache full")
        with self.assertRaises(ZeroDivisionError), pitot.Request("/x"):
            raise ZeroDivisionError
        request = pitot.Request("/x")
        with self.assertRaisesRegex(pitot.InvalidArgument, "reason is "):
            request.finish(pitot.Outcome.FAILED, 7)
        self.assertEqual(recorder.stats().requests_open, 1)
        request.finish(reason=None)
        trace = self.trace_of(recorder)
        self.assertIn(b"KV cache full", trace)
        self.assertIn(b"ZeroDivisionError", trace)

    def test_a_request_continues_a_trace_and_begins_parts_of_itself(self):
        recorder = self.start()
        with pitot.Request("/whole", TRACEPARENT, arrival=pitot.now()) as request:
            self.assertEqual(request.traceparent, f"00-4bf92f3577b34da6a3ce929d0e0e4736-{request.id:016x}-01")
            with request.child("/part") as part:
                self.assertEqual(part.traceparent[:35], request.traceparent[:35])
                self.assertEqual(pitot.this_owner().request, part.id)
            self.assertEqual(pitot.this_owner().request, request.id)
            with pitot.Request.from_token(request.enqueue("next"), "/next") as after:
                self.assertNotIn(after.id, (0, request.id))
                after.set_deadline(NANOSECOND_MS)
                deadline = time.monotonic() + 60
                while not after.is_late:
                    self.assertLess(time.monotonic(), deadline, "a request beyond its deadline is not late")
                self.assertTrue(after.token.is_late)
        self.assertEqual(request.traceparent, "")
        self.assertEqual(recorder.stats().requests_finished, 3)

    def test_a_token_defers_its_request_and_sets_labels_and_sizes(self):
        recorder = self.start()
        with pitot.Request("/x") as request:
            token = request.token.enqueue("deferred queue")
            self.assertEqual(token.request_id, request.id)
            token.set_label("model", "smol model")
            token.set_size("prompt tokens", 17)
        self.assertEqual(token.enqueue("deferred queue").request_id, 0)
        trace = self.trace_of(recorder)
        for text in (b"deferred queue", b"smol model", b"prompt tokens"):
            self.assertIn(text, trace)
        for wrong in (lambda: token.enqueue(7), lambda: token.set_label("x", 7), lambda: token.set_size("x", "y")):
            with self.assertRaises(pitot.InvalidArgument):
                wrong()

    def test_a_token_is_bytes_that_outlive_their_request(self):
        self.start()
        with pitot.Request("/x") as request:
            token = request.enqueue("jobs")
            for copy in (pickle.loads(pickle.dumps(token)), pitot.Token(bytes(token))):
                self.assertEqual(bytes(copy), bytes(token))
                self.assertEqual(copy.request_id, request.id)
        token.stage("over")
        token.emit()
        self.assertFalse(token.is_late)
        self.assertEqual(pitot.Token().request_id, 0)
        with self.assertRaises(ValueError):
            pitot.Token(b"short")

    def test_without_a_recorder_everything_is_inert(self):
        with pitot.Request("/x", TRACEPARENT) as request, pitot.Batch("x") as batch, pitot.scope("x"):
            self.assertEqual((request.id, batch.id, request.traceparent, pitot.now()), (0, 0, "", 0))
            batch.join(request.enqueue("jobs"))
            with request.token.adopt(), request.child("/y"), pitot.Wait(pitot.WaitKind.IO, "disk"):
                pitot.instant("x")
                pitot.counter("x", 1)
            request.emit()
        self.assertEqual(pitot.this_owner(), pitot.Owner(0, 0))


    def test_a_wrong_outcome_leaves_the_request_open(self):
        recorder = self.start()
        request = pitot.Request("/x")
        for wrong in ("ok", None, 1.5, -1, 1 << 32):
            with self.assertRaisesRegex(pitot.InvalidArgument, "outcome is "):
                request.finish(wrong)
        self.assertEqual(recorder.stats().requests_open, 1)
        request.finish()
        stats = recorder.stats()
        self.assertEqual((stats.requests_open, stats.requests_finished, stats.requests_abandoned), (0, 1, 0))

    def test_an_argument_that_is_not_a_str_is_refused(self):
        with pitot.Request("/x") as request:
            optional = [lambda text: pitot.start(process_name=text)]
            for use in [request.stage, request.enqueue, lambda text: request.set_label("key", text), pitot.scope,
                        pitot.set_thread_name, pitot.Request] + optional:
                for wrong in (200, b"bytes", 1.5) if use in optional else (200, b"bytes", 1.5, None):
                    with self.assertRaisesRegex(pitot.InvalidArgument, "must be a str"):
                        use(wrong)

    def test_a_number_out_of_the_c_types_range_is_refused_by_name(self):
        recorder = self.start()
        with pitot.Request("/x") as request, pitot.Batch("x") as batch:
            for named, use in (("timeout_ms", recorder.flush), ("timeout_ms", recorder.stop), ("count", request.emit),
                               ("count", request.token.emit), ("why", batch.close),
                               ("arrival", lambda number: pitot.Request("/x", arrival=number)),
                               ("kind", lambda number: pitot.Wait(number, "x")),
                               ("request", lambda number: pitot.Wait(pitot.WaitKind.IO, "x", pitot.Owner(1, number))),
                               ("clock", lambda number: pitot.start(clock=number)),
                               ("cool_down_ms", lambda number: recorder.add_failure_trigger(cool_down_ms=number))):
                for number in (-1, 1 << 64, 0.5, "1"):
                    with self.subTest(named), self.assertRaisesRegex(pitot.InvalidArgument, f"^{named} is .*; it must be "):
                        use(number)
            for named, use in (("ms", request.set_deadline), ("value", lambda number: request.set_size("x", number)),
                               ("above_ms", lambda number: recorder.add_latency_trigger(above_ms=number))):
                with self.assertRaisesRegex(pitot.InvalidArgument, f"^{named} is .*; it must be "):
                    use("1")
            for number in (float("nan"), float("inf"), 1e300):
                with self.assertRaisesRegex(pitot.InvalidArgument, "^ms is "):
                    request.set_deadline(number)
            request.set_deadline(-1)
            self.assertFalse(request.is_late)
        self.assertTrue(recorder.status)
        self.assertTrue(recorder.flush((1 << 32) - 1))


class LaterLibraries(unittest.TestCase):
    """Numbers unknown to this package."""

    def test_a_status_passes_through(self):
        status = _recorder._call(lambda message, size: 11)
        self.assertFalse(status)
        self.assertEqual((status.code, status.code.name), (11, "UNKNOWN_11"))
        self.assertEqual(pickle.loads(pickle.dumps(status.code)), status.code)
        self.assertIn("UNKNOWN_11", repr(status))
        with self.assertRaises(ValueError):
            pitot.StatusCode("ok")

    def test_hooks_and_predicates_are_called(self):
        told, seen = [], []
        incident_struct = lib.IncidentStruct(status=11, message=b"new", cause=b"manual", detail=b"", number=3)
        _recorder._incident_callback(told.append)(None, incident_struct)
        self.assertEqual([(it.number, it.status) for it in told], [(3, (11, "new"))])
        self.assertEqual(told[0].status.code.name, "UNKNOWN_11")
        view = lib.RequestViewStruct(outcome=7, route=b"/x")
        self.assertEqual(_recorder._predicate_callback(lambda request: not seen.append(request.outcome))(None, view), 1)
        self.assertEqual([(outcome, outcome.name) for outcome in seen], [(7, "UNKNOWN_7")])

    def test_a_message_of_an_unknown_level_is_an_error(self):
        said = []
        for level in (1, 3, -1):
            _recorder._log_callback(lambda *message: said.append(message))(None, level, b"x")
        self.assertEqual(said, [(logging.WARNING, "x"), (logging.ERROR, "x"), (logging.ERROR, "x")])


class Triggers(WithFolder):
    def test_each_trigger_fires_on_its_cause(self):
        recorder = self.start()
        self.assertTrue(recorder.add_failure_trigger("/failing", on_timed_out=False))
        self.assertTrue(recorder.add_tokens_trigger("/generate", first_token_above_ms=NANOSECOND_MS))
        pitot.Request("/failing").finish(pitot.Outcome.TIMED_OUT)
        self.assertEqual(recorder.stats().triggers_fired, 0)
        pitot.Request("/failing").finish(pitot.Outcome.FAILED)
        self.assertEqual(recorder.stats().triggers_fired, 1)
        with pitot.Request("/generate") as request:
            request.emit(2)
        self.assertEqual(recorder.stats().triggers_fired, 2)

        self.assertTrue(recorder.add_tokens_trigger("/stream", gap_or_above_quantile=0.5, warm_up_marks=100))
        with pitot.Request("/stream") as request:
            for _ in range(100):
                request.emit(1)
            self.assertEqual(recorder.stats().triggers_fired, 2)  # 99 gaps
            deadline = time.monotonic() + 60
            while recorder.stats().triggers_fired == 2:  # until one is longer than half of the others
                self.assertLess(time.monotonic(), deadline, "no long gap between tokens fires")
                request.emit(1)

        hung = threading.Event()
        recorder.on_incident(lambda told: hung.set() if told.cause.startswith("stall") else None)
        self.assertTrue(recorder.add_stall_trigger(scope="hang", scope_open_ms=1, cool_down_ms=1))
        with pitot.scope("hang"):
            self.assertTrue(hung.wait(120))

    def test_a_predicate_decides_and_its_exceptions_end_in_the_log(self):
        recorder = self.start()

        def predicate(request):
            if request.route == "/broken":
                raise RuntimeError("a mistake of the host's")
            return request.size_bucket == 4 and request.latency_ns > 0

        self.assertTrue(recorder.add_predicate_trigger(predicate, "of eight"))
        with self.assertLogs("pitot", logging.ERROR) as logs:
            pitot.Request("/broken").finish()
        self.assertIn("a mistake of the host's", logs.output[0])
        with pitot.Request("/good") as request:
            request.set_size("cups", 8)
        self.flush(recorder)
        self.assertEqual([told.cause for told in self.incidents], ["of eight"])

    def test_an_exception_in_a_hook_ends_in_the_log(self):
        recorder = self.start()

        @recorder.on_incident
        def hook(told):
            raise RuntimeError(f"the hook of incident {told.number}")

        self.assertTrue(callable(hook))
        with self.assertLogs("pitot", logging.ERROR) as logs:
            self.assertTrue(recorder.trigger())
            self.flush(recorder)
        self.assertIn("the hook of incident 1", "".join(logs.output))
        recorder.on_incident(self.incidents.append)
        self.assertTrue(recorder.trigger())
        self.flush(recorder)
        self.assertEqual([told.number for told in self.incidents], [2])

    def test_the_hook_for_verdicts_has_how_often_it_was_there_before(self):
        told = []
        incident = lib.IncidentStruct(size=ctypes.sizeof(lib.IncidentStruct), verdict=b"Request 63", number=7, again=22)
        _recorder._incident_callback(told.append)(None, ctypes.pointer(incident))
        self.assertEqual([(it.number, it.verdict, it.again) for it in told], [(7, "Request 63", 22)])

    def test_stats_have_what_became_of_incidents_and_verdicts(self):
        def give(_handle, pointer, _message, _size):
            it = ctypes.cast(pointer, ctypes.POINTER(_recorder.StatsStruct)).contents
            it.incidents_folded, it.verdicts_given, it.samples_failed = 1, 2, 10
            return 0

        with mock.patch.object(lib, "recorder_stats", give):
            stats = self.start().stats()
        self.assertEqual((stats.incidents_folded, stats.verdicts_given, stats.samples_failed), (1, 2, 10))

    def test_health_says_what_a_request_is_about(self):
        recorder = self.start()
        self.assertEqual(recorder.health()[:3], (pitot.HealthState.IDLE, 0, 0))
        with pitot.Request("/generate") as request:
            request.stage("prefill")
            health = recorder.health()
            self.assertEqual((health.state, health.route, health.stage), (pitot.HealthState.PROGRESSING, "/generate", "prefill"))
            stalled = recorder.health(stalled_after_ms=0)
            self.assertEqual((stalled.state, stalled.requests_open), (pitot.HealthState.STALLED, 1))
            self.assertIn("of /generate (open ", stalled.text)
        recorder.stop()
        self.assertEqual(recorder.health().state, pitot.HealthState.UNKNOWN)

    def test_the_hook_for_verdicts_has_every_file(self):
        recorder = self.start()
        told = []

        @recorder.on_verdict
        def hook(incident):
            told.append((incident.verdict, len(self.incidents), sorted(os.listdir(incident.directory))))

        self.assertTrue(callable(hook))
        self.assertTrue(recorder.trigger())
        self.flush(recorder)
        self.assertEqual(told, [("", 1, ["dump.pitot", "report.txt", "trace.pftrace"])])
        self.assertTrue(recorder.add_why())
        self.assertTrue(recorder.trigger())
        self.flush(recorder)
        verdict, incidents, files = told[1]
        self.assertNotEqual(verdict, "")
        self.assertEqual(incidents, 2)
        self.assertIn("report.html", files)

    def test_a_wrong_argument_is_named(self):
        recorder = self.start()
        for add, options, named in ((recorder.add_latency_trigger, {}, "above_ms"),
                                    (recorder.add_latency_trigger, {"above_ms": 1, "n": 65}, "n must be"),
                                    (recorder.add_latency_trigger, {"above_ms": 1, "memory": -1}, "memory"),
                                    (recorder.add_latency_trigger, {"above_ms": 1, "cool_down_ms": 1 << 32}, "cool_down_ms"),
                                    (recorder.add_stall_trigger, {}, "open_ms"),
                                    (recorder.add_drift_trigger, {"above_percent": 4}, "above_percent"),
                                    (recorder.add_tokens_trigger, {"gap_above_ms": float("nan")}, "gap_above_ms"),
                                    (recorder.add_tokens_trigger, {"gap_or_above_quantile": 0.4}, "gap_or_above_quantile"),
                                    (recorder.add_tokens_trigger, {"first_token_or_above_quantile": 1},
                                     "first_token_or_above_quantile"),
                                    (recorder.add_tokens_trigger, {"gap_above_ms": 1, "memory": -1}, "memory"),
                                    (recorder.add_tokens_trigger, {"gap_above_ms": 1, "warm_up_marks": -1}, "warm_up_marks")):
            with self.assertRaisesRegex(pitot.InvalidArgument, named):
                add(**options)
        with self.assertRaisesRegex(ValueError, "worker_cpu_percent"):
            pitot.start(worker_cpu_percent=101)


class Collectors(WithFolder):
    MEMORY = 8 << 20

    def test_a_depth_is_set_or_refused_by_name(self):
        recorder = self.start(depth=pitot.Depth.SCOPES, overhead_budget_percent=2.5)
        for depth in pitot.Depth:
            self.assertTrue(recorder.set_depth(depth))
        for wrong in (-1, 4, 254, 256, 1 << 32, None, "kernels"):
            with self.subTest(wrong), self.assertRaisesRegex(pitot.InvalidArgument, "depth"):
                recorder.set_depth(wrong)
        for options in ({"depth": 4}, {"depth": -1}, {"overhead_budget_percent": 0}, {"overhead_budget_percent": 101}):
            with self.subTest(options), self.assertRaisesRegex(pitot.InvalidArgument, next(iter(options))):
                pitot.start(**options)
        self.assertTrue(recorder.pause("cupti"))  # although nobody has it
        self.assertTrue(recorder.resume("cupti"))
        recorder.stop()
        for status in (recorder.set_depth(pitot.Depth.AUTO), recorder.pause("cupti"), recorder.resume("cupti"),
                       recorder.add_cupti(), recorder.add_nvml()):
            self.assertEqual(status, (pitot.StatusCode.NOT_RUNNING, "the recorder was stopped"))

    def test_stats_have_the_recorded_depth(self):
        recorder = self.start()
        self.assertEqual(recorder.stats().depth,
                         (pitot.Depth.SCOPES, "", None, (None,) * 4, (None,) * 4, (0,) * 4, 0, 0))
        with self.assertRaisesRegex(pitot.InvalidArgument, "lasting_cost_percent"):
            recorder.add_cupti(lasting_cost_percent=-1)
        self.assertTrue(recorder.add_cupti(library=os.environ["PITOT_FAKE_CUPTI"], memory_bytes=self.MEMORY))
        self.assertIn("scopes", recorder.stats().depth.state)
        self.assertTrue(recorder.set_depth(pitot.Depth.KERNELS))
        self.assertEqual(recorder.stats().depth[:2], (pitot.Depth.KERNELS, ""))

    def test_stats_have_the_cost_of_each_depth(self):
        def give(_handle, pointer, _message, _size):
            it = ctypes.cast(pointer, ctypes.POINTER(_recorder.StatsStruct)).contents
            it.depth, it.depth_state = 4, b"holding \xff"
            it.depth_cost = lib.OverheadStruct(1, 0, 0.5, 0.25, 0.75)
            it.depth_mean[1] = lib.OverheadStruct(1, 0, 1, -1, 3)
            it.depth_mean[2] = lib.OverheadStruct(0, 0, 9, 9, 9)
            it.depth_p99[3] = lib.OverheadStruct(1, 0, 4, 2, 6)
            it.depth_works[:] = range(10, 14)
            it.depth_armed_percent, it.depth_works_lost = 12.5, 7
            return 0

        with mock.patch.object(lib, "recorder_stats", give):
            depth = self.start().stats().depth
        self.assertEqual(depth.depth.name, "UNKNOWN_4")  # of a later library
        self.assertEqual(depth.state, "holding \ufffd")
        self.assertEqual(depth.cost, pitot.Overhead(0.5, 0.25, 0.75))
        self.assertEqual(depth.mean, (None, (1, -1, 3), None, None))
        self.assertEqual(depth.p99, (None, None, None, (4, 2, 6)))
        self.assertEqual(depth.p99[pitot.Depth.OPS].high_percent, 6)
        self.assertEqual(depth.works, (10, 11, 12, 13))
        self.assertEqual((depth.armed_percent, depth.works_lost), (12.5, 7))

    def test_cupti_is_taken_handed_over_and_taken_back(self):
        library, other = ctypes.CDLL(os.environ["PITOT_FAKE_CUPTI"]), ctypes.c_void_p()
        callback = ctypes.CFUNCTYPE(None)(lambda: None)

        def subscribe():
            return library.cuptiSubscribe(ctypes.byref(other), callback, None)

        recorder = self.start()
        self.assertTrue(recorder.add_cupti(library=os.environ["PITOT_FAKE_CUPTI"], memory_bytes=self.MEMORY))
        self.assertEqual(subscribe(), 0)  # CUPTI is not called before it is asked for
        self.assertEqual(library.cuptiUnsubscribe(other), 0)
        self.assertTrue(recorder.set_depth(pitot.Depth.KERNELS))
        self.assertEqual(subscribe(), 39)
        again = recorder.add_cupti(library=os.environ["PITOT_FAKE_CUPTI"], memory_bytes=self.MEMORY,
                                   attach=pitot.CuptiAttach.AT_START)
        self.assertEqual(again.code, pitot.StatusCode.ALREADY_RUNNING)
        self.assertTrue(recorder.pause("cupti"))
        self.assertEqual(subscribe(), 0)
        refused = recorder.resume("cupti")
        self.assertEqual(refused.code, pitot.StatusCode.UNAVAILABLE)
        self.assertIn("another tool has CUPTI", refused.message)
        self.assertEqual(library.cuptiUnsubscribe(other), 0)
        self.assertTrue(recorder.resume("cupti"))
        recorder.stop()
        self.assertEqual(subscribe(), 0)
        library.cuptiUnsubscribe(other)

    def test_an_incident_has_the_hosts_counters(self):
        recorder = self.start()
        self.assertTrue(recorder.add_host(rate_hz=50, memory_bytes=64 << 10))
        # The first incident may be taken before the first round of the collector's thread.
        self.assertTrue(any(b"host: involuntary switches" in self.trace_of(recorder) for _ in range(10)))

    def test_an_incident_has_a_verdict(self):
        recorder = self.start()
        with tempfile.NamedTemporaryFile() as mine:
            mine.write(b"no baseline")
            mine.flush()
            self.assertTrue(recorder.add_why(html=False, baseline_file=mine.name))
            self.assertTrue(recorder.add_predicate_trigger(lambda request: True, "every"))
            with pitot.Request("/classify"):
                pass
            self.flush(recorder)
            directory = self.incidents[0].directory
            self.assertIn("verdict.json", os.listdir(directory))
            recorder.stop()
        with open(os.path.join(directory, "report.txt"), encoding="utf-8") as file:
            report = file.read()
        self.assertRegex(report, r"(?s)^Request [0-9a-f]{16} \(/classify\) .*\nincident [0-9]+  every\n.*\nrequest [0-9a-f]{16}  /classify "
                                 r".*\nbaseline    .*\n\nPitot incident")
        self.assertNotIn("report.html", os.listdir(directory))

    def test_an_incident_has_nvmls_counters(self):
        recorder = self.start()
        self.assertTrue(recorder.add_nvml(library=os.environ["PITOT_FAKE_NVML"], rate_hz=50, memory_bytes=64 << 10))
        # The first incident may be taken before the first round of NVML's thread.
        self.assertTrue(any(b"SM clock" in self.trace_of(recorder) for _ in range(10)))

    NVML = {"library": os.environ.get("PITOT_FAKE_NVML"), "rate_hz": 50}

    def test_one_call_adds_everything_of_gpus_that_may_run_all_the_time(self):
        recorder = self.start()
        self.assertTrue(recorder.enable_gpu(nvml=self.NVML))
        for status in (recorder.add_counters(), recorder.add_cuda_calls(), recorder.add_cuda_events(),
                       recorder.add_nvml(**self.NVML)):
            self.assertEqual(status.code, pitot.StatusCode.ALREADY_RUNNING)

    def test_a_collector_of_gpus_is_left_out_or_has_options(self):
        recorder = self.start()
        self.assertTrue(recorder.enable_gpu(cuda_calls=False, cuda_events=False, nvml=False,
                                            counters={"interval_us": 8000}))
        self.assertEqual(recorder.add_counters().code, pitot.StatusCode.ALREADY_RUNNING)
        self.assertTrue(recorder.add_cuda_calls(slow_copy_us=50))
        self.assertTrue(recorder.add_cuda_events(pairs_per_context=16, layers=False))
        self.assertTrue(recorder.add_nvml(**self.NVML))
        with self.assertRaisesRegex(pitot.InvalidArgument, "NvmlOptions::rate_hz"):
            recorder.enable_gpu(counters=False, cuda_calls=False, cuda_events=False, nvml={"rate_hz": 51})
        for wrong, message in (({"counters": {"interval_ms": 1}}, "counters has the unknown option 'interval_ms'"),
                               ({"counters": None}, "counters is None; it must be True, False or a mapping"),
                               ({"nvml": 1}, "nvml is 1; it must be True, False or a mapping")):
            with self.subTest(wrong), self.assertRaisesRegex(pitot.InvalidArgument, message):
                recorder.enable_gpu(**wrong)

    def test_a_wrong_option_of_gpus_adds_no_collector(self):
        recorder = self.start()
        with self.assertRaisesRegex(pitot.InvalidArgument, "CounterOptions::interval_us"):
            recorder.enable_gpu(counters={"interval_us": 5}, nvml=self.NVML)
        self.assertTrue(recorder.enable_gpu(nvml=self.NVML))

    def test_a_start_with_gpus_has_their_collectors(self):
        recorder = self.start(gpu=True)
        for status in (recorder.add_counters(), recorder.add_cuda_events()):
            self.assertEqual(status.code, pitot.StatusCode.ALREADY_RUNNING)

    def test_a_start_passes_the_options_of_gpus_on(self):
        recorder = self.start(gpu={"counters": {"interval_us": 8000}, "cuda_events": False})
        self.assertEqual(recorder.add_counters().code, pitot.StatusCode.ALREADY_RUNNING)
        self.assertTrue(recorder.add_cuda_events())

    def test_a_start_with_a_wrong_option_of_gpus_starts_no_recorder(self):
        for wrong, message in (({"counters": {"interval_us": 5}}, "CounterOptions::interval_us"),
                               ({"bogus": 3}, "gpu has the unknown option 'bogus'"),
                               (None, "gpu is None; it must be True, False or a mapping")):
            with self.subTest(wrong), self.assertRaisesRegex(pitot.InvalidArgument, message):
                pitot.start(gpu=wrong)
        self.assertTrue(self.start().status)

    def test_a_text_of_another_type_is_named(self):
        for call, message in ((lambda: pitot.cuda_scope(0, "forward"), "^name is 0; it must be a str"),
                              (lambda: pitot.Wait(pitot.WaitKind.QUEUE, 3), "^resource is 3; "),
                              (lambda: pitot.Request(3), "^route is 3; ")):
            with self.subTest(message), self.assertRaisesRegex(pitot.InvalidArgument, message):
                call()

    def test_a_cuda_scope_without_a_gpu_does_nothing(self):
        recorder = self.start()
        with pitot.cuda_scope("forward"):
            pass
        self.assertTrue(recorder.add_cuda_events())
        with pitot.cuda_scope("forward", stream=0):
            pass
        with self.assertRaisesRegex(pitot.InvalidArgument, "stream"):
            pitot.cuda_scope("forward", stream=-1)

    def test_a_work_stream_without_work_or_collector_does_nothing(self):
        pitot.set_work_stream(0)
        recorder = self.start()
        self.assertTrue(recorder.add_cuda_events())
        pitot.set_work_stream(0)
        with pitot.Batch("resnet50"):
            pitot.set_work_stream(0)
        with self.assertRaisesRegex(pitot.InvalidArgument, "stream"):
            pitot.set_work_stream(-1)

    def test_the_interval_of_counters_is_changed_while_they_run(self):
        self.assertEqual(pitot.set_counter_interval(500).code, pitot.StatusCode.UNAVAILABLE)
        recorder = self.start()
        missing = recorder.add_counters(library="/nowhere/libcupti.so")
        self.assertEqual(missing.code, pitot.StatusCode.NOT_FOUND)
        self.assertIn("CounterOptions::library is /nowhere/libcupti.so", missing.message)
        self.assertTrue(recorder.add_counters(library="libnowhere.so"))
        self.assertTrue(pitot.set_counter_interval(500))
        self.assertTrue(pitot.set_counter_interval(0))
        for wrong in (99, -1, 2**32):
            with self.assertRaises(pitot.InvalidArgument):
                pitot.set_counter_interval(wrong)

    def test_counters_are_read_through_the_libcupti_that_pytorch_will_load(self):
        given = []

        def add(_handle, pointer, _message, _size):
            given.append(ctypes.cast(pointer, ctypes.POINTER(lib.Counters)).contents.library)
            return 0

        recorder = self.start()
        with mock.patch.object(lib, "recorder_add_counters", add), \
                mock.patch.object(_cupti, "find", lambda: "/wheels/libcupti.so.13"):
            recorder.add_counters()
            recorder.add_counters(library="/own/libcupti.so")
        self.assertEqual(given, [b"/wheels/libcupti.so.13", b"/own/libcupti.so"])

    def test_libraries_nvtx_ranges_are_in_incidents(self):
        recorder = self.start()
        self.assertTrue(recorder.add_nvtx())
        emitter = ctypes.CDLL(os.environ["PITOT_FAKE_EMITTER"])
        emitter.GetEmitter.restype = ctypes.POINTER(ctypes.c_void_p)
        push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(emitter.GetEmitter()[2])
        pop = ctypes.CFUNCTYPE(ctypes.c_int)(emitter.GetEmitter()[5])
        push(b"a layer of a library's")
        pop()
        self.assertIn(b"a layer of a library's", self.trace_of(recorder))

    def test_libtorch_is_recorded_if_the_library_was_built_with_it(self):
        added = self.start().add_torch(shapes=True)
        self.assertTrue(added or "PITOT_C_WITH_TORCH" in added.message, added)

    def test_without_a_gpu_a_status_gives_the_reason_and_the_recorder_runs_on(self):
        recorder = self.start()
        for status in (recorder.add_cupti(library="/nowhere/libcupti.so", attach=pitot.CuptiAttach.AT_START),
                       recorder.add_nvml(library="/nowhere/libnvidia-ml.so")):
            self.assertEqual(status.code, pitot.StatusCode.NOT_FOUND)
            self.assertIn("/nowhere/", status.message)
        self.assertTrue(recorder.status)

    def test_a_wrong_argument_is_named(self):
        recorder = self.start()
        for add, options in ((recorder.add_cupti, {"memory_bytes": 1}), (recorder.add_cupti, {"memory_bytes": "1"}),
                             (recorder.add_cupti, {"attach": 3}),
                             (recorder.add_nvml, {"rate_hz": 51}), (recorder.add_nvml, {"rate_hz": -1}),
                             (recorder.add_nvml, {"memory_bytes": 1}), (recorder.add_counters, {"interval_us": 50}),
                             (recorder.add_counters, {"most_cpu_percent": "2"}),
                             (recorder.add_cuda_events, {"pairs_per_context": 0}),
                             (recorder.add_cuda_events, {"layer_cost_percent": 0}),
                             (recorder.add_cuda_events, {"graph_scopes": 257}),
                             (recorder.add_cuda_calls, {"slow_copy_us": 0}), (recorder.add_host, {"rate_hz": 0}),
                             (recorder.add_host, {"thread_rate_hz": 201}), (recorder.add_host, {"most_threads": 0}),
                             (recorder.add_host, {"memory_bytes": 1}), (recorder.add_stacks, {"most_stacks": 0}),
                             (recorder.add_stacks, {"most_threads": 65}), (recorder.add_stacks, {"running_threads": 3})):
            with self.subTest(options), self.assertRaisesRegex(pitot.InvalidArgument, next(iter(options))):
                add(**options)

    def test_a_recorder_that_did_not_start_takes_no_collector(self):
        self.start()
        second = pitot.start()
        for status in (second.add_cupti(), second.add_host(), second.add_stacks(), second.add_nvml(), second.add_counters(),
                       second.add_cuda_events(), second.enable_gpu(), second.set_depth(pitot.Depth.AUTO), second.pause("cupti")):
            self.assertEqual(status, second.status)


class Profiles(WithFolder):
    # In a process of its own: the fake driver stays loaded.
    SERVER = """
import ctypes, logging, os, pickle, threading, time, pitot
driver = ctypes.CDLL(os.environ["PITOT_FAKE_DRIVER"])
server = ctypes.CDLL(os.environ["PITOT_PROFILED_SERVER"])
server.begin_server()
recorder = pitot.start()
assert recorder.add_cuda_calls()
def profile(*arguments, **options):
    return pitot.profile_kernels(*arguments, library=os.environ["PITOT_FAKE_RANGE"], **options)
"""

    def serve(self, code):
        status, output = run_python(self.SERVER + code + "\nserver.end_server()\n")
        self.assertEqual(status, 0, output)
        return output.splitlines()

    def test_a_profile_has_the_values_of_the_chosen_kernel(self):
        kernel, counts, text = self.serve("""
found = profile("FusedAttention")
assert found, found.status
kernel, = found.kernels
assert pickle.loads(pickle.dumps(kernel)) == kernel
print(kernel._replace(theoretical_occupancy_percent=None, waves=None, limited_by=None))
print(found.launches_measured, found.launches_seen > 33, found.launches_disturbed)
print(str(found).splitlines()[0])""")
        self.assertEqual(kernel, "KernelProfile(name='FusedAttention(float const*, int)', grid=(128, 1, 1), block=(64, 1, 1), "
                                 "launches=33, dynamic_shared_bytes=0, registers_per_thread=168, static_shared_bytes=0, "
                                 "limited_by=None, theoretical_occupancy_percent=None, waves=None, duration_ns=50.0, "
                                 "achieved_occupancy_percent=50.0, l2_hit_percent=50.0, dram_percent=50.0, "
                                 "dram_read_bytes=50.0, dram_written_bytes=50.0, tensor_percent=50.0, sm_percent=50.0)")
        self.assertEqual(counts, "33 True 0")
        self.assertIn("FusedAttention", text)

    def test_a_value_that_was_not_measured_is_none(self):
        self.assertEqual(self.serve("""
kernel, = profile("FusedAttention", launches=1, metrics=pitot.ProfileMetrics.BASIC).kernels
print(kernel.duration_ns, kernel.l2_hit_percent, kernel.sm_percent)"""), ["50.0 None None"])

    def test_two_profiles_are_compared(self):
        text, = self.serve("""print(profile("FusedAttention").compare("fused", profile("Copy"), "copy"))""")
        self.assertIn("fused", text)
        self.assertIn("copy", text)

    def test_other_threads_run_while_a_profile_waits(self):
        self.assertEqual(self.serve("""
def wait():  # the other thread's profile may have begun first
    while profile("NoSuchKernel", timeout_ms=3000).status.code == pitot.StatusCode.ALREADY_RUNNING:
        pass
waiting = threading.Thread(target=wait)
waiting.start()
while waiting.is_alive() and profile("Other", timeout_ms=1).status.code != pitot.StatusCode.ALREADY_RUNNING:
    time.sleep(0.01)  # the other's turn
print(waiting.is_alive())
waiting.join()"""), ["True"])

    def test_a_profile_that_fails_is_false_and_says_why(self):
        self.assertEqual(self.serve("""
found = profile("NoSuchKernel", timeout_ms=50)
print(bool(found), found.status.code.name, "NoSuchKernel" in found.status.message, found.kernels, found.launches_seen > 0)
"""), ["False UNAVAILABLE True () True"])

    def test_without_a_recorder_launches_or_cuda_a_profile_says_what_is_missing(self):
        status, output = run_python("import pitot\n"
                                    "print(pitot.profile_kernels().status.message)\n"
                                    "recorder = pitot.start()\n"
                                    "print(pitot.profile_kernels().status.message)\n"
                                    "recorder.add_cuda_calls()\n"
                                    "print(pitot.profile_kernels().status.message)\n")
        self.assertEqual(status, 0, output)
        for line, words in zip(output.splitlines(), ("not started", "launches are not seen", "has not used CUDA")):
            self.assertIn(words, line)

    def test_a_wrong_option_of_a_profile_is_named(self):
        self.start()
        for options in ({"launches": 0}, {"launches": -1}, {"timeout_ms": 600_001}, {"replay": 2}, {"metrics": 2},
                        {"device": "0"}):
            with self.subTest(options), self.assertRaisesRegex(pitot.InvalidArgument, next(iter(options))):
                pitot.profile_kernels("Attention", **options)
        with self.assertRaises(pitot.InvalidArgument):
            pitot.profile_kernels(None)


class Life(WithFolder):
    def test_a_recorder_that_cannot_start_does_not_raise(self):
        self.start()
        with self.assertLogs("pitot", logging.ERROR) as logs:
            second = pitot.start()
        self.assertFalse(second.status)
        self.assertEqual(second.status.code, pitot.StatusCode.ALREADY_RUNNING)
        self.assertIn("running in this process already", logs.output[0])
        self.assertEqual(second.add_latency_trigger(above_ms=1), second.status)
        self.assertEqual(second.trigger(), second.status)
        self.assertEqual(second.stats().events_recorded, 0)
        self.assertLess(second.stats().recording_cpu_percent, 0)  # unknown
        second.stop()

    def test_messages_go_to_the_hosts_function(self):
        said = []
        recorder = self.start(log=lambda level, message: said.append((level, message)))
        self.assertTrue(recorder.trigger())
        self.flush(recorder)
        self.assertEqual(said, [(logging.INFO, f"incident: {self.incidents[0].directory}")])

    def test_a_stopped_recorder_says_so_and_another_may_start(self):
        with self.start() as recorder:
            pass
        recorder.stop()
        self.assertEqual(recorder.status, (pitot.StatusCode.NOT_RUNNING, "the recorder was stopped"))
        self.assertFalse(recorder.trigger())
        self.start()

    def test_the_environment_is_read_on_request(self):
        for off, status in (("1", "DISABLED"), ("0", "OK")):
            code = f"""
import pitot
with pitot.start(from_environment=True) as recorder:
    assert recorder.status.code == pitot.StatusCode.{status}, recorder.status
    recorder.add_latency_trigger(above_ms=1)
    with pitot.Request("/x") as request:
        assert (request.id == 0) == {off}
    recorder.trigger()
"""
            self.assertEqual(run_python(code, PITOT_OFF=off, PITOT_INCIDENT_DIRECTORY=self.folder), (0, ""))
        self.assertEqual(len([name for name in os.listdir(self.folder) if name[0] != "."]), 1)

    def test_a_program_that_ends_without_stop_writes_its_triggered_incident(self):
        code = f"""
import pitot
recorder = pitot.start({self.folder!r})
recorder.on_incident(lambda incident: print(incident.cause))
recorder.trigger()
request, batch = pitot.Request("/open"), pitot.Batch("open")
"""
        self.assertEqual(run_python(code), (0, "manual\n"))

    def test_a_forked_child_is_silent_until_it_starts_a_recorder_of_its_own(self):
        code = """
import os, pitot
recorder = pitot.start()
if os.fork() == 0:
    assert recorder.status.code == pitot.StatusCode.NOT_RUNNING and pitot.Request("/x").id == 0
    own = pitot.start()
    assert own.status, own.status
    assert pitot.Request("/x").id != 0
    raise SystemExit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
assert recorder.status
"""
        # CPython 3.12 and later warn of each fork of a process with threads.
        self.assertEqual(run_python(code, PYTHONWARNINGS="ignore:This process:DeprecationWarning"), (0, ""))


class Ends(WithFolder):
    def incidents_after(self, code):
        """The status and output of a process with a recorder that has fired, and its number of incidents."""
        before = len(os.listdir(self.folder))
        start = f"""
import faulthandler, os, signal, pitot
def start():
    recorder = pitot.start({self.folder!r}, post_window_ms=60000, handle_ends=pitot.Ends.ALL, end_grace_ms=20000)
    assert recorder.status, recorder.status
    assert recorder.trigger()
"""
        status, output = run_python(start + code)
        return status, output, len(os.listdir(self.folder)) - before

    def test_sigterm_writes_what_fired_and_ends_the_process(self):
        self.assertEqual(self.incidents_after("start(); os.kill(os.getpid(), signal.SIGTERM); signal.pause()"),
                         (-signal.SIGTERM, "", 1))

    def test_a_handler_in_python_stays(self):
        code = "start(); signal.signal(signal.SIGTERM, lambda *_: os._exit(5)); os.kill(os.getpid(), signal.SIGTERM)"
        self.assertEqual(self.incidents_after(code)[0], 5)

    def test_faulthandler_works_whichever_is_first(self):
        for order in ("faulthandler.enable(); start(); ", "start(); faulthandler.enable(); "):
            with self.subTest(order):
                status, output, incidents = self.incidents_after(order + "os.abort()")
                self.assertEqual((status, output.count("Fatal Python error: Aborted")), (-signal.SIGABRT, 1), output)
                self.assertEqual(incidents, 1)
                status, output, _ = self.incidents_after(order + "import ctypes; ctypes.string_at(0)")
                self.assertEqual((status, output.count("Fatal Python error: Segmentation fault")), (-signal.SIGSEGV, 1), output)


class Cupti(WithFolder):
    CODE = "import pitot._cupti as c; print(c.find())"

    def file(self, path, text=""):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def find(self, code=CODE):
        status, output = run_python(code, PACKAGE + os.pathsep + self.folder)
        self.assertEqual(status, 0, output)
        return output.strip()

    def setUp(self):
        super().setUp()
        self.file("torch/__init__.py", "raise SystemExit('PyTorch was imported')")
        self.cupti13 = self.file("nvidia/cu13/lib/libcupti.so.13")
        self.cupti12 = self.file("nvidia/cuda_cupti/lib/libcupti.so.12")

    def test_pytorchs_libcupti_is_found_by_its_cuda_without_importing_it(self):
        for version, cupti in (("cuda: Optional[str] = '13.0'", self.cupti13), ("cuda = '12.8'", self.cupti12),
                               ("cuda: Optional[str] = None", "None"), ("cuda = '11.8'", "None"), ("", "None")):
            with self.subTest(version):
                self.file("torch/version.py", f"__version__ = '2.11.0'\n{version}\nhip: Optional[str] = None\n")
                self.assertEqual(self.find(), cupti)

    def test_a_libcupti_inside_pytorchs_own_folder_is_found(self):
        self.file("torch/version.py", "cuda = '12.8'\n")
        inside = self.file("torch/lib/libcupti-0123abcd.so.12")
        self.assertEqual(self.find(), inside)

    def test_an_imported_pytorch_has_loaded_its_own(self):
        self.file("torch/version.py", "cuda = '13.0'\n")
        self.file("torch/__init__.py")
        self.assertEqual(self.find("import torch; " + self.CODE), "None")

    def test_without_pytorch_nothing_is_guessed(self):
        shutil.rmtree(os.path.join(self.folder, "torch"))
        if importlib.util.find_spec("torch") is None:
            self.assertEqual(self.find(), "None")


class Library(unittest.TestCase):
    def test_structs_have_the_librarys_layout(self):
        with open(os.path.join(ROOT, "test", "golden", "c_abi.txt"), encoding="utf-8") as file:
            lines = file.read()
        structs = {"pitot_options": lib.Options, "pitot_stats": _recorder.StatsStruct, "pitot_health": _recorder.HealthStruct,
                   "pitot_incident": lib.IncidentStruct,
                   "pitot_overhead": lib.OverheadStruct,
                   "pitot_cupti": lib.Cupti, "pitot_counters": lib.Counters, "pitot_cuda_calls": lib.CudaCalls,
                   "pitot_cuda_events": lib.CudaEvents,
                   "pitot_gpu": lib.Gpu, "pitot_cuda_scope": lib.CudaScopeStruct, "pitot_host": lib.Host, "pitot_nvml": lib.Nvml,
                   "pitot_stacks": lib.Stacks,
                   "pitot_nvtx": lib.Nvtx, "pitot_torch": lib.Torch, "pitot_profile_options": lib.ProfileOptions,
                   "pitot_profile_counts": lib.ProfileCounts, "pitot_kernel_profile": lib.KernelProfileStruct,
                   "pitot_latency_trigger": lib.LatencyTrigger, "pitot_failure_trigger": lib.FailureTrigger,
                   "pitot_tokens_trigger": lib.TokensTrigger, "pitot_stall_trigger": lib.StallTrigger,
                   "pitot_drift_trigger": lib.DriftTrigger, "pitot_why": lib.Why,
                   "pitot_predicate_trigger": lib.PredicateTrigger, "pitot_request_view": lib.RequestViewStruct,
                   "pitot_token": lib.TokenStruct, "pitot_owner": lib.OwnerStruct, "pitot_wait": lib.WaitStruct,
                   "pitot_adopt": lib.AdoptStruct, "pitot_interpreter_watch": lib.WatchStruct}
        self.assertEqual(set(re.findall(r"^struct (\w+)", lines, re.M)), set(structs))
        for name, struct in structs.items():
            fields = [(field, getattr(struct, field).offset, getattr(struct, field).size) for field, _ in struct._fields_]
            expected = re.findall(rf"^field {name}\.(\w+) (\d+) (\d+)", lines, re.M)
            self.assertEqual([(field.lstrip("_"), offset, size) for field, offset, size in fields],
                             [(field, int(offset), int(size)) for field, offset, size in expected])

    def test_constants_have_the_librarys_values(self):
        with open(os.path.join(ROOT, "test", "golden", "c_abi.txt"), encoding="utf-8") as file:
            lines = file.read()
        for enum, prefix in ((pitot.StatusCode, ""), (pitot.Clock, "CLOCK_"), (pitot.Depth, "DEPTH_"),
                             (pitot.CuptiAttach, "ATTACH_"), (pitot.ProfileReplay, "PROFILE_REPLAY_"),
                             (pitot.ProfileMetrics, "PROFILE_METRICS_"), (pitot.OccupancyLimit, "OCCUPANCY_LIMIT_"),
                             (pitot.Outcome, "OUTCOME_"), (pitot.RunningThreads, "RUNNING_"),
                             (pitot.WaitKind, "WAIT_"), (pitot.BatchClose, "BATCH_")):
            for member in enum:
                self.assertIn(f"\nconstant PITOT_{prefix}{member.name} {member.value}\n", lines)

    def test_the_package_has_the_librarys_version(self):
        self.assertEqual(pitot.__version__, pitot.library_version())
        with open(os.path.join(SOURCES, "pyproject.toml"), encoding="utf-8") as file:
            self.assertIn(f'\nversion = "{pitot.__version__}"\n', file.read())

    def test_a_library_that_is_missing_or_of_another_abi_is_named(self):
        for path, said in (("/nowhere/libpitot_c.so.1", "loading /nowhere/libpitot_c.so.1 failed"),
                           ("libc.so.6", "is not a libpitot_c.so.1"),
                           (os.environ["PITOT_FAKE_LIBRARY"], "has ABI 2.0; this package needs 1.")):
            status, output = run_python("import pitot", PITOT_LIBRARY=path)
            self.assertEqual(status, 1)
            self.assertIn("ImportError", output)
            self.assertIn(said, output)

    def test_a_library_next_to_the_package_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(PACKAGE, "pitot"), os.path.join(folder, "pitot"))
            beside = os.path.join(folder, "pitot", "libpitot_c.so.1")
            shutil.copy(os.environ["PITOT_LIBRARY"], beside)
            self.assertEqual(run_python("import pitot._library as l; print(l._PATH)", folder, PITOT_LIBRARY=""),
                             (0, beside + "\n"))

    def test_pip_installs_the_package(self):
        for module in ("pip", "setuptools", "wheel"):
            if run_python(f"import {module}")[0] != 0:
                self.skipTest(f"{module} is not installed")
        with tempfile.TemporaryDirectory() as folder:
            sources = shutil.copytree(SOURCES, os.path.join(folder, "sources"))
            target = os.path.join(folder, "target")
            done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
                                   "--no-build-isolation", "--disable-pip-version-check", "--target", target, sources],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertTrue(os.path.exists(os.path.join(target, "pitot", "py.typed")))
            self.assertEqual(run_python("import pitot; print(pitot.__file__)", target),
                             (0, os.path.join(target, "pitot", "__init__.py") + "\n"))

    def test_the_package_is_python_3_9(self):
        for name in os.listdir(os.path.join(PACKAGE, "pitot")):
            if name.endswith(".py"):
                with open(os.path.join(PACKAGE, "pitot", name), encoding="utf-8") as file:
                    ast.parse(file.read(), name, feature_version=(3, 9))


if __name__ == "__main__":
    faulthandler.dump_traceback_later(280, exit=True)  # a test that hangs fails, and shows where
    unittest.main()
