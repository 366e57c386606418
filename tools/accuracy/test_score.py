#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the scorer: right verdicts score well, and every kind of wrong verdict scores badly."""

import argparse
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import ablation
import arms
import coverage
import floors
import matrix
import plot
import roots
import score
import second_run
import servers
import tables

PROGRAM = Path(__file__).resolve().parents[1] / 'scoreboard'
MS = 1_000_000
EXPECTED = {
    'truths': [{'injector': 'queued', 'blames': ['executor_busy'], 'culprit': 'others'},
               {'injector': 'cpu_waited', 'blames': ['host_runqueue']},
               {'injector': 'batch_code', 'blames': ['host_oncpu_framework'], 'beyond': 'median', 'without': 'launches'},
               {'injector': 'launches', 'blames': ['launch_api'], 'beyond': 'median', 'not_of': ['F12']},
               {'injector': 'full_queue_of_others', 'of': 'full_queue', 'blames': ['gpu_queue_wait_others']},
               {'injector': 'preprocess_code', 'blames': ['host_oncpu_pre'], 'beyond': 'median', 'like': 'pixels'}],
    'faults': {
        'F01': {'what': 'slow decoder', 'injector': 'slow_decode_spin', 'blames': ['host_oncpu_pre'], 'culprit': 'scope',
                'finds': ['a05.input_bound'], 'also': ['a35.latency']},
        'F20': {'what': 'spinners', 'injector': 'cpu_spinners', 'strikes': 'meanwhile', 'blames': ['host_runqueue']},
        'F13': {'what': 'neighbour', 'injector': 'shared_stream', 'strikes': 'slower', 'blames': ['gpu_queue_wait_others']},
        'F99': {'what': 'unknown', 'injector': 'unseen', 'blames': ['host_gil'], 'needs': 'evidence'},
        'F22': {'what': 'lock', 'injector': 'lock_held', 'role': 'waiter', 'blames': ['host_lock'], 'culprit': 'holder',
                'root': {'blames': ['host_lock', 'host_blocked_unknown'], 'is_others': True, 'of': ['request']}},
        'F27': {'what': 'burst', 'injector': 'queued', 'blames': ['handoff'], 'culprit': 'others', 'root': {'blames': [], 'kinds': ['load']}},
        'F30': {'what': 'prompt', 'injector': 'long_prompt', 'role': 'waiter', 'blames': ['executor_busy'], 'culprit': 'holder',
                'beside': ['queued']},
        'F31': {'what': 'slow post-processing', 'injector': 'slow_postprocess', 'on_cpu': True, 'blames': ['host_oncpu_post']},
        'F16': {'what': 'low clock', 'injector': 'gpu_clock_low', 'blames': ['gpu_clock'], 'kinds': ['uniform'], 'clocks': 'SM clock'},
        'F28': {'what': 'bigger input', 'injector': 'bigger_input', 'blames': [], 'kinds': ['more_work']},
        'F12': {'what': 'full queue', 'injector': 'full_queue', 'blames': ['launch_queue_full']},
        'F11': {'what': 'short kernels', 'injector': 'tiny_kernels', 'blames': ['launch_api'], 'made_of': ['host_oncpu_framework'],
                'more_of': ['launches']},
    },
    'pairs': {'X05': {'what': 'two', 'faults': ['F01', 'F22']}, 'X09': {'what': 'two', 'faults': ['F01', 'F13']}},
    'lossy': {'F37': {'what': 'losses'}},
    'versions': {'F35': {'what': 'longer', 'outcome': 'regression', 'rows': [['gpu', 'conv'], ['host', 'decode']], 'effect': 'duration'},
                 'C07': {'what': 'the same', 'outcome': 'no regression'}},
    'controls': {'C02': {'what': 'nothing'}},
    'names_blame': ['a41.driver'],
    'counted': ['a39'],
}


def cause(blame, excess_ms, confidence=0.95, by=None, evidence=''):
    return {'blame': blame, 'blame_ns': excess_ms * MS, 'common_ns': 0, 'excess_ns': excess_ms * MS, 'confidence': confidence, 'by': by,
            'evidence': evidence}


def verdict(request, causes=(), kind=None, typical_ms=5, largest=(), common_ns=0, blame_ns=None):
    """A verdict that adds up."""
    latency_ns = typical_ms * MS + common_ns + sum(one['excess_ns'] for one in causes) + 7
    usual = {'untraced_or_unexplained': typical_ms * MS}
    parts = blame_ns or {**{one['blame']: one['excess_ns'] for one in causes}, 'untraced_or_unexplained': typical_ms * MS + common_ns + 7}
    return {'request': request, 'verdict': kind or ('causes' if causes else 'diffuse'), 'latency_ns': latency_ns,
            'typical_ns': typical_ms * MS, 'common_ns': common_ns, 'rest_ns': 7, 'causes': list(causes), 'largest': list(largest),
            'blame_ns': parts, 'normal_ns': usual, 'segments': [{'duration_ns': sum(parts.values())}],
            'baseline': {'level': 'same route and size', 'is_coarse': False},
            'quality': {'reliable': True}}


def line(request, fault, ms, dose='dose_ms=4', **more):
    return {'request': request, 'fault': fault, 'injected_ns': int(ms * MS), 'as': f'{fault}:rate=0.2,{dose}', **more}


def run(name, lines, verdicts, findings=(), profiler=()):
    return score.Run(name, score.injections_of(lines, EXPECTED), {one['request']: one for one in verdicts}, list(findings), list(profiler))


def finding(code, summary='', severity='medium', undetermined=False):
    return {'code': code, 'summary': summary, 'severity': severity, 'undetermined': undetermined}


def driver(blame):
    return {**finding('a41.driver'), 'metric': f'Cov({blame}, latency) / Var(latency)'}


def scored(*runs):
    return score.score(runs, EXPECTED)


