#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the boards of other servers: what the Python server and llama-server's runner log as the truth, and the edits of a source."""

import importlib.util
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import llama_board
import llama_edits
import python_board

MS = 1_000_000


def python_server():
    """The server's code, without its packages."""
    with mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in ('fastapi', 'pitot', 'uvicorn')}):
        spec = importlib.util.spec_from_file_location('python_server', python_board.SERVER)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


class PythonServer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log, self.server = Path(folder.name) / 'log.jsonl', python_server()
        self.faults = self.server.Faults(self.log, 1)
        self.addCleanup(self.faults.log.close)

    def lines(self):
        return [json.loads(text) for text in self.log.read_text(encoding='utf-8').splitlines()]

    def at(self, ms):
        return mock.patch.object(self.server.time, 'monotonic_ns', lambda: ms * MS)

    def test_a_fault_strikes_at_its_rate_and_only_while_it_is_set(self):
        self.assertIsNone(self.faults.draw('slow_code'))
        self.faults.set({'active': True, 'faults': ['slow_code:rate=0.25,dose_ms=8']})
        struck = [dose for dose in (self.faults.draw('slow_code') for _ in range(400)) if dose]
        self.assertTrue(60 < len(struck) < 140, len(struck))
        self.assertEqual(struck[0], {'rate': 0.25, 'dose_ms': 8})
        self.faults.set({'active': False})
        self.assertIsNone(self.faults.draw('slow_code'))

    def test_a_fault_of_the_process_is_logged_for_a_request_as_long_as_both_last(self):
        self.faults.set({'active': True, 'faults': ['gc_heap:rate=1']})
        with self.at(10):
            interval = self.faults.during('gc_heap', ['janitor'])
        with self.at(30):
            self.faults.end(interval)
        for begin_ms, end_ms in ((0, 15), (20, 40), (31, 40), (0, 5)):
            with self.at(end_ms):
                self.faults.write_overlaps(begin_ms + 1, begin_ms * MS)
        self.assertEqual([(line['request'], line['injected_ns']) for line in self.lines()],
                         [(f'{1:016x}', 5 * MS), (f'{21:016x}', 10 * MS)])
        self.assertEqual(self.lines()[0]['holder'], ['janitor'])
        self.assertEqual(self.lines()[0]['as'], 'gc_heap:rate=1')

    def test_a_fault_still_there_counts_until_now_and_not_for_its_own_request(self):
        with self.at(10):
            self.faults.during('loop_block', [self.server.text_of(7)])
        with self.at(25):
            self.faults.write_overlaps(7, 0)
            self.faults.write_overlaps(8, 0)
        self.assertEqual([(line['request'], line['injected_ns']) for line in self.lines()], [(f'{8:016x}', 15 * MS)])

    def test_a_large_member_is_a_fault_for_the_small_ones_of_its_batch(self):
        model = self.server.Model.__new__(self.server.Model)
        model.faults = self.faults
        taken = [(mock.Mock(request_id=number), size, 0, None) for number, size in ((1, 800), (2, 8000), (3, 7000))]
        for token, size, _, _ in taken:
            model.write_batch(token.request_id, size, 0, 3475 * MS, taken)
        self.assertEqual([(line['request'], line['holder'], line['injected_ns'] // MS) for line in self.lines()],
                         [(f'{1:016x}', [f'{2:016x}'], 1000), (f'{1:016x}', [f'{3:016x}'], 875)])


class Llama(unittest.TestCase):
    def served(self, request, begin_ms, end_ms):
        return {'request': request, 'fault': 'served', 'time_ns': begin_ms * MS, 'injected_ns': (end_ms - begin_ms) * MS}

    def test_a_fault_of_the_process_strikes_those_that_ran_meanwhile(self):
        served = [self.served('a', 0, 50), self.served('b', 90, 120), self.served('c', 130, 140)]
        lines = llama_board.lines_of(served, [llama_board.Struck('stopped', 40 * MS, 100 * MS)], [])
        self.assertEqual([(line['request'], line['fault'], line['injected_ns']) for line in lines], [('a', 'stopped', 10 * MS), ('b', 'stopped', 10 * MS)])

    def test_a_held_lock_strikes_all_but_its_holder(self):
        served = [self.served('a', 0, 50), self.served('b', 0, 50)]
        held = {'request': 'a', 'fault': 'lock_held', 'role': 'holder', 'holder': ['a'], 'time_ns': 10 * MS, 'injected_ns': 20 * MS}
        lines = llama_board.lines_of(served, [], [held])
        self.assertEqual([(line['request'], line['injected_ns'], line['holder'], line['role']) for line in lines], [('b', 20 * MS, ['a'], 'waiter')])

    def test_a_long_answer_is_the_request_that_lasted_as_long(self):
        served = [self.served('a', 0, 50), self.served('b', 1, 400), self.served('c', 350, 402)]
        lines = llama_board.lines_of(served, [llama_board.Struck('long_answer', 0, 401 * MS)], [])
        self.assertEqual([(line['request'], line['injected_ns']) for line in lines], [('b', 0)])

    def test_a_request_waited_for_a_cpu_as_long_as_its_steps_did(self):
        steps = [{'request': '0', 'fault': 'step_cpu_waited', 'time_ns': ms * MS, 'injected_ns': 3 * MS} for ms in (5, 20, 60)]
        lines = llama_board.lines_of([self.served('a', 0, 50), self.served('b', 70, 80)], [], steps)
        self.assertEqual([(line['request'], line['fault'], line['injected_ns']) for line in lines], [('a', 'cpu_waited', 6 * MS)])

    def test_an_edit_needs_its_line_exactly_as_often_as_it_says(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / 'a.cpp'
            edits = [llama_edits.Edit('a.cpp', 'two', ' and', 'after'), llama_edits.Edit('a.cpp', 'one', 'zero ', 'before'),
                     llama_edits.Edit('a.cpp', 'x', 'y', 'instead', 2)]
            for text, is_right in (('one two x x', True), ('one two x', False), ('one x x', False)):
                path.write_text(text, encoding='utf-8')
                with mock.patch.object(llama_edits, 'EDITS', edits), self.subTest(text=text):
                    if is_right:
                        llama_edits.edit(Path(folder))
                        self.assertEqual(path.read_text(encoding='utf-8'), 'zero one two and y y')
                    else:
                        self.assertRaises(ValueError, llama_edits.edit, Path(folder))
                        self.assertEqual(path.read_text(encoding='utf-8'), text)


if __name__ == '__main__':
    unittest.main()
