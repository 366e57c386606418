#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/vllm_overhead.py: its blocks, its ratios and its intervals."""

import random
import re
import statistics
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'benchmarks'))

import vllm_overhead  # noqa: E402


class Engine:
    """Puts out one token for each open request in a step."""

    def __init__(self):
        self.left = {}

    def add(self, name, prompt, tokens):
        assert len(prompt) == vllm_overhead.PROMPT
        self.left[name] = tokens

    def step(self):
        outputs = []
        for name in list(self.left):
            self.left[name] -= 1
            outputs.append((name, 1, self.left[name] == 0))
            if self.left[name] == 0:
                del self.left[name]
        return outputs


def block(number, arm, p50_ms, width=8, cpu_s=1.0):
    return {'round': number, 'arm': arm, 'width': width, 'tokens': 1000, 's': p50_ms, 'cpu_s': cpu_s, 'p50_ms': p50_ms, 'p99_ms': 2 * p50_ms}


def results(blocks, **arms):
    return {'cores': 16, 'arms': {'off': {}, 'off again': {}, 'default': {}, **arms}, 'blocks': blocks}


def row(text, arm):
    return [cell.strip() for line in text.splitlines() if line.startswith(f'| {arm} |') for cell in line.split('|')[1:-1]]


class Overhead(unittest.TestCase):
    def test_a_block_ends_with_its_last_token(self):
        engine = Engine()
        said = vllm_overhead.run_block(engine, 3, 4, list(range(1000)))
        self.assertEqual((said['tokens'], engine.left), (4 * vllm_overhead.ANSWER, {}))
        self.assertLessEqual(said['p50_ms'], said['p99_ms'])

    def test_ratios_are_of_one_round_and_to_both_arms_off(self):
        blocks = [one for number, slow in ((1, 1), (2, 3), (3, 2)) for one in (
            block(number, 'off', 0.9 * slow), block(number, 'off again', 1.1 * slow), block(number, 'default', 1.5 * slow, cpu_s=2.0))]
        text = vllm_overhead.table(results(blocks))
        self.assertEqual(row(text, 'default')[5:], ['1.500 (1.500 to 1.500)'] * 3 + ['2.000 (2.000 to 2.000)', row(text, 'default')[-1]])
        self.assertTrue(row(text, 'default')[-1].startswith('1.500 ('))
        self.assertEqual(row(text, 'off again')[5], '1.222 (1.222 to 1.222)')
        self.assertEqual(row(text, 'default')[1:4], ['3.000', '6.00', '1000'])

    def test_a_round_without_an_arm_does_not_count(self):
        blocks = [block(1, 'off', 1), block(1, 'off again', 1), block(1, 'default', 2), block(2, 'off', 1), block(2, 'off again', 1)]
        text = vllm_overhead.table(results(blocks))
        self.assertIn('8 requests, 1 rounds', text)

    def test_an_arm_that_never_ran_is_named_and_hides_no_round(self):
        blocks = [block(1, 'off', 1), block(1, 'off again', 1), block(1, 'default', 2)]
        text = vllm_overhead.table(results(blocks, kernels={'failed': 'Traceback\nValueError: no\n'}))
        self.assertEqual(row(text, 'default')[5], '2.000 (2.000 to 2.000)')
        self.assertIn('* kernels failed: ValueError: no', text)

    def test_an_arm_of_the_command_line_has_its_variables(self):
        self.assertEqual(vllm_overhead.read_arm('mine:A=1,PATH=/a:/b=c'), ('mine', {'A': '1', 'PATH': '/a:/b=c'}))

    def test_the_interval_of_equal_values_is_a_point_and_of_others_holds_the_median(self):
        self.assertEqual(vllm_overhead.interval_of([2.0] * 9, statistics.median, random.Random(1)), '2.000 (2.000 to 2.000)')
        said = vllm_overhead.interval_of([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6], statistics.median, random.Random(1))
        middle, low, high = [float(number) for number in re.findall(r'[0-9.]+', said)]
        self.assertTrue(low < middle == 1.3 < high)

    def test_of_two_speeds_the_quiet_ratio_compares_the_faster(self):
        fast, slow = (1.1, [1.0, 1.0]), (2.4, [2.0, 2.0])
        self.assertAlmostEqual(vllm_overhead.quiet([fast, slow] * 8), 1.1)


if __name__ == '__main__':
    unittest.main()