class Faults(unittest.TestCase):
    def right(self):
        return run('F01', [line('a', 'slow_decode_spin', 4, scope='decode')],
                   [verdict('a', [cause('host_oncpu_pre', 4, evidence='in "decode" on http 1')])])

    def test_a_right_verdict_is_right_in_everything(self):
        result = scored(self.right())['all']
        self.assertEqual((result['recall'], result['precision'], result['top1'], result['top3'], result['culprit']), (1, 1, 1, 1, 1))
        self.assertEqual(result['blame_error'], 0)
        self.assertEqual(result['abstained'], 0)

    def test_a_wrong_cause_costs_recall_and_precision(self):
        result = scored(run('F01', [line('a', 'slow_decode_spin', 4)], [verdict('a', [cause('host_lock', 4)])]))
        self.assertEqual((result['all']['recall'], result['all']['precision'], result['all']['top1']), (0, 0, 0))
        self.assertEqual(result['faults']['F01']['said_instead'], {'host_lock': 1})

    def test_the_right_cause_behind_a_wrong_one_is_found_but_not_first(self):
        result = scored(run('F01', [line('a', 'slow_decode_spin', 4)],
                            [verdict('a', [cause('host_lock', 5), cause('host_oncpu_pre', 4)])]))['all']
        self.assertEqual((result['recall'], result['top1'], result['top3'], result['precision']), (1, 0, 1, 0.5))

    def test_an_empty_verdict_is_abstained_and_not_found(self):
        result = scored(run('F01', [line('a', 'slow_decode_spin', 4)], [verdict('a', largest=[cause('host_oncpu_pre', 4)])]))['all']
        self.assertEqual((result['recall'], result['abstained'], result['top1'], result['precision']), (0, 1, 1, None))

    def test_a_wrong_culprit_is_wrong(self):
        result = scored(run('F22', [line('a', 'lock_held', 4, role='waiter', holder='b')],
                            [verdict('a', [cause('host_lock', 4, by={'request': 'c'})])]))['all']
        self.assertEqual((result['recall'], result['culprit']), (1, 0))

    def test_a_culprit_is_a_request_or_member_of_a_batch_or_in_the_evidence(self):
        for by in ({'request': 'b'}, {'requests': ['x', 'b']}):
            with self.subTest(by=by):
                result = scored(run('F22', [line('a', 'lock_held', 4, role='waiter', holder='b')],
                                    [verdict('a', [cause('host_lock', 4, by=by)])]))['all']
                self.assertEqual(result['culprit'], 1)
        other = scored(run('F01', [line('a', 'slow_decode_spin', 4, scope='decode')],
                           [verdict('a', [cause('host_oncpu_pre', 4, evidence='in "undecoded" on http 1')])]))['all']
        self.assertEqual(other['culprit'], 0)

    def test_a_wrong_amount_is_an_error(self):
        result = scored(run('F01', [line('a', 'slow_decode_spin', 4)], [verdict('a', [cause('host_oncpu_pre', 6)])]))['all']
        self.assertEqual(result['blame_error'], 0.5)

    def test_other_roles_and_requests_without_a_verdict_do_not_count(self):
        result = scored(run('F22', [line('a', 'lock_held', 4, role='holder'), line('z', 'lock_held', 4, role='waiter')], [verdict('a')]))
        self.assertEqual(result['all']['requests'], 0)

    def test_a_cause_proved_by_another_log_line_is_not_wrong_if_that_line_is_long_enough(self):
        for waited_ms, precision in ((3, 1), (1, 0.5)):
            with self.subTest(waited_ms=waited_ms):
                result = scored(run('F01', [line('a', 'slow_decode_spin', 4), line('a', 'queued', waited_ms, others=['b'])],
                                    [verdict('a', [cause('host_oncpu_pre', 4), cause('executor_busy', 3)])]))['all']
                self.assertEqual(result['precision'], precision)

    def test_a_fault_is_rightly_second_to_a_logged_cause_that_took_more(self):
        for waited_ms, top1 in ((6, 1), (4.1, 1), (3.9, 0), (0.1, 0)):
            with self.subTest(waited_ms=waited_ms):
                result = scored(run('F01', [line('a', 'slow_decode_spin', 4), line('a', 'cpu_waited', waited_ms)],
                                    [verdict('a', [cause('host_runqueue', 6), cause('host_oncpu_pre', 4)])]))['all']
                self.assertEqual((result['top1'], result['top1_alone'], result['top3']), (top1, 0, 1))

    def test_a_first_cause_without_a_log_line_is_wrong_even_if_other_lines_are_long(self):
        for lines, excess_ms in (([line('a', 'queued', 9, others=['b'])], 6), ([line('a', 'cpu_waited', 6)], 13)):
            result = scored(run('F01', [line('a', 'slow_decode_spin', 4), *lines],
                                [verdict('a', [cause('host_runqueue', excess_ms), cause('host_oncpu_pre', 4)])]))['all']
            self.assertEqual(result['top1'], 0)

    def test_a_fault_behind_three_larger_causes_is_ranked_right_but_not_found(self):
        more = [cause('host_runqueue', 9), cause('executor_busy', 8), cause('host_oncpu_framework', 7)]
        lines = [line('a', 'slow_decode_spin', 4), line('a', 'cpu_waited', 9), line('a', 'queued', 8), line('a', 'batch_code', 7),
                 line('b', 'queued', 0), line('c', 'queued', 0)]
        for causes, top3 in ((more, 1), (more[:2], 0), ([*more[:2], cause('host_lock', 5)], 0)):
            one = score.Run('F01', score.injections_of(lines, EXPECTED), {'a': verdict('a', causes)}, [], [])
            result = scored(one)['all']
            self.assertEqual((result['recall'], result['top3']), (0, top3))

    def test_the_culprit_of_a_blame_with_several_causes_is_that_of_the_longest(self):
        for queued_ms, culprit in ((5, 1), (3, 0)):
            lines = [line('a', 'long_prompt', 4, role='waiter', holder='b'), line('a', 'queued', queued_ms, others=['c'])]
            result = scored(run('F30', lines, [verdict('a', [cause('executor_busy', 9, by={'request': 'c'})])]))['all']
            self.assertEqual(result['culprit'], culprit)

    def test_codes_time_is_its_cpu_time_without_waits_for_a_cpu(self):
        lines = [line('a', 'slow_postprocess', 9, cpu_ns=4 * MS), line('a', 'cpu_waited', 5)]
        result = scored(run('F31', lines, [verdict('a', [cause('host_runqueue', 5), cause('host_oncpu_post', 4)])]))['all']
        self.assertEqual((result['blame_error'], result['top1'], result['top1_alone']), (0, 1, 0))

    def test_the_same_blame_in_other_lines_is_not_an_error(self):
        lines = [line('a', 'long_prompt', 4, role='waiter', holder='b'), line('a', 'queued', 2, others=['c'])]
        for excess_ms, error in ((6, 0), (4, 1 / 3)):
            result = scored(run('F30', lines, [verdict('a', [cause('executor_busy', excess_ms, by={'request': 'b'})])]))['all']
            self.assertAlmostEqual(result['blame_error'], error)

    def test_code_between_a_faults_calls_belongs_to_the_fault_if_its_calls_are_named(self):
        lines = [line('a', 'tiny_kernels', 8)]
        calls, code = cause('launch_api', 6), cause('host_oncpu_framework', 2)
        for causes, recall, error in (([calls, code], 1, 0), ([calls], 1, 1 / 4), ([code], 0, None), ([calls, cause('host_lock', 2)], 1, 1 / 4)):
            result = scored(run('F11', lines, [verdict('a', causes)]))['all']
            self.assertEqual((result['recall'], result['blame_error']), (recall, error))

    def test_more_work_reported_next_to_causes_is_found_and_not_first(self):
        lines = [{'request': 'a', 'fault': 'bigger_input', 'injected_ns': 0}, line('a', 'cpu_waited', 4)]
        said = {**verdict('a', [cause('host_runqueue', 4)]), 'more_work': {'of': 'size', 'factor': 4, 'more_ns': 2 * MS}}
        result = scored(run('F28', lines, [said]))['all']
        self.assertEqual((result['recall'], result['precision'], result['top1'], result['top3']), (1, 1, 0, 1))

    def test_a_verdict_of_the_wanted_kind_is_right(self):
        lines = [{'request': 'a', 'fault': 'bigger_input', 'injected_ns': 0}]
        self.assertEqual(scored(run('F28', lines, [verdict('a', kind='more_work')]))['all']['recall'], 1)
        self.assertEqual(scored(run('F28', lines, [verdict('a', [cause('host_oncpu_pre', 4)])]))['all']['precision'], 0)

    def test_everything_was_slower_is_right_only_with_its_clock(self):
        for clocks, recall in (('SM clock of GPU 0 at 1200 MHz, else 1980 MHz', 1), ('no clock that was recorded was lower', 0), ('', 0)):
            with self.subTest(clocks=clocks):
                one = {**verdict('a', kind='uniform'), 'clocks': clocks}
                self.assertEqual(scored(run('F16', [line('a', 'gpu_clock_low', 4)], [one]))['all']['recall'], recall)

    def test_small_doses_and_faults_without_evidence_are_shown_but_not_judged(self):
        result = scored(run('F01', [line('a', 'slow_decode_spin', 1, 'dose_ms=1')], [verdict('a')]),
                        run('F99', [line('b', 'unseen', 9)], [verdict('b')]))
        self.assertEqual(result['all']['requests'], 0)
        self.assertEqual(result['faults']['F01']['doses']['dose_ms=1']['requests'], 1)
        self.assertEqual(result['faults']['F99']['needs'], 'evidence')

    def test_rivals_are_judged_by_the_same_table(self):
        pre = {'host_oncpu_pre': 6 * MS + 7, 'host_lock': 3 * MS}
        result = scored(run('F22', [line('a', 'lock_held', 4, role='waiter')], [verdict('a', [cause('host_lock', 4)], blame_ns=pre)]))
        self.assertEqual(result['all']['rivals'], {'largest segment': 0, "HTA's bound_by": 0, "torch-tb-profiler's rules": 0})
        result = scored(run('F01', [line('a', 'slow_decode_spin', 4)], [verdict('a', [cause('host_oncpu_pre', 4)], blame_ns=pre)],
                            profiler=[{'code': 'a05.input_bound'}]))
        self.assertEqual(result['all']['rivals'], {'largest segment': 1, "HTA's bound_by": 1, "torch-tb-profiler's rules": 1})


class Burnt(unittest.TestCase):
    """Requests begin at 100 ms, take 12 ms (typically 5), and wait for a CPU from 102 to 106."""
    BEGINS = {'a': 100 * MS, 'b': 100 * MS}

    def waiting(self, request):
        one = verdict(request, [cause('host_runqueue', 4)], blame_ns={'host_runqueue': 4 * MS, 'host_oncpu_pre': 5 * MS + 7})
        one['segments'] = [{'begin_ns': 0, 'duration_ns': 2 * MS, 'blame': 'host_oncpu_pre'},
                           {'begin_ns': 2 * MS, 'duration_ns': 4 * MS, 'blame': 'host_runqueue'},
                           {'begin_ns': 6 * MS, 'duration_ns': 3 * MS + 7, 'blame': 'host_oncpu_pre'}]
        return one

    def injections(self, lines, *verdicts):
        return score.injections_by_burns(verdicts, self.BEGINS, score.burns_of(lines), score.injections_of(lines, EXPECTED), EXPECTED)

    def test_a_wait_for_a_cpu_is_true_as_far_as_the_server_saw_it(self):
        for waited_ms, is_right in ((3, True), (1, False)):
            one = run('C02', [line('a', 'cpu_waited', waited_ms)], [self.waiting('a')])
            self.assertEqual([control.right for control in score.controls_of(one, EXPECTED)], [[is_right]])

    def test_cpu_time_burnt_at_the_same_time_does_not_prove_a_wait(self):
        burn = line('b', 'slow_decode_spin', 8, time_ns=101 * MS, cpu_ns=8 * MS)
        self.assertEqual(self.injections([burn], self.waiting('a')), {})

    def test_spinners_strike_the_requests_they_slow_not_the_one_that_drew_them(self):
        spin = line('b', 'cpu_spinners', 20, dose='dose_ms=20', time_ns=99 * MS, cpu_ns=80 * MS)
        usual = verdict('b')
        got = self.injections([spin, line('a', 'cpu_waited', 4)], self.waiting('a'), usual)
        self.assertIn(score.Injection('cpu_spinners', 'dose_ms=20', 4 * MS, set()), got['a'])
        self.assertNotIn('b', got)
        self.assertEqual(self.injections([spin, line('a', 'cpu_waited', 1)], self.waiting('a'), usual), {})  # slow for another reason
        result = scored(score.Run('F20', got, {'a': self.waiting('a'), 'b': usual}, [], []))
        self.assertEqual((result['all']['requests'], result['all']['recall']), (1, 1))
        self.assertEqual(score.injections_of([spin], EXPECTED), {})


class Neighbours(unittest.TestCase):
    def test_another_requests_gpu_work_struck_only_requests_it_can_have_slowed(self):
        lines = [line(request, 'shared_stream', ms) for request, ms in (('a', 16), ('b', 16), ('c', 1))]
        slow, usual = verdict('a', [cause('gpu_queue_wait_others', 2)]), verdict('b')
        result = scored(run('F13', lines, [slow, usual, verdict('c', [cause('host_lock', 9)])]))['all']
        self.assertEqual((result['requests'], result['recall'], result['blame_error']), (1, 1, 14 / 16))  # of 16 ms on the GPU
        missed = scored(run('F13', lines, [verdict('a', [cause('host_lock', 2)])]))['all']
        self.assertEqual((missed['requests'], missed['recall']), (1, 0))

    def test_in_a_pair_it_struck_requests_that_the_other_fault_does_not_explain(self):
        for wait_ms, requests in ((2, 1), (1, 0)):
            lines = [line('a', 'slow_decode_spin', 8), line('a', 'shared_stream', 16)]
            both = verdict('a', [cause('host_oncpu_pre', 8), cause('gpu_queue_wait_others', wait_ms)])
            pair = scored(run('X09', lines, [both]))['pairs']['X09']
            self.assertEqual((pair['requests'], pair['both_named']), (requests, 1 if requests else None))


