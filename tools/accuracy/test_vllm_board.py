#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the vLLM board: which verdicts count as right, which incident belongs to a fault, and what the driver logs."""

import contextlib
import importlib
import io
import json
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import vllm_board
from vllm_board import Fault, Incident

PLUGIN = Path(__file__).resolve().parent / 'vllm_plugin'
GUILTY, OTHER = '00000000000000aa', '00000000000000bb'


def verdict(blame='', *, kind='part', by=None, at=None, confidence=0.9, is_explained=True, advice='', of='causes'):
    """With a root, or without one if `blame` is empty."""
    node = {'kind': kind, 'blame': blame, 'excess_ns': 20, 'by': by, 'at': at, 'is_explained': is_explained, 'children': []}
    root = {'kind': kind, 'blame': blame, 'hops': 0, 'excess_ns': 20, 'confidence': confidence, 'by': by, 'advice': {'code': advice}}
    return {'verdict': of, 'root': root if blame else None, 'causes': [], 'largest': [], 'segments': [], 'latency_ns': 30, 'typical_ns': 10,
            'tree': {'kind': 'victim', 'blame': '', 'children': [node]}, 'summary': 'it was slow'}


def fault(kind, worst_ms=30.0, at_s=100.0):
    return Fault(kind, at_s, at_s + worst_ms / 1e3, worst_ms, 2.0, 8, {GUILTY} if kind.startswith(('prompt', 'burst', 'logprobs')) else set())


def outcome(kind, said):
    return vllm_board.judge(fault(kind), Incident('0001', 100.03, said, 0.5)).outcome


class Answers(unittest.TestCase):
    def test_a_prompt_is_right_only_behind_its_own_request(self):
        self.assertEqual(outcome('prompt_warm', verdict('executor_busy', kind='request', by={'request': GUILTY})), 'right')
        self.assertEqual(outcome('prompt_warm', verdict('executor_busy', kind='request', by={'request': OTHER})), 'wrong')
        self.assertEqual(outcome('prompt_warm', verdict('host_oncpu_framework')), 'wrong')

    def test_a_gpu_at_work_for_nobody_known_is_undetermined_and_for_an_innocent_wrong(self):
        for kind in ('prompt_chunked', 'matmuls', 'burst'):
            self.assertEqual(outcome(kind, verdict('gpu_exec_expected')), 'undetermined', kind)
            self.assertEqual(outcome(kind, verdict('gpu_exec_expected', by={'request': OTHER})), 'wrong', kind)
        self.assertEqual(outcome('sleep', verdict('gpu_exec_expected')), 'wrong')

    def test_a_first_use_is_right_for_new_shapes_and_for_what_is_compiled(self):
        for kind in ('prompt_new', 'logprobs_jit'):
            self.assertEqual(outcome(kind, verdict('lazy_load_jit')), 'right', kind)
            self.assertEqual(outcome(kind, verdict('host_oncpu_framework', advice='warm_up')), 'right', kind)
        self.assertEqual(outcome('prompt_warm', verdict('lazy_load_jit')), 'wrong')

    def test_for_what_is_compiled_the_request_alone_is_who_and_not_why(self):
        self.assertEqual(outcome('logprobs_jit', verdict('executor_busy', kind='request', by={'request': GUILTY})), 'undetermined')

    def test_a_collection_needs_its_name_and_a_place_alone_is_undetermined(self):
        self.assertEqual(outcome('gc_between', verdict('host_gc')), 'right')
        self.assertEqual(outcome('gc_in_schedule', verdict('host_oncpu_framework', at={'event': 'schedule'})), 'undetermined')
        self.assertEqual(outcome('gc_between', verdict('host_oncpu_framework', at={'event': 'schedule'})), 'wrong')

    def test_the_interpreters_lock_needs_its_holder(self):
        self.assertEqual(outcome('gil', verdict('host_gil', kind='thread', by={'holder': 'report-1 at driver.py:82 crunch'})), 'right')
        self.assertEqual(outcome('gil', verdict('host_gil')), 'undetermined')
        self.assertEqual(outcome('gil', verdict('host_gil', by={'holder': 'MainThread at core.py:1 step'})), 'wrong')

    def test_a_place_of_a_stack_names_a_sleep_and_code(self):
        asleep = {'stacks': {'place': 'clock_nanosleep below pause_between (driver.py:88)', 'frames': []}}
        self.assertEqual(outcome('sleep', verdict('untraced_or_unexplained', at=asleep)), 'right')
        self.assertEqual(outcome('sleep', verdict('untraced_or_unexplained')), 'undetermined')
        code = {'stacks': {'place': '', 'frames': ['step (llm_engine.py:9)', '_update_prompt_logprobs (logprobs.py:7)']}}
        self.assertEqual(outcome('prompt_logprobs', verdict('untraced_or_unexplained', at=code)), 'right')

    def test_load_is_right_for_a_burst(self):
        self.assertEqual(outcome('burst', verdict('executor_busy', kind='load')), 'right')
        self.assertEqual(outcome('prompt_warm', verdict('executor_busy', kind='load')), 'wrong')

    def test_time_that_nothing_explains_is_undetermined_unless_somebody_is_blamed(self):
        self.assertEqual(outcome('gil', verdict('host_blocked_unknown', is_explained=False)), 'undetermined')
        self.assertEqual(outcome('gil', verdict('host_blocked_unknown', is_explained=False, by={'request': OTHER})), 'wrong')
        self.assertEqual(outcome('gc_between', verdict(of='undetermined')), 'undetermined')


