#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the calls of the Python package hand to the library: handles, members, work, counts.

Environment: PITOT_LIBRARY (spy_library.c), PITOT_PACKAGE (the package's folder; unset: the sources), PITOT_CALLS.
"""

import array
import ctypes
import math
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("PITOT_PACKAGE", os.path.join(HERE, "..", "..", "bindings", "python")))

import pitot  # noqa: E402

SPY = ctypes.CDLL(os.environ["PITOT_LIBRARY"])


def function():
    return ctypes.c_char_p.in_dll(SPY, "spy_function").value.decode()


def handle():
    return ctypes.c_void_p.in_dll(SPY, "spy_handle").value


def calls():
    return ctypes.c_uint64.in_dll(SPY, "spy_calls").value


def count():
    return ctypes.c_uint64.in_dll(SPY, "spy_count").value


def works(number):
    return list((ctypes.c_double * 256).in_dll(SPY, "spy_works"))[:number]


def packed(number):
    return bytes((ctypes.c_uint64 * 1024).in_dll(SPY, "spy_tokens"))[:32 * number]


class Spied(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        recorder = pitot.start(folder.name)
        cls.addClassCleanup(recorder.stop)

    def test_an_arguments_conversion_may_finish_the_request(self):
        class Text(str):
            def encode(self, *arguments):
                end()
                return str.encode(self, *arguments)

        class Number:
            def __index__(self):
                end()
                return 1

            def __float__(self):
                end()
                return 1.0

        class Numbers:
            def __len__(self):
                return 1

            def __getitem__(self, at):
                end()
                return [1][at]

        ended = []

        def end():
            ended.append(True)
            it.finish()

        token, text, number, numbers = pitot.Token(), Text("x"), Number(), Numbers()
        for name, use in (("stage", lambda: it.stage(text)), ("enqueue", lambda: it.enqueue(text)), ("emit", lambda: it.emit(number)),
                          ("set_id", lambda: it.set_id(text)), ("set_label", lambda: it.set_label("x", text)),
                          ("set_size", lambda: it.set_size(text, 1)), ("set_size", lambda: it.set_size("x", number)),
                          ("set_deadline", lambda: it.set_deadline(number)), ("child", lambda: it.child(text)),
                          ("close", lambda: it.close(number)), ("join with work", lambda: it.join(token, number)),
                          ("join many", lambda: it.join_many([token], [number])),
                          ("join many", lambda: it.join_many([token], numbers))):
            with self.subTest(name):
                it = pitot.Batch("x") if name in ("close", "join with work", "join many") else pitot.Request("/x")
                del ended[:]
                use()
                if not ended:  # the conversion ran no Python
                    self.assertNotEqual((function(), handle()), (name, None))
                elif function() == name:
                    self.assertIsNone(handle())  # and not the freed one
                it.finish()

    def test_an_outcomes_conversion_may_finish_the_request(self):
        class Number:
            def __index__(self):
                it.finish(2)
                return 1

        it = pitot.Request("/x")
        before = calls()
        it.finish(Number())
        # The handle was given once, with the outcome of the inner call.
        self.assertIn((calls() - before, count(), handle() is None), [(1, 2, False), (2, 1, True)])

    def test_members_bring_work_one_by_one_or_together(self):
        requests = [pitot.Request("/x") for _ in range(3)]
        tokens = [request.token for request in requests]
        together = b"".join(map(bytes, tokens))
        batch = pitot.Batch("slots", "tokens")
        for member in (requests[1], tokens[1]):
            batch.join(member)
            self.assertEqual((function(), packed(1)), ("join", bytes(tokens[1])))
            batch.join(member, work=2578)
            self.assertEqual((function(), packed(1), works(1)), ("join with work", bytes(tokens[1]), [2578]))
            batch.leave(member)
            self.assertEqual((function(), packed(1)), ("leave", bytes(tokens[1])))
        for members in (tokens, requests, tuple(tokens), together, memoryview(together), bytearray(together),
                        array.array("Q", together), [tokens[0], requests[1], tokens[2]], {t: 0 for t in tokens}):
            for work in ([1, 2.5, 0], (1, 2.5, 0), array.array("d", [1, 2.5, 0]), array.array("f", [1, 2.5, 0])):
                with self.subTest(type(members), work=type(work)):
                    batch.join_many(members, work)
                    self.assertEqual((function(), count(), packed(3), works(3)), ("join many", 3, together, [1, 2.5, 0]))
        for code in "bBhHiIlqLQ":
            batch.join_many(tokens, array.array(code, [3, 1, 2]))
            self.assertEqual(works(3), [3, 1, 2], code)
        batch.join_many(tokens)
        self.assertTrue(all(map(math.isnan, works(3))))
        batch.join_many([])
        self.assertEqual((count(), handle() is None), (0, False))
        batch.join_many(requests * 70, [float(i) for i in range(210)])  # more than fit into one group
        self.assertEqual((count(), packed(210), works(210)), (210, together * 70, [float(i) for i in range(210)]))

    def test_wrong_members_reach_nobody(self):
        token = pitot.Token()
        batch = pitot.Batch("x")
        before = calls()
        for said, use in (("works has 1 values; it must have 2", lambda: batch.join_many([token] * 2, [1])),
                          ("works has 1 values; it must have 2", lambda: batch.join_many([token] * 2, array.array("d", [1]))),
                          ("works is '2'; it must be a number", lambda: batch.join_many([token] * 2, [1, "2"])),
                          ("work is '1'; it must be a number", lambda: batch.join(token, work="1")),
                          ("token is 7; it must be a Token or a Request", lambda: batch.join(7)),
                          ("token is 7; it must be a Token or a Request", lambda: batch.leave(7)),
                          ("token is 7; it must be a Token or a Request", lambda: batch.join_many([token, 7])),
                          ("tokens is 7; it must be a sequence or a buffer", lambda: batch.join_many(7)),
                          ("works is 7; it must be a sequence or a buffer", lambda: batch.join_many([token], 7)),
                          ("tokens is b'x'; it must be packed tokens of 32 bytes each", lambda: batch.join_many(b"x")),
                          ("counts is -1; it must be 0 to 4294967295", lambda: pitot.emit_many([token], [-1])),
                          ("counts is 1.5; it must be a whole number", lambda: pitot.emit_many([token], [1.5])),
                          ("counts has 2 values; it must have 1", lambda: pitot.emit_many([token], [1, 2])),
                          ("must be", lambda: pitot.emit_many([token], array.array("d", [1]))),
                          ("must be", lambda: pitot.emit_many([token], array.array("b", [-1]))),
                          ("members is 7; it must be a sequence or a buffer", lambda: pitot.emit_many(7)),
                          ("executor is 7; it must be a str", lambda: pitot.Batch.begin_step(7, [])),
                          ("work_unit is 7; it must be a str", lambda: pitot.Batch.begin_step("x", [], None, 7)),
                          ("finished has 7; it must be a Request", lambda: batch.end_step(finished=[7])),
                          ("outcome is 'ok'; it must be a whole number", lambda: batch.end_step(outcome="ok"))):
            with self.subTest(said), self.assertRaisesRegex(pitot.InvalidArgument, said):
                use()
        self.assertEqual(calls(), before)

    def test_a_step_is_one_call_to_begin_and_one_to_end(self):
        requests = [pitot.Request("/x") for _ in range(3)]
        together = b"".join(bytes(request.token) for request in requests)
        before = calls()
        step = pitot.Batch.begin_step("slots", requests, [1, 1, 512])
        self.assertEqual((calls() - before, packed(3), works(3)), (2, together, [1, 1, 512]))
        self.assertEqual((function(), count(), handle() is None), ("close", pitot.BatchClose.STEP, False))
        self.assertNotEqual(step.id, 0)
        before = calls()
        step.end_step(requests, [1, 0, 4])
        self.assertEqual((calls() - before, function(), count(), packed(1)), (2, "emit token", 4, bytes(requests[2].token)))
        step.end_step(requests)  # over already: the tokens count, the batch does not
        self.assertEqual(calls() - before, 5)
        step = pitot.Batch.begin_step("slots", together)
        before = calls()
        step.end_step(finished=requests[:2], outcome=pitot.Outcome.CANCELLED)
        self.assertEqual((calls() - before, function(), count()), (2, "finish", pitot.Outcome.CANCELLED))

    def test_many_requests_put_out_tokens_in_one_call(self):
        requests = [pitot.Request("/x") for _ in range(2)]
        for members in (requests, [request.token for request in requests], b"".join(bytes(request.token) for request in requests)):
            for counts in ([0, 3], (0, 3), array.array("I", [0, 3]), array.array("q", [0, 3]), bytes([0, 3])):
                before = calls()
                pitot.emit_many(members, counts)
                self.assertEqual((calls() - before, function(), count(), packed(1)), (1, "emit token", 3, bytes(requests[1].token)))
            before = calls()
            pitot.emit_many(members)
            self.assertEqual((calls() - before, count()), (2, 1))


if __name__ == "__main__":
    unittest.main()