class Usual(unittest.TestCase):
    def test_a_request_without_a_line_took_nothing(self):
        lines = [line('a', 'batch_code', 4)]
        self.assertEqual(score.injections_of(lines, EXPECTED, ['a', 'b', 'c'])['a'][0].injected_ns, 4 * MS)
        self.assertEqual(score.injections_of(lines, EXPECTED, ['a'])['a'][0].injected_ns, 0)

    def test_of_a_usual_time_only_the_part_beyond_the_median_is_true(self):
        lines = [line(request, 'batch_code', ms) for request, ms in (('a', 2), ('b', 2), ('c', 5))]
        for excess_ms, is_right in ((3, True), (7, False)):
            one = run('C02', lines, [verdict('c', [cause('host_oncpu_framework', excess_ms)])])
            self.assertEqual([control.right for control in score.controls_of(one, EXPECTED)], [[is_right]])

    def test_a_big_picture_is_compared_with_others_of_its_size(self):
        small = [line(request, 'preprocess_code', 2, pixels=64) for request in 'abc']
        big = [line(request, 'preprocess_code', ms, pixels=256) for request, ms in (('d', 8), ('e', 8), ('f', 13))]
        for request, excess_ms, is_right in (('d', 6, False), ('f', 6, True)):
            one = run('C02', small + big, [verdict(request, [cause('host_oncpu_pre', excess_ms)])])
            self.assertEqual([control.right for control in score.controls_of(one, EXPECTED)], [[is_right]])

    def test_a_batchs_launches_do_not_count_as_its_code_as_well(self):
        lines = [line('a', 'batch_code', 9), line('a', 'launches', 6), *(line(request, 'batch_code', 0) for request in 'bc')]
        one = run('C02', lines, [verdict('a', [cause('launch_api', 6), cause('host_oncpu_framework', 8)])])
        self.assertEqual([control.right for control in score.controls_of(one, EXPECTED)], [[True, False]])

    def test_code_excludes_the_launches_cpu_time_and_includes_their_sleep(self):
        lines = [line('a', 'batch_code', 9), line('a', 'launches', 8, on_cpu_ns=2 * MS), *(line(request, 'batch_code', 0) for request in 'bc')]
        took = {one.injector: one.injected_ns for one in score.injections_of(lines, EXPECTED, 'abc')['a']}
        self.assertEqual(took, {'batch_code': 7 * MS, 'launches': 8 * MS})

    def test_two_batches_struck_at_once_on_a_stream_wait_for_each_others_kernels(self):
        lines = [line('a', 'full_queue', 10, time_ns=0), line('b', 'full_queue', 10, time_ns=4 * MS), line('c', 'full_queue', 10, time_ns=4 * MS),
                 line('d', 'full_queue', 10, time_ns=14 * MS)]
        took = {request: {one.injector: one.injected_ns for one in ones} for request, ones in score.injections_of(lines, EXPECTED).items()}
        self.assertEqual(took['a'], {'full_queue': 10 * MS, 'full_queue_of_others': 6 * MS})
        self.assertEqual(took['b'], took['a'])
        self.assertEqual(took['d'], {'full_queue': 10 * MS})

    def test_long_launches_prove_no_launch_overhead_in_a_run_with_full_queues(self):
        said = [verdict('a', [cause('launch_api', 6)])]
        for name, is_right in (('F12', False), ('F11', True)):
            lines = score.injections_of([line('a', 'launches', 6)], EXPECTED, 'abc', name)
            one = score.Run(name, lines, {'a': said[0]}, [], [])
            self.assertEqual([control.right for control in score.controls_of(one, EXPECTED)], [[is_right]])

    def test_lines_that_fit_any_request_are_shown_to_prove_nothing(self):
        verdicts = [verdict('a', [cause('host_runqueue', 4)]), verdict('b')]
        for waited, shares in ((['a'], (1, 0)), (['a', 'b'], (1, 1)), ([], (0, 0))):
            lines = [line(request, 'cpu_waited', 4) for request in waited]
            proof = scored(run('C02', lines, verdicts))['proof']
            self.assertEqual((proof['causes'], proof['own'], proof['others']), (1, *shares))
        self.assertEqual(scored(run('F20', [line('a', 'cpu_waited', 4)], verdicts))['proof']['causes'], 0)  # the fault's own blame


class Load(unittest.TestCase):
    def test_a_plan_with_its_own_warm_up_has_no_other(self) -> None:
        def warm_ups(*arguments: str) -> 'list[str]':
            command = servers.load_command(Path('bin'), Path('run'), 1, 2, arguments, 3)
            return [value for name, value in zip(command, command[1:]) if name == '--warm-up']
        self.assertEqual(warm_ups(), [str(servers.WARM_UP_S)])
        self.assertEqual(warm_ups('--warm-up', '0'), ['0'])