class Runs(unittest.TestCase):
    def test_a_faults_incident_is_the_one_at_its_worst_gap(self):
        incidents = [Incident(name, at_s, verdict('host_gc'), 0.5) for name, at_s in (('a', 99.9), ('b', 100.001), ('c', 100.031), ('d', 103.0))]
        self.assertEqual(vllm_board.incident_of(fault('gc_between'), incidents).name, 'c')
        self.assertIsNone(vllm_board.incident_of(fault('gc_between'), incidents[:1] + incidents[3:]))

    def test_faults_without_an_effect_do_not_count_and_others_need_an_incident_with_a_verdict(self):
        faults = [fault('sleep', worst_ms=11.9), fault('sleep', at_s=200.0), fault('sleep', at_s=300.0), fault('none')]
        judged = vllm_board.judge_run(faults, [Incident('b', 200.03, None, 0.0)])
        self.assertEqual([one.outcome for one in judged], ['no verdict', 'no incident'])

    def test_a_run_is_read_and_scored(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / 'ids.txt').write_text(f'load1-11223344 {OTHER}\n0_g2-55667788 {GUILTY}\n1_g2-55667788 {OTHER}\n', encoding='utf-8')
            lines = [{'fault': 'none', 'at_s': 1.0, 'worst_at_s': 2.0, 'worst_ms': 3.0, 'typical_ms': 2.0, 'seconds': 20.0},
                     {'fault': 'prompt_warm', 'at_s': 1500000000.0, 'worst_at_s': 1500000000.03, 'worst_ms': 30.0, 'typical_ms': 2.0, 'width': 16,
                      'guilty': ['g2']}]
            (folder / 'faults.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines), encoding='utf-8')
            kept = folder / 'kept' / '20170714T024000Z-0001-token_gap-generate'
            kept.mkdir(parents=True)
            said = verdict('executor_busy', kind='request', by={'request': GUILTY}, confidence=0.4)
            (kept / 'verdict.json').write_text(json.dumps(said), encoding='utf-8')
            (kept / 'report.txt').write_text('Pitot incident:\n  time     2017-07-14 02:40:00.030 UTC\n', encoding='utf-8')
            (kept / 'judged.txt').write_text('1500000001.03 None \n', encoding='utf-8')
            scored = vllm_board.score_runs([folder])
        self.assertEqual(scored['rows'][0]['guilty'], [GUILTY, OTHER])
        self.assertEqual((scored['all']['right'], scored['all']['culprit_named'], scored['struck'], scored['quiet_s']), (1, 1, 1, 20.0))
        self.assertEqual(scored['judged_after_s']['most'], 1.0)
        self.assertIn('| prompt_warm | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 1 of 1 |', vllm_board.markdown(scored))

    def test_a_sure_and_wrong_answer_is_counted(self):
        judged = vllm_board.judge_run([fault('sleep'), fault('sleep', at_s=200.0)],
                                      [Incident('a', 100.03, verdict('host_gc', confidence=0.5), 0.5),
                                       Incident('b', 200.03, verdict('host_gc', confidence=0.49), 0.5)])
        counts = vllm_board.counts_of(judged)
        self.assertEqual((counts['wrong'], counts['sure_and_wrong']), (2, 1))


def hook(function, name, after, failed):
    """As pitot.hook."""
    def hooked(*args, **kwargs):
        result = function(*args, **kwargs)
        after(result, *args, **kwargs)
        return result
    return hooked


class Driver(unittest.TestCase):
    """With the fake engine, and Pitot's package replaced."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out, self.pitot = Path(folder.name), mock.MagicMock(__path__=[], __spec__=None)
        self.pitot.scope.side_effect = lambda name: contextlib.nullcontext()
        self.pitot.hook.side_effect = hook
        numbers = iter(range(1, 100))
        self.pitot.Request.side_effect = lambda *_, **__: mock.MagicMock(id=next(numbers))
        before = {name: module for name, module in sys.modules.items()
                  if name.split('.')[0] in ('vllm', 'pitot', 'vllm_hooks', 'fake_vllm', 'fake_engine', 'driver')}
        environment = {'PITOT_BOARD_OUT': str(self.out), 'PITOT_INCIDENT_DIRECTORY': str(self.out / 'incidents')}
        for patch in (mock.patch.dict(sys.modules), mock.patch.dict('os.environ', environment), mock.patch.object(sys, 'path', [str(PLUGIN), *sys.path])):
            patch.start()
            self.addCleanup(patch.stop)
        for silent in (contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())):
            silent.__enter__()
            self.addCleanup(silent.__exit__, None, None, None)
        for name in before:
            del sys.modules[name]
        sys.modules['pitot'] = self.pitot
        self.driver = importlib.import_module('driver')
        self.engine = importlib.import_module('fake_engine').Engine()

    def test_ids_of_both_are_written(self):
        self.engine.add('a', [1], 1)
        self.engine.add('b', [1], 100)
        self.assertEqual((self.out / 'ids.txt').read_text(encoding='utf-8'), f'a {1:016x}\nb {2:016x}\n')

    def test_incidents_are_kept_as_they_were_when_judged(self):
        folder = self.out / 'incidents' / '0001'
        folder.mkdir(parents=True)
        (folder / 'verdict.json').write_text('{}', encoding='utf-8')
        recorder = self.pitot.start.return_value
        recorder.on_verdict.call_args.args[0](mock.MagicMock(directory=str(folder), again=3))
        (folder / 'verdict.json').unlink()
        self.assertEqual((self.out / 'kept' / '0001' / 'verdict.json').read_text(encoding='utf-8'), '{}')
        self.assertEqual(self.pitot.start.call_args.kwargs['max_incidents_per_cause_and_hour'], 1000)

    def test_a_collection_strikes_in_the_scheduler(self):
        self.engine.add('a', [1], 9)
        with mock.patch.object(self.driver, 'collect') as collect:
            self.engine.step()
            collect.assert_not_called()
            self.engine.is_collecting = True
            for _ in range(3):
                self.engine.step()
        collect.assert_called_once_with()

    def test_the_driver_logs_the_effect_and_the_guilty(self):
        driver = self.driver.Driver(self.engine, self.driver.Truth(self.out / 'faults.jsonl'), 1, time.monotonic() + 60)
        self.addCleanup(driver.truth.log.close)
        with mock.patch.multiple(self.driver, LEAD_S=0.3, EFFECT_S=0.6, PAUSES_S=(1.0, 1.0)):
            driver.strike('sleep')
            driver.strike('prompt_warm')
            driver.quiet(0.1)
        asleep, struck, quiet = [json.loads(line) for line in (self.out / 'faults.jsonl').read_text(encoding='utf-8').splitlines()]
        self.assertEqual((struck['fault'], quiet['fault'], quiet['seconds'] >= 0.1), ('prompt_warm', 'none', True))
        self.assertRegex(struck['guilty'][0], r'^g\d+$')
        self.assertEqual(asleep['guilty'], [])
        self.assertGreaterEqual(asleep['worst_ms'], 100)
        self.assertEqual(set(driver.strikes), set(vllm_board.RIGHT_OF))


if __name__ == '__main__':
    unittest.main()