class Watched(unittest.TestCase):
    def test_cpu_time_of_other_programs_is_logged_and_the_processs_own_is_not(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / 'others.jsonl'
            watch = servers.OtherPrograms(os.getpid(), path)
            burner = subprocess.Popen([sys.executable, '-c', 'import time\nwhile time.process_time() < 0.5: pass'])
            burner.wait()
            watch.stop()
            burns = score.burns_of(score.read_lines(path))
            self.assertGreaterEqual(sum(burn.cpu_ns for burn in burns), 300 * MS)
            self.assertEqual({burn.injector for burn in burns}, {'other_programs'})


class Limited(unittest.TestCase):
    def test_a_quota_is_set_for_its_phase_and_its_throttled_time_is_logged(self):
        with tempfile.TemporaryDirectory() as folder:
            class Fake(servers.Quota):
                def __init__(self):
                    self.said, self.throttled = [], 0

                def set(self, percent):
                    self.said.append(percent)

                def throttled_ns(self):
                    self.throttled += 7 * MS
                    return self.throttled
            fake, path = Fake(), Path(folder) / 'quota.jsonl'
            with servers.QuotaPhase(fake, None, path):
                pass
            self.assertFalse(path.exists())
            with servers.QuotaPhase(fake, 'cpu_quota:dose_percent=30', path):
                pass
            self.assertEqual(fake.said, [30, None])
            burn = score.burns_of(score.read_lines(path))[0]
            self.assertEqual((burn.injector, burn.dose, burn.cpu_ns), ('cpu_quota', 'dose_percent=30', 7 * MS))

    def test_without_a_control_group_the_quota_is_unavailable(self):
        with self.assertRaises(servers.Unavailable):
            servers.Quota([Path('/proc/none')])
        with tempfile.TemporaryDirectory() as folder:  # a folder that is not a control group
            with self.assertRaises(servers.Unavailable):
                servers.Quota([Path(folder)])
            self.assertEqual(list(Path(folder).iterdir()), [])


class Findings(unittest.TestCase):
    def of(self, *runs):
        return scored(*runs)['findings']

    def test_an_analyzers_required_finding_is_true_and_found(self):
        result = self.of(run('F01', [], [], [finding('a05.input_bound'), finding('a35.latency')]), run('F01', [], [], []))
        self.assertEqual((result['analyzers']['a05']['precision'], result['analyzers']['a05']['recall']), (1, 0.5))
        self.assertEqual((result['analyzers']['a35']['true'], result['analyzers']['a35']['expected']), (1, 0))

    def test_every_claim_on_a_control_is_false(self):
        result = self.of(run('C02', [], [], [finding('a36.outliers'), driver('host_lock'), finding('a39.lost_events'),
                                             finding('a31.dominant', severity='info'), finding('a29.long_gaps', undetermined=True)]))
        self.assertEqual((result['controls'], result['all']['said'], result['all']['false_on_controls']), (1, 2, 2))
        self.assertEqual(result['analyzers']['a36'], {'said': 1, 'true': 0, 'silent': 0, 'silent_true': 0, 'always': 0, 'false_of': {'C02': 1},
                                                      'false_on_controls': 1, 'expected': 0, 'found': 0, 'precision': 0, 'recall': None})

    def test_silent_findings_are_not_reported_and_counted_separately(self):
        said = [{**finding('a05.input_bound'), 'silent': True}, {**finding('a36.outliers'), 'silent': True}, finding('a35.latency')]
        cell = self.of(run('F01', [], [], said))['all']
        self.assertEqual((cell['said'], cell['true'], cell['silent'], cell['silent_true'], cell['found']), (1, 1, 2, 1, 0))
        self.assertIn('| 1 of 2 |', tables.markdown(scored(run('F01', [], [], said))))

    def test_findings_true_of_every_run_of_a_setting_are_not_false_on_controls(self):
        said = [finding('a10.launch_bound'), driver('executor_busy'), finding('a23.leak')]
        for setting, false in (('gpu', 1), ('quick', 3)):
            with self.subTest(setting=setting):
                result = score.score([run('C02', [], [], said)], score.read_expected(setting))['findings']
                self.assertEqual((result['all']['false_on_controls'], result['all']['always']), (false, 3 - false))

    def test_findings_true_of_every_run_are_counted_separately(self):
        said = [finding('a10.launch_bound'), finding('a43.idle_energy'), finding('a23.leak')]
        result = score.score([run('F11', [], [], said)], score.read_expected('gpu_tune'))
        cell = result['findings']['all']
        self.assertEqual((cell['said'], cell['true'], cell['always']), (3, 2, 1))  # a10 is F11's own
        self.assertIn('| all | 3 | 2 | 67 % | 1 | 1 of 2 |  | 0 |', tables.markdown(result))

    def test_a_finding_of_another_fault_is_false(self):
        result = self.of(run('F22', [], [], [finding('a05.input_bound')]))
        self.assertEqual((result['all']['precision'], result['all']['false_on_controls']), (0, 0))
        self.assertEqual(result['analyzers']['a05']['false_of'], {'F22': 1})

    def test_a_wait_for_a_cpu_is_true_if_other_programs_had_half_of_the_cpus(self):
        others = [{'time_ns': i * MS, 'request': '', 'fault': 'other_programs', 'injected_ns': MS, 'cpu_ns': MS} for i in range(4)]
        self.assertTrue(score.is_crowded(score.burns_of(others), 2))
        self.assertFalse(score.is_crowded(score.burns_of(others), 3))
        self.assertFalse(score.is_crowded([], 2))
        said = [finding('a27.runqueue'), driver('host_runqueue')]
        crowded = run('C02', [], [], said)._replace(is_crowded=True)
        self.assertEqual(self.of(crowded)['all']['false_on_controls'], 0)
        self.assertEqual(self.of(run('C02', [], [], said))['all']['false_on_controls'], 2)

    def test_a_wait_for_a_cpu_is_true_if_it_was_a_tenth_of_the_requests_logged_time(self):
        lines = [line('a', 'cpu_waited', 1), line('b', 'queued', 9)]
        self.assertTrue(score.is_starved(lines, [{'latency_ns': 4 * MS}, {'latency_ns': 6 * MS}]))
        self.assertFalse(score.is_starved(lines, [{'latency_ns': 11 * MS}]))
        self.assertFalse(score.is_starved([], []))

    def test_slow_steps_are_neither_true_nor_false_if_other_programs_had_half_of_the_cpus(self):
        crowded = run('C02', [], [], [finding('a36.outliers')])._replace(is_crowded=True)
        self.assertEqual(self.of(crowded)['all'], None)
        self.assertEqual(self.of(run('C02', [], [], [finding('a36.outliers')]))['all']['said'], 1)

    def test_sleep_is_true_if_a_tenth_of_the_batches_logged_time_was_sleep(self):
        def lines(slept_ms):  # for a batch of two
            return [line(request, fault, ms, time_ns=9 * MS) for request in 'ab' for fault, ms in (('slept', slept_ms), ('batch_code', 9))]
        self.assertTrue(score.is_asleep(lines(1)))
        self.assertFalse(score.is_asleep(lines(0.9)))
        self.assertFalse(score.is_asleep([]))
        said = [finding('a27.blocked'), driver('host_blocked_unknown')]
        asleep = run('C02', [], [], said)._replace(is_asleep=True)
        self.assertEqual(self.of(asleep)['all']['false_on_controls'], 0)
        self.assertEqual(self.of(run('C02', [], [], said))['all']['false_on_controls'], 2)

    def test_a_finding_that_names_a_blame_must_name_the_faults(self):
        right, wrong = driver('host_oncpu_pre'), driver('host_lock')
        self.assertEqual(self.of(run('F01', [], [], [right, wrong]))['analyzers']['a41']['precision'], 0.5)

    def test_a_driver_is_judged_by_its_blame_in_the_words_of_pitot_analyze(self):
        said = {**driver('host_lock'), 'summary': 'one of the slowest 5 % of requests waited 33.0 ms for a lock, a typical one 2 us: 62.0 % of the '
                                                 'spread in latency; the slowest: request 9034a388b26c6165'}
        self.assertEqual(self.of(run('F22', [], [], [said]))['analyzers']['a41']['precision'], 1)
        self.assertEqual(self.of(run('F01', [], [], [said]))['analyzers']['a41']['precision'], 0)

    def test_a_driver_without_a_blame_is_false(self):
        self.assertEqual(self.of(run('F22', [], [], [finding('a41.driver', 'host_lock makes')]))['analyzers']['a41']['precision'], 0)

    def test_a_pair_has_the_findings_of_both_faults(self):
        result = self.of(run('X05', [], [], [finding('a05.input_bound'), driver('host_lock')]))
        self.assertEqual((result['all']['precision'], result['analyzers']['a05']['recall']), (1, 1))

    def test_findings_are_read_by_analyzer(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / 'analyze.json'
            path.write_text(json.dumps({'analyzers': [{'name': 'a05', 'findings': [finding('a05.input_bound')]}, {'name': 'a06', 'findings': []}]}),
                            encoding='utf-8')
            self.assertEqual([one['code'] for one in score.read_findings(path)], ['a05.input_bound'])
            self.assertEqual(score.read_findings(path.with_name('none')), [])


class Controls(unittest.TestCase):
    def test_a_cause_in_a_control_is_false_unless_the_log_proves_it(self):
        queued = [line('b', 'queued', 3, others=['x'])]
        result = scored(run('C02', queued, [verdict('a', [cause('host_lock', 3)]), verdict('b', [cause('executor_busy', 3)]),
                                            verdict('c', kind='uniform'), verdict('d')]))['all_controls']
        self.assertEqual((result['requests'], result['named'], result['false'], result['false_per_100']), (4, 3, 2, 50))
        self.assertEqual(result['false_of'], {'host_lock': 1, 'uniform': 1})

    def test_the_interval_is_wilsons(self):
        low, high = score.wilson(0, 100)
        self.assertEqual(low, 0)
        self.assertAlmostEqual(high, 0.0370, places=4)
        self.assertAlmostEqual(score.wilson(50, 100)[0], 0.4038, places=4)
        self.assertEqual(score.wilson(0, 0), (0, 1))


class Confidence(unittest.TestCase):
    def test_sure_and_wrong_causes_are_badly_calibrated(self):
        self.assertAlmostEqual(score.calibration_of([(0.95, False)] * 4)[1], 0.95)
        self.assertAlmostEqual(score.calibration_of([(0.75, True)] * 3 + [(0.75, False)])[1], 0)
        self.assertIsNone(score.calibration_of([])[1])

    def test_unexplained_time_is_not_a_claim(self):
        result = scored(run('C02', [], [verdict('a', [cause('untraced_or_unexplained', 3, 0.1)])]))
        self.assertIsNone(result['calibration_error'])

    def test_the_detection_limit_is_the_dose_at_which_half_are_found(self):
        self.assertEqual(score.detection_limit([(0.5, 0.0), (1.0, 1.0)]), '0.75')
        self.assertEqual(score.detection_limit([(0.5, 0.6)]), '< 0.50')
        self.assertEqual(score.detection_limit([(0.5, 0.1), (2, 0.4)]), '> 2.00')
        self.assertIsNone(score.detection_limit([]))


def row(name, by_count=0, by_duration=0):
    return {'name': name, 'before_ns': 10 * MS, 'after_ns': 10 * MS + by_count + by_duration, 'count_effect_ns': by_count,
            'duration_effect_ns': by_duration, 'significant': bool(by_count or by_duration), 'by_count': bool(by_count),
            'by_duration': bool(by_duration)}


def diff(outcome, *rows, table='host'):
    return {'outcome': outcome, 'gates': [{'name': 'latency', 'outcome': outcome}], 'tables': [{'name': table, 'rows': list(rows)}]}


class Versions(unittest.TestCase):
    def judged(self, one, name='F35'):
        got = arms.judge_diff(one, EXPECTED['versions'][name])
        return got['is_right'], got['is_named']

    def test_a_regression_is_right_with_its_row_and_its_effect(self):
        self.assertEqual(self.judged(diff('regression', row('other', 9), row('decode', 0, 5))), (True, True))
        self.assertEqual(self.judged(diff('regression', row('conv2d', 0, 5), table='gpu')), (True, True))
        self.assertEqual(self.judged(diff('regression', row('decode', 1, 5))), (True, True))  # mainly

    def test_another_effect_another_row_or_no_effect_is_wrong(self):
        for one in (row('decode', 5), row('decode', 5, 1), row('decode'), row('resize', 0, 5)):
            with self.subTest(row=one):
                self.assertEqual(self.judged(diff('regression', one)), (True, False))
        self.assertEqual(self.judged(diff('regression', row('decode', 0, 5), table='gpu')), (True, False))

    def test_missed_and_invented_regressions_are_wrong(self):
        for outcome in ('no regression', 'inconclusive'):
            self.assertEqual(self.judged(diff(outcome, row('decode', 0, 5))), (False, True))
            self.assertEqual(self.judged(diff(outcome), 'C07'), (True, None))
        self.assertEqual(self.judged(diff('regression'), 'C07'), (False, None))

    def test_existing_runs_are_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / 'F35').mkdir()
            (Path(folder) / 'F35' / 'diff.json').write_text(json.dumps(diff('regression', row('decode', 0, 5))), encoding='utf-8')
            versions = arms.score_versions(Path(folder), EXPECTED)
        self.assertEqual(list(versions), ['F35'])
        self.assertIn('| F35 | longer | regression | yes | latency | decode | duration | yes |', tables.versions_table(versions))


class Unrecorded(unittest.TestCase):
    def rows(self, off_ms, diagnosed_ms):
        """Most requests were struck; the others take 5 ms."""
        with tempfile.TemporaryDirectory() as out:
            for name, latency in (('F01', 14), ('F01.unrecorded', off_ms)):
                folder = Path(out) / name
                folder.mkdir()
                samples = [{'id': one, 'latency_ms': latency if one in 'abef' else 5, 'status': 200} for one in 'abcdefg']
                samples[-1] = {'id': 'g', 'total_ms': 5, 'status': 200}  # as for prompts
                samples.append({'id': 'z', 'latency_ms': 500, 'status': 503})
                (folder / 'load.json').write_text(json.dumps({'slowest': samples}), encoding='utf-8')
                lines = [line(one, 'slow_decode_spin', 9) for one in 'abefz'] + [line('c', 'lock_held', 4, role='holder')]
                (folder / 'injected.jsonl').write_text('\n'.join(map(json.dumps, lines)), encoding='utf-8')
            verdicts = [verdict(one, [cause('host_oncpu_pre', diagnosed_ms)]) for one in 'abef'] + [verdict('c')]
            (Path(out) / 'F01' / 'why.jsonl').write_text('\n'.join(map(json.dumps, verdicts)), encoding='utf-8')
            return arms.score_unrecorded(Path(out), EXPECTED)

    def test_the_diagnosed_excess_is_compared_with_the_latency_without_a_recorder(self):
        one = self.rows(14, 9)[0]
        self.assertEqual((one['fault'], one['dose'], one['requests'], one['recorded_requests']), ('F01', 'dose_ms=4', 4, 4))
        self.assertEqual((one['usual_off_ms'], one['excess_off_ms'], one['excess_on_ms']), (5, 9, 9))
        self.assertAlmostEqual(one['diagnosed_ms'], 9, places=3)
        self.assertTrue(one['agrees'])
        self.assertIn('| F01 | dose_ms=4 | 4 | 4 | 5.00 | 5.00 | 9.00 | 9.00 | 9.00 | yes | yes |', tables.unrecorded_table([one]))

    def test_a_difference_over_5_percent_and_half_a_millisecond_is_not_agreement(self):
        one = self.rows(12, 9)[0]
        self.assertEqual((one['agrees'], one['agrees_on']), (False, True))
        self.assertTrue(self.rows(13.6, 9)[0]['agrees'])  # 0.4 ms
        self.assertTrue(self.rows(103, 94)[0]['agrees'])  # 4 %
        self.assertFalse(self.rows(113, 94)[0]['agrees'])

    def test_without_the_other_arm_there_is_no_row(self):
        with tempfile.TemporaryDirectory() as out:
            self.assertEqual(arms.score_unrecorded(Path(out), EXPECTED), [])


class Coverage(unittest.TestCase):
    def test_covered_requests_were_struck_and_have_kernels(self):
        requests = [{'id': 'a', 'outcome': 'ok', 'coverage': 1, 'gpu_ns': 5}, {'id': 'b', 'outcome': 'ok', 'coverage': 0.5, 'gpu_ns': 5},
                    {'id': 'c', 'outcome': 'ok', 'coverage': 1, 'gpu_ns': 0}, {'id': 'd', 'outcome': 'ok', 'coverage': 1, 'gpu_ns': 5},
                    {'id': 'e', 'outcome': 'error', 'coverage': 1, 'gpu_ns': 5},
                    {'id': 'f', 'outcome': 'ok', 'coverage': 1, 'gpu_ns': 5, 'gpu_by_events_ns': 2, 'sampled': 1.0}]
        struck = run('F01', [line(one, 'slow_decode_spin', 4) for one in 'abcef'], [])
        got = coverage.coverage_of(struck, requests, 'slow_decode_spin')
        self.assertEqual(got, {'requests': 4, 'covered': 1, 'without': 1, 'by_events': 1, 'sampled': 1})
        self.assertIn('| F01 | slow | 4 | 1 | 25 % | 1 | 1 | 1 |', tables.coverage_table({'F01': {'what': 'slow', **got}}))


class SecondRun(unittest.TestCase):
    def board(self, usual_ms, struck_ms):
        parts = {'a': usual_ms, 'b': usual_ms, 'c': struck_ms}
        verdicts = [{'request': name, 'route': '/classify', 'blame_ns': {'gpu_exec_expected': ms * MS, 'host_oncpu_framework': 50 * MS}}
                    for name, ms in parts.items()]
        verdicts.append({'request': 'x', 'route': '/neighbour', 'blame_ns': {'gpu_exec_expected': 90 * MS}})  # the injector's own
        return [run('F01', [line('c', 'slow_decode_spin', 4)], verdicts)]

    def test_errors_are_relative_to_the_board_with_kernels(self):
        rows = second_run.rows_of(self.board(10, 31), self.board(8, 28), EXPECTED, least_ms=0.5)
        self.assertEqual(rows, [['F01', 'without a fault', '', '10.00', '8.00', '25 %'],
                                ['F01', 'dose_ms=4', '1 / 1', '21.00', '20.00', '5 %']])

    def test_a_part_too_small_has_no_error(self):
        self.assertEqual([row[-1] for row in second_run.rows_of(self.board(0.1, 10), self.board(0.2, 10), EXPECTED, least_ms=0.5)], ['', '1 %'])

    def test_a_fault_of_one_board_is_left_out(self):
        self.assertEqual(second_run.rows_of(self.board(10, 20), [], EXPECTED, least_ms=0.5), [])


class Without(unittest.TestCase):
    """Programs that print their input: a verdict exists while its line is in the dump."""
    TOOLS = {'alter_dump': '#!/bin/sh\ngrep -v "$4" "$1" > "$2"\n', 'pitot': '#!/bin/sh\ncat "$2"\n'}

    def test_verdicts_without_evidence_are_scored_next_to_those_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            binaries, out = Path(folder) / 'bin', Path(folder) / 'out'
            binaries.mkdir()
            for name, text in self.TOOLS.items():
                (binaries / name).write_text(text, encoding='utf-8')
                (binaries / name).chmod(0o700)
            incident = out / 'F01' / 'incidents' / '1'
            incident.mkdir(parents=True)
            right = {**verdict('a', [cause('host_oncpu_pre', 4)]), 'rests_on': 'waits'}
            wrong = {**verdict('b', [cause('host_lock', 4)]), 'rests_on': 'nothing'}
            unsure = {**verdict('c', [cause('host_lock', 4, 0.5)]), 'rests_on': 'nothing'}
            text = '\n'.join(map(json.dumps, (right, wrong, unsure))) + '\n'
            for path in (incident / 'dump.pitot', out / 'F01' / 'why.jsonl'):
                path.write_text(text, encoding='utf-8')
            (out / 'F01' / 'requests.json').write_text('{"requests": []}', encoding='utf-8')
            lines = [json.dumps(line(one, 'slow_decode_spin', 4)) for one in 'abc']
            (out / 'F01' / 'injected.jsonl').write_text('\n'.join(lines), encoding='utf-8')

            rows = ablation.score_without(binaries, out, ['waits', 'gpu'], EXPECTED)
            self.assertEqual(ablation.score_without(binaries, out, [], EXPECTED), [])
            (binaries / 'alter_dump').unlink()
            with self.assertRaises(servers.Failed):
                ablation.score_without(binaries, out, ['gpu'], EXPECTED)

        self.assertEqual([(row['without'], row['requests'], row['recall'], row['causes'], row['sure'], row['sure_and_wrong']) for row in rows],
                         [('', 3, 1 / 3, 3, 2, 1), ('waits', 2, 0, 2, 1, 1), ('gpu', 3, 1 / 3, 3, 2, 1)])
        self.assertIn('| waits | 2 | 0 % | 0 % | 0 % | 0 % | 2 | 0.72 | 1 | 1 |', tables.ablation_table(rows))

    def test_an_unknown_table_is_refused(self):
        self.assertEqual(ablation.unknown_of(['gpu,waits', 'all']), '')
        self.assertEqual(ablation.unknown_of(['gpu,wait']), 'wait')


class FakeJob:
    def __init__(self, name, happens=None, happened=None):
        self.name, self.seconds, self.happens, self.happened = name, 1, happens, [] if happened is None else happened

    def make(self, binaries, out, seed):
        self.happened.append(f'{self.name} is made')
        if self.happens is not None:
            raise self.happens
        (out / self.name).mkdir(parents=True, exist_ok=True)
        (out / self.name / 'injected.jsonl').write_text('', encoding='utf-8')

    def judge(self, binaries, out):
        self.happened.append(f'{self.name} is judged')
        (out / self.name / 'why.jsonl').write_text('', encoding='utf-8')

    def is_made(self, out):
        return (out / self.name / 'injected.jsonl').exists()

    def is_done(self, out):
        return (out / self.name / 'why.jsonl').exists()


class Judged(unittest.TestCase):
    def test_all_requests_of_a_dump_are_judged_and_verdicts_are_written_whole_or_not_at_all(self):
        with tempfile.TemporaryDirectory() as folder:
            binaries, out = Path(folder), Path(folder) / 'F01'
            (out / 'incidents' / '1').mkdir(parents=True)
            (out / 'incidents' / '1' / 'dump.pitot').write_text('', encoding='utf-8')
            tool = binaries / 'pitot'
            said = r'''printf '{"asked": "%s", "segments": [{"duration_ns": 2}, {"duration_ns": 3}]}\n' "$*"'''
            tool.write_text(f'#!/bin/sh\n{said}\n[ "$1" != why ]\n', encoding='utf-8')
            tool.chmod(0o700)
            with self.assertRaises(servers.Failed):
                servers.judge(binaries, out)
            self.assertFalse((out / 'why.jsonl').exists())
            self.assertIn('--limit 0', (out / 'requests.json').read_text(encoding='utf-8'))
            tool.write_text(f'#!/bin/sh\n{said}\n', encoding='utf-8')
            servers.judge(binaries, out)
            verdict = json.loads((out / 'why.jsonl').read_text(encoding='utf-8'))
            self.assertIn('--every', verdict['asked'])
            self.assertEqual(verdict['segments'], [{'duration_ns': 5}])


class Floors(unittest.TestCase):
    # Enough requests, with a control, so that no floor is missed for a lack of numbers.
    ENOUGH = 200

    def missed(self, right=1.0, culprits=1.0, false=0.0, excess_ms=4, confidence=0.99, requests=ENOUGH, wrong=None):
        """The floors missed by a board with these shares of right verdicts."""
        struck = [f'{i:04}' for i in range(requests)]
        named = [cause('host_oncpu_pre', excess_ms, confidence, evidence='in "decode"' if i < culprits * requests else 'in "other"')
                 for i in range(requests)]
        verdicts = [verdict(one, [named[i]] if i < right * requests else [wrong] if wrong else []) for i, one in enumerate(struck)]
        normal = [verdict(f'c{i:04}', [cause('host_lock', 3, 0.01)] if i < false * 1000 else []) for i in range(1000)]
        runs = [run('F01', [line(one, 'slow_decode_spin', 4, scope='decode') for one in struck], verdicts), run('C02', [], normal)]
        return [one.partition(':')[0] for one in floors.missed({**scored(*runs), 'roots': roots.score_roots(runs, EXPECTED)})]

    def test_a_good_board_misses_no_floor(self):
        self.assertEqual(self.missed(), [])
        self.assertEqual(self.missed(right=0.95, culprits=0.95, false=0.01, excess_ms=4.3), [])

    def test_each_floor_is_missed_for_its_own_reason(self):
        said = {'recall, lower end', 'top 1, lower end', 'root, lower end'}
        self.assertEqual(set(self.missed(right=0.7)), said)
        self.assertEqual(set(self.missed(right=0.9, wrong=cause('host_lock', 4))),
                         {'precision, lower end', 'wrong roots of confidence 0.5 and more, upper end'})
        self.assertEqual(self.missed(culprits=0.8), ['culprit, lower end'])
        self.assertEqual(self.missed(false=0.03), ['false of 100 control requests, upper end'])
        self.assertEqual(self.missed(confidence=0.85), ['expected calibration error'])
        self.assertEqual(self.missed(excess_ms=5), ['blame error, median'])

    def test_few_requests_do_not_reach_the_floors(self):
        self.assertEqual(len(self.missed(requests=3)), 6)
        nothing = {**scored(run('F28', [], [])), 'roots': roots.score_roots([], EXPECTED)}
        self.assertEqual(len(floors.missed(nothing)), len(floors.FLOORS))


class Runs(unittest.TestCase):
    def setUp(self):
        loader = importlib.machinery.SourceFileLoader('scoreboard', str(PROGRAM))
        self.program = importlib.util.module_from_spec(importlib.util.spec_from_loader('scoreboard', loader))
        loader.exec_module(self.program)
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.out = Path(temporary.name)
        self.probes = 0

    def run_jobs(self, jobs, resume=True, limit_s=1e9, programs='one'):
        options = argparse.Namespace(out=self.out, binaries=self.out, setting='quick', only=None, resume=resume, limit_s=limit_s,
                                     unrecorded=False, seed=None)

        def probe(*_):
            self.probes += 1
            return {'capacity': 100, 'typical_ms': 5}
        with mock.patch.object(matrix.Board, 'jobs', lambda _: jobs), mock.patch.object(matrix, 'probe', probe), \
                mock.patch.object(servers, 'digest', lambda _: programs), mock.patch('builtins.print'):
            self.board = self.program.Matrix(options)
            self.board.run()
        return self.board.failed

    def done(self):
        return sorted(path.parent.name for path in self.out.glob('*/why.jsonl'))

    def test_failed_runs_are_reported_and_the_rest_is_made(self):
        failed = self.run_jobs([FakeJob('F01', servers.Failed('it fell over')), FakeJob('F02'), FakeJob('F21', servers.Unavailable('no root'))])
        self.assertEqual((failed, self.done()), (['F01: it fell over'], ['F02']))

    def test_an_interrupted_board_continues_where_it_stopped(self):
        failed = self.run_jobs([FakeJob('F01'), FakeJob('F02', KeyboardInterrupt()), FakeJob('F03')])
        self.assertEqual((failed, self.done()), (['interrupted: continue with --resume'], ['F01']))
        happened = []
        self.assertEqual(self.run_jobs([FakeJob(name, happened=happened) for name in ('F01', 'F02', 'F03')]), [])
        self.assertEqual((self.done(), self.probes), (['F01', 'F02', 'F03'], 1))
        self.assertFalse([one for one in happened if one.startswith('F01')])

    def test_verdicts_are_made_after_the_last_server_has_ended(self):
        happened = []
        self.run_jobs([FakeJob('F01', happened=happened), FakeJob('F02', happened=happened)])
        self.assertEqual(happened[:2], ['F01 is made', 'F02 is made'])
        self.assertEqual(sorted(happened[2:]), ['F01 is judged', 'F02 is judged'])

    def test_a_run_that_was_made_and_not_judged_is_only_judged(self):
        self.run_jobs([FakeJob('F01')])
        (self.out / 'F01' / 'why.jsonl').unlink()
        happened = []
        self.assertEqual(self.run_jobs([FakeJob('F01', happened=happened)]), [])
        self.assertEqual(happened, ['F01 is judged'])

    def test_runs_by_other_programs_are_not_continued(self):
        self.run_jobs([FakeJob('F01')])
        self.run_jobs([FakeJob('F02')], programs='another')
        self.assertEqual((self.done(), self.probes), (['F02'], 2))

    def test_a_run_that_would_end_after_the_limit_is_not_begun(self):
        failed = self.run_jobs([FakeJob('F01'), FakeJob('F02')], limit_s=10)
        self.assertEqual((failed, self.done()), (['no time for F01, F02: continue with --resume'], []))
        self.assertEqual(self.board.left_out, ['F01', 'F02'])

    def test_left_out_runs_and_changed_tables_are_noted_below_the_numbers(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(score, 'EXPECTED', Path(folder) / 'expected.json'):
            score.EXPECTED.write_text('{}', encoding='utf-8')
            self.run_jobs([FakeJob('F01')])
            same = self.program.since_begun(self.out, False)
            score.EXPECTED.write_text('{"faults": {}}', encoding='utf-8')
            self.run_jobs([FakeJob('F01'), FakeJob('F02')])  # continues the board
            changed = self.program.since_begun(self.out, True)
        self.assertEqual((same, changed), ({'is_frozen': True, 'is_rejudged': False}, {'is_frozen': False, 'is_rejudged': True}))
        self.assertTrue(self.program.since_begun(self.out, False)['is_rejudged'])  # this is permanent
        self.assertEqual(tables.notes_of(same), [])
        notes = tables.notes_of({**changed, 'left_out': ['F02', 'F03']})
        self.assertIn('no time for F02, F03', notes[1])
        self.assertIn('verdicts and the right answers changed', notes[3])

    def test_a_run_that_another_needs_is_made_too(self):
        jobs = [FakeJob('V01'), servers.Version('F36', 'V01', None), FakeJob('F14p'), servers.Altered('F38', 'F14p', ())]
        self.assertLessEqual({'F36', 'V01'}, self.program.wanted(jobs, ['F36']))
        self.assertLessEqual({'F38', 'F14p'}, self.program.wanted(jobs, ['F38']))
        self.assertNotIn('F14p', self.program.wanted(jobs, ['F36']))

    def test_existing_runs_are_scored_even_if_others_are_missing(self):
        for name in ('F01', 'F22'):
            (self.out / name).mkdir()
            (self.out / name / 'injected.jsonl').write_text(json.dumps(line('a', 'slow_decode_spin', 4, scope='decode')) + '\n', encoding='utf-8')
        (self.out / 'F01' / 'why.jsonl').write_text(json.dumps(verdict('a', [cause('host_oncpu_pre', 4, evidence='in "decode"')])) + '\n',
                                                    encoding='utf-8')
        done = subprocess.run([sys.executable, str(PROGRAM), '--rescore', '--out', str(self.out)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('| F01 | slow decoder, on the CPU | dose_ms=4 | 0.80 | 1 | 100 % (21 to 100) |', done.stdout)
        self.assertTrue((self.out / 'score.json').exists())

    def test_every_run_of_a_setting_is_judged_by_the_table(self):
        expected = score.read_expected()
        known = {name for kind in ('faults', 'pairs', 'lossy', 'versions', 'controls') for name in expected[kind]}
        for name, setting in matrix.SETTINGS.items():
            names = [job.name for job in matrix.board_of(setting, 500, 5).jobs()]
            with self.subTest(setting=name):
                self.assertEqual(len(names), len(set(names)))
                self.assertLessEqual(set(names), known | {matrix.FIRST_VERSION})

    def test_the_python_server_has_all_its_faults_with_both_kinds_of_handlers(self):
        expected = score.read_expected()
        faults = {name for name, fault in expected['faults'].items() if fault['server'] == 'python'}
        jobs = matrix.board_of(matrix.SETTINGS['python'], 100, 8).jobs()
        self.assertLessEqual(faults, {job.name for job in jobs})
        for job in jobs:
            self.assertEqual(job.arguments[:2], ['--handlers', 'tasks' if job.name.endswith('a') else 'threads'])
            self.assertTrue(job.program and job.environment)
            self.assertEqual(job.load[:2], matrix.SETTINGS['python'].pictures)

    def test_on_a_gpu_every_fault_is_made_except_those_for_the_simulator(self):
        expected = score.read_expected()
        faults = {name for kind in ('faults', 'pairs', 'lossy', 'versions', 'controls') for name in expected[kind]}
        faults -= {job.name for name in ('python', 'llm') for job in matrix.board_of(matrix.SETTINGS[name], 100, 8).jobs()}
        jobs = matrix.Board(matrix.SETTINGS['gpu'], 2000, 8).jobs()
        self.assertEqual(faults - {job.name for job in jobs}, {'F14p', 'F16', 'F20p', 'F35p', 'F36p', 'X02', *matrix.RARE})
        for job in jobs:
            if isinstance(job, servers.Plan):
                self.assertIn('cuda', job.arguments, job.name)

    def test_the_board_of_the_default_set_makes_the_same_faults_without_kernels(self):
        jobs = {name: {job.name: job for job in matrix.Board(matrix.SETTINGS[name], 2000, 8).jobs()} for name in ('gpu', 'gpu_default')}
        self.assertEqual(set(jobs['gpu']) - set(jobs['gpu_default']), set(matrix.SKEWED))
        for setting, depths in (('gpu', {'kernels'}), ('gpu_default', {None})):
            plans = [job for job in jobs[setting].values() if isinstance(job, servers.Plan) and job.name in matrix.ON_GPU]
            self.assertEqual({plan.environment.get('PITOT_DEPTH') for plan in plans}, depths)

    def test_a_board_for_choosing_rules_shares_nothing_with_a_scored_board(self):
        for tuned, scored_on in (('tune', 'quick'), ('gpu_tune', 'gpu')):
            one, other = matrix.SETTINGS[tuned], matrix.SETTINGS[scored_on]
            self.assertNotEqual(one.seed, other.seed)
            self.assertNotEqual(list(one.image), list(other.image))
            self.assertNotEqual(list(one.pictures), list(other.pictures))
        jobs = {name: {job.name: job for job in matrix.Board(matrix.SETTINGS[name], 2000, 8).jobs()} for name in ('gpu', 'gpu_tune')}
        self.assertEqual(set(jobs['gpu_tune']), set(jobs['gpu']))
        for name in ('F03', 'F07', 'F14', 'X01'):
            tuned, scored_on = (jobs[setting][name] for setting in ('gpu_tune', 'gpu'))
            self.assertNotEqual(tuned.rate, scored_on.rate)
            for a, b in zip(tuned.phases[1::2], scored_on.phases[1::2]):
                self.assertEqual(set(a.faults) & set(b.faults), set(), name)

    def test_a_run_has_an_unrecorded_twin_if_the_log_tells_the_struck_requests(self):
        board = matrix.Board(matrix.SETTINGS['quick'], 500, 5)
        twins = {job.name: board.unrecorded(job) for job in board.jobs()}
        self.assertEqual([(twin.name, twin.is_recorded) for twin in twins['F01']], [('F01.unrecorded', False)])
        for name in ('F16', 'F20', 'F36', 'F37', 'C02', 'X05', matrix.FIRST_VERSION):
            self.assertEqual(twins[name], [], name)


def node(kind, blame, ms, *children, **more):
    return {'kind': kind, 'blame': blame, 'excess_ns': int(ms * MS), 'children': list(children), **more}


def rooted(request, path, kind='causes', by=None, confidence=0.9, typical_ms=5, **more):
    """A verdict whose tree is one way of (kind, blame, ms) to the root."""
    tree, hops = None, sum(one[0] in roots.NEXT_HOPS for one in path)
    for step in reversed(path):
        tree = node(*step[:3], *([tree] if tree else []), **(step[3] if len(step) > 3 else {}))
    of, blame, ms = path[-1][:3]
    root = {'kind': of, 'blame': blame, 'by': by, 'hops': hops, 'excess_ns': int(ms * MS), 'confidence': confidence}
    return {**verdict(request, [cause(path[0][1], path[0][2])], kind, typical_ms), 'root': root, 'tree': node('victim', '', ms, tree),
            'summary': f'about {request}', **more}


class Roots(unittest.TestCase):
    def outcome(self, name, lines, verdicts):
        """The outcome of request a."""
        return next(one.outcome for one in roots.judged_of(run(name, lines, verdicts), EXPECTED) if one.request == 'a')

    def control(self, lines, said):
        return roots.control_of(run('C02', lines, [said]), EXPECTED)[0].outcome

    def test_the_fault_as_the_requests_own_part_is_right(self):
        lines = [line('a', 'slow_decode_spin', 4)]
        self.assertEqual(self.outcome('F01', lines, [rooted('a', [('part', 'host_oncpu_pre', 4)])]), 'right')

    def test_the_same_part_of_another_request_is_wrong_unless_its_own_lines_prove_it(self):
        lines = [line('a', 'slow_decode_spin', 4), line('a', 'queued', 9, others=['b'])]
        said = rooted('a', [('part', 'executor_busy', 9), ('request', 'executor_busy', 9), ('part', 'host_oncpu_pre', 9)], by={'request': 'b'})
        self.assertEqual(self.outcome('F01', lines, [said]), 'wrong')
        self.assertEqual(self.outcome('F01', [*lines, line('b', 'slow_decode_spin', 8)], [said]), 'right')

    def test_the_same_part_of_the_request_itself_is_not_the_root_behind_another(self):
        said = rooted('a', [('part', 'executor_busy', 9), ('request', 'executor_busy', 9), ('part', 'host_runqueue', 4)], by={'request': 'b'})
        said['tree']['children'].append(node('part', 'host_runqueue', 6))
        self.assertEqual(roots.said_by(said).wait, 'executor_busy')

    def test_a_proved_root_smaller_than_the_fault_is_wrong(self):
        said = rooted('a', [('part', 'host_runqueue', 6)])
        for waited_ms, outcome in ((6, 'right'), (3, 'wrong')):
            lines = [line('a', 'slow_decode_spin', 4), line('a', 'cpu_waited', waited_ms)]
            self.assertEqual(self.outcome('F01', lines, [said]), outcome)

    def test_behind_a_batch_is_undetermined_if_the_wait_is_true_and_wrong_otherwise(self):
        said = rooted('a', [('part', 'executor_busy', 6), ('batch', 'executor_busy', 6)], by={'requests': ['b']})
        for waited_ms, outcome in ((6, 'undetermined'), (2, 'wrong')):
            lines = [line('a', 'slow_decode_spin', 4), line('a', 'queued', waited_ms, others=['b'])]
            self.assertEqual(self.outcome('F01', lines, [said]), outcome)

    def test_the_culprit_must_be_the_logged_one(self):
        lines = [line('a', 'lock_held', 4, role='waiter', holder='b')]
        for who, outcome in (('b', 'right'), ('c', 'wrong')):
            for path in ([('part', 'host_lock', 4), ('request', 'host_lock', 4)],
                         [('part', 'host_lock', 4), ('request', 'host_lock', 4), ('part', 'host_blocked_unknown', 4)]):
                self.assertEqual(self.outcome('F22', lines, [rooted('a', path, by={'request': who})]), outcome)

    def test_a_thread_and_the_holder_of_an_interpreter_are_culprits(self):
        for by in ({'thread': 'janitor'}, {'holder': 'janitor, generation 2'}, {'holder': 'janitor at app.py:88 render'}):
            self.assertIn('janitor', score.whose_is(by))
        self.assertIn('Service.report', score.whose_is({'holder': 'worker at app.py:88 Service.report'}))

    def test_the_culprit_in_the_sentence_counts_if_the_root_has_several(self):
        path = [('part', 'host_lock', 4), ('request', 'host_lock', 4, {'by': {'request': 'b'}}), ('part', 'host_blocked_unknown', 3)]
        self.assertEqual(self.outcome('F22', [line('a', 'lock_held', 4, role='waiter', holder='b')], [rooted('a', path)]), 'right')

    def test_load_is_right_of_a_burst_and_of_no_other_fault(self):
        said = rooted('a', [('part', 'executor_busy', 6), ('load', 'executor_busy', 6)])
        self.assertEqual(self.outcome('F27', [line('a', 'queued', 6, others=['b'])], [said]), 'right')
        self.assertEqual(self.outcome('F01', [line('a', 'slow_decode_spin', 4)], [said]), 'wrong')

    def test_load_is_proved_by_a_wait_unless_one_ahead_was_struck(self):
        said = rooted('a', [('part', 'executor_busy', 6), ('load', 'executor_busy', 6)])
        lines = [line('a', 'slow_decode_spin', 4), line('a', 'queued', 6, others=['b'])]
        self.assertEqual(self.outcome('F01', lines, [said]), 'right')
        self.assertEqual(self.outcome('F01', [*lines, line('b', 'slow_decode_spin', 8)], [said]), 'wrong')

    def test_something_unrecorded_of_a_wrong_culprit_is_wrong(self):
        lines = [line('a', 'lock_held', 4, role='waiter', holder='b')]
        for who, outcome in (('b', 'undetermined'), ('c', 'wrong')):
            path = [('part', 'host_lock', 4), ('request', 'host_lock', 4, {'by': {'request': who}}), ('part', score.UNEXPLAINED, 4)]
            self.assertEqual(self.outcome('F22', lines, [rooted('a', path)]), outcome)

    def test_a_verdict_without_a_root_is_undetermined(self):
        lines = [line('a', 'slow_decode_spin', 4)]
        unexplained = rooted('a', [('part', 'executor_busy', 6), ('unexplained', 'executor_busy', 6)])
        untraced = rooted('a', [('part', score.UNEXPLAINED, 6)])
        diffuse = rooted('a', [('part', 'host_lock', 6)], 'diffuse')  # its sentence does not name the root
        for said in (verdict('a'), verdict('a', kind='undetermined'), verdict('a', kind='not_unusual'), unexplained, untraced, diffuse):
            self.assertEqual(self.outcome('F01', lines, [said]), 'undetermined')

    def test_a_cause_named_without_a_root_counts_as_the_root(self):
        lines = [line('a', 'slow_decode_spin', 4)]
        self.assertEqual(self.outcome('F01', lines, [verdict('a', [cause('host_oncpu_pre', 4)])]), 'right')
        self.assertEqual(self.outcome('F01', lines, [verdict('a', [cause('host_lock', 4)])]), 'wrong')

    def test_a_true_wait_of_a_verdict_that_says_it_is_undetermined_is_undetermined(self):
        said = verdict('a', [cause('host_runqueue', 6)], kind='undetermined')
        for waited_ms, outcome in ((6, 'undetermined'), (2, 'wrong')):
            lines = [line('a', 'slow_decode_spin', 8), line('a', 'cpu_waited', waited_ms)]
            self.assertEqual(self.outcome('F01', lines, [said]), outcome)

    def test_a_part_made_of_the_faults_work_is_the_root_if_the_sentence_says_what_there_was_more_of(self):
        tiny = [line('a', 'tiny_kernels', 4)]
        said = rooted('a', [('part', 'host_oncpu_framework', 6)])
        self.assertEqual(self.outcome('F11', tiny, [said]), 'wrong')
        for of, outcome in (('launches', 'right'), ('tokens', 'wrong')):
            more = {'more_work': {'of': of, 'factor': 4, 'more_ns': 0}}
            self.assertEqual(self.outcome('F11', tiny, [{**said, **more}]), outcome)
            self.assertEqual(self.outcome('F11', tiny, [{**verdict('a', kind='more_work'), **more}]), outcome)

    def test_more_work_and_a_clock_are_roots(self):
        big = [{'request': 'a', 'fault': 'bigger_input', 'injected_ns': 0}]
        self.assertEqual(self.outcome('F28', big, [verdict('a', kind='more_work')]), 'right')
        self.assertEqual(self.outcome('F01', [line('a', 'slow_decode_spin', 4)], [verdict('a', kind='more_work')]), 'wrong')
        low = [line('a', 'gpu_clock_low', 4)]
        self.assertEqual(self.outcome('F16', low, [{**verdict('a', kind='uniform'), 'clocks': 'SM clock 900'}]), 'right')
        self.assertEqual(self.outcome('F16', low, [verdict('a', kind='uniform')]), 'wrong')

    def test_more_work_next_to_a_smaller_root_is_named_first(self):
        big = [{'request': 'a', 'fault': 'bigger_input', 'injected_ns': 0}]
        said = rooted('a', [('part', 'host_lock', 6)])
        for more_ms, outcome in ((7, 'right'), (5, 'wrong')):
            more = {'more_work': {'of': 'size', 'factor': 4, 'more_ns': more_ms * MS}}
            self.assertEqual(self.outcome('F28', big, [{**said, **more}]), outcome)

    def test_small_faults_and_those_that_verdicts_cannot_know_do_not_count(self):
        said = [verdict('a')]
        for name, lines in (('F01', [line('a', 'slow_decode_spin', 1)]), ('F99', [line('a', 'unseen', 9)])):
            self.assertEqual(roots.judged_of(run(name, lines, said), EXPECTED), [])

    def test_a_root_of_a_control_is_false_without_a_proof(self):
        said = rooted('a', [('part', 'host_runqueue', 6)])
        self.assertEqual(self.control([], said), 'wrong')
        self.assertEqual(self.control([line('a', 'cpu_waited', 3)], said), 'right')
        self.assertEqual(self.control([], verdict('a')), 'undetermined')

    def test_the_counts_add_up_and_failures_can_be_looked_up(self):
        lines = [line(name, 'slow_decode_spin', 4) for name in 'abcd']
        said = [rooted('a', [('part', 'host_oncpu_pre', 4)]), rooted('b', [('part', 'host_lock', 4)], confidence=0.6),
                rooted('c', [('part', 'host_lock', 4)], confidence=0.4), verdict('d')]
        result = roots.score_roots([run('F01', lines, said), run('C02', [], [verdict('a', kind='not_unusual')])], EXPECTED)
        counts = result['all']
        self.assertEqual([counts[key] for key in ('requests', 'right', 'undetermined', 'wrong', 'sure_and_wrong', 'named')], [4, 1, 1, 2, 1, 3])
        self.assertEqual(counts['instead'], {'wrong: host_lock': 2, 'undetermined: (no root)': 1})
        self.assertEqual([(one['run'], one['request'], one['outcome']) for one in result['failures']],
                         [('F01', 'b', 'wrong'), ('F01', 'c', 'wrong'), ('F01', 'd', 'undetermined')])
        text = tables.markdown({**scored(), 'roots': result})
        self.assertIn('| F01 | 4 | 25 % (5 to 70) | 25 % | 50 % | 1 of 3 | 1 | wrong: host_lock 2, undetermined: (no root) 1 |', text)
        self.assertIn('| F01 | b | 4.00 | wrong | 0.60 | about b |', text)
        with tempfile.TemporaryDirectory() as folder:
            roots.write_failures(Path(folder) / 'roots.jsonl', result)
            self.assertEqual(len(score.read_lines(Path(folder) / 'roots.jsonl')), 3)


class Others(unittest.TestCase):
    def test_a_pair_is_named_if_both_are_and_in_order_if_the_larger_is_first(self):
        lines = [line('a', 'slow_decode_spin', 8), line('a', 'lock_held', 4, role='waiter')]
        right = verdict('a', [cause('host_oncpu_pre', 8), cause('host_lock', 4)])
        self.assertEqual(scored(run('X05', lines, [right]))['pairs']['X05'],
                         {'what': 'two', 'requests': 1, 'both_named': 1, 'in_order': 1})
        wrong = verdict('a', [cause('host_lock', 9), cause('host_oncpu_pre', 8)])
        self.assertEqual(scored(run('X05', lines, [wrong]))['pairs']['X05']['in_order'], 0)
        half = verdict('a', [cause('host_oncpu_pre', 8)])
        self.assertEqual(scored(run('X05', lines, [half]))['pairs']['X05']['both_named'], 0)

    def test_in_a_pair_a_verdict_of_the_wanted_kind_names_that_fault(self):
        expected = {**EXPECTED, 'pairs': {'X05': {'what': 'two', 'faults': ['F01', 'F28']}}}
        lines = [line('a', 'slow_decode_spin', 8), {'request': 'a', 'fault': 'bigger_input', 'injected_ns': 0}]
        both = score.score([run('X05', lines, [verdict('a', [cause('host_oncpu_pre', 8)], kind='more_work')])], expected)
        self.assertEqual(both['pairs']['X05']['both_named'], 1)

    def test_sure_and_wrong_causes_in_lossy_traces_are_counted(self):
        lines = [line('a', 'slow_decode_spin', 4)]
        result = scored(run('F37', lines, [verdict('a', [cause('host_oncpu_pre', 4)]), verdict('b', [cause('host_lock', 4)]),
                                           verdict('c', [cause('host_lock', 4, 0.5)]), verdict('d', kind='undetermined')]))['lossy']['F37']
        self.assertEqual((result['sure'], result['sure_and_wrong'], result['undetermined']), (2, 1, 1))

    def test_numbers_that_do_not_add_up_are_counted(self):
        def bent(request, change, coarse=False):
            one = verdict(request, [cause('host_lock', 4), cause('alloc_stall', 3)])
            one['baseline']['is_coarse'] = coarse
            change(one)
            return one

        wrong = [
            lambda one: one.update(blame_ns={'host_lock': 1}),
            lambda one: one.update(segments=[]),
            lambda one: one.update(rest_ns=one['rest_ns'] + 1),
            lambda one: one.update(typical_ns=one['typical_ns'] + 1, rest_ns=one['rest_ns'] - 1),
            # The sum is right, but single parts disagree with blame and the usual values.
            lambda one: (one['causes'][0].update(excess_ns=one['causes'][0]['excess_ns'] + 1), one.update(rest_ns=one['rest_ns'] - 1)),
            lambda one: one['causes'][1].update(one['causes'][0]),
            lambda one: (one['causes'][0].update(common_ns=1), one.update(rest_ns=one['rest_ns'] + 1)),
        ]
        verdicts = [bent(str(i), change) for i, change in enumerate(wrong)]
        self.assertEqual(scored(run('C02', [], [*verdicts, bent('right', lambda one: None)]))['do_not_add_up'], len(wrong))
        in_common = bent('common', lambda one: (one['causes'][0].update(common_ns=2, excess_ns=4 * MS - 2), one.update(rest_ns=9)))
        coarse = [bent('coarse', lambda one: None, coarse=True), bent('wrong', wrong[2], coarse=True), in_common]
        self.assertEqual(scored(run('C02', [], coarse))['do_not_add_up'], 1)

    def test_a_run_is_read_even_if_its_log_is_truncated(self):
        with tempfile.TemporaryDirectory() as folder:
            at = Path(folder) / 'F01.again'
            at.mkdir()
            (at / 'injected.jsonl').write_text(json.dumps(line('a', 'slow_decode_spin', 4)) + '\n{"request": "b", "fau', encoding='utf-8')
            (at / 'why.jsonl').write_text(json.dumps(verdict('a')) + '\n', encoding='utf-8')
            read = score.read_run(at, EXPECTED)
            self.assertEqual((read.name, list(read.injections), list(read.verdicts)), ('F01', ['a'], ['a']))
            self.assertEqual(read.injections['a'][0].dose, 'dose_ms=4')

    def test_the_table_of_faults_is_whole(self):
        expected = score.read_expected()
        documented = (Path(__file__).resolve().parents[2] / 'docs' / 'reference' / 'analyzers.md').read_text(encoding='utf-8')
        for name, fault in expected['faults'].items():
            self.assertTrue(fault['blames'] or fault.get('kinds'), name)
            for code in [*fault.get('finds', []), *fault.get('also', [])]:
                self.assertIn(f'`{code}`', documented, name)
        for pair in expected['pairs'].values():
            self.assertTrue(set(pair['faults']) <= set(expected['faults']))

    def test_a_score_is_shown(self):
        result = scored(run('F01', [line('a', 'slow_decode_spin', 4)], [verdict('a', [cause('host_oncpu_pre', 4)])]),
                        run('C02', [], [verdict('a')]))
        text = tables.markdown(result)
        self.assertIn('| F01 | slow decoder | dose_ms=4 | 0.80 | 1 | 100 % (21 to 100) | 100 % |', text)
        self.assertIn('1 verdicts', text.replace('2 verdicts', '1 verdicts'))
        self.assertIn('<svg', plot.svg(result))
        self.assertIn('| a05 | 1 | 1 | 100 % |  | 1 of 1 |  | 0 |  | 1 of 1 |', tables.markdown(scored(run('F01', [], [], [finding('a05.input_bound')]))))


if __name__ == '__main__':
    unittest.main()
