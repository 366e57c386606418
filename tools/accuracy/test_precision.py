#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the counts of true findings, and of the table made of them."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import precision
import score

PROGRAM = Path(__file__).resolve().parents[1] / 'precision'


def finding(code, **more):
    return {'code': code, 'summary': '', 'severity': 'medium', 'undetermined': False, 'cost_ns': 0, **more}


def board(folder, setting, **findings):
    """A board's folder with judged runs."""
    (folder / 'probe.json').write_text(json.dumps({'setting': setting}), encoding='utf-8')
    for name, said in findings.items():
        (folder / name).mkdir()
        (folder / name / 'why.jsonl').touch()
        (folder / name / 'analyze.json').write_text(json.dumps({'window_ns': 1000, 'analyzers': [{'findings': said}]}), encoding='utf-8')


class Precision(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Path(folder.name)

    def counted(self, **findings):
        folder, expected = self.folder(), score.read_expected('tune')
        board(folder, 'tune', **findings)
        return precision.counts_of(score.read_runs(folder, expected), expected)

    def test_claims_are_counted_by_code_and_size_also_silent_ones(self):
        counts = self.counted(F01=[finding('a05.input_bound', cost_ns=9), finding('a05.input_bound', cost_ns=10), finding('a35.latency', silent=True), finding('a39.lost_events')],
                              C02=[finding('a05.input_bound'), finding('a31.dominant', severity='info'), finding('a29.long_gaps', undetermined=True)])
        self.assertEqual(counts, {'a05.input_bound large': [1, 1], 'a05.input_bound small': [1, 2], 'a35.latency small': [1, 1]})

    def test_findings_true_of_every_run_of_the_setting_are_not_counted(self):
        self.assertEqual(self.counted(F01=[finding('a15.serial'), finding('a35.latency')]), {'a35.latency small': [1, 1]})

    def test_waits_for_cpus_are_counted_if_the_fault_makes_them_or_if_they_are_false(self):
        said = [finding('a27.runqueue'), {**finding('a41.driver'), 'metric': 'Cov(host_runqueue, latency) / Var(latency)'}]
        folder, expected = self.folder(), score.read_expected('tune')
        board(folder, 'tune', F20=said, C02=said)

        def counts(is_crowded):
            runs = [run._replace(is_crowded=is_crowded) for run in score.read_runs(folder, expected)]
            return precision.counts_of(runs, expected)
        self.assertEqual(counts(False), {'a27.runqueue small': [1, 2], 'a41.driver small': [1, 2]})
        self.assertEqual(counts(True), {'a27.runqueue small': [1, 1], 'a41.driver small': [1, 1]})

    def test_runs_of_which_nothing_is_known_are_not_counted(self):
        self.assertEqual(self.counted(V01=[finding('a05.input_bound')]), {})

    def test_counts_replace_those_of_the_same_setting_only(self):
        before = {'tune': {'a05.input_bound small': [3, 4]}, 'llm_tune': {'a28.saturated small': [1, 1]}}
        self.assertEqual(precision.taken(before, 'tune', {}), {'llm_tune': {'a28.saturated small': [1, 1]}, 'tune': {}})

    def test_boards_that_only_score_are_refused(self):
        for setting in ('quick', 'full', 'gpu', 'gpu_default', 'python', 'llm'):
            self.assertRaises(precision.NotForTuning, precision.taken, {}, setting, {})
        folder = self.folder()
        board(folder, 'quick')
        done = subprocess.run([sys.executable, str(PROGRAM), '--check', str(folder)], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, 'only scores' in done.stderr), (2, True))

    def test_the_table_has_the_sums_of_all_settings(self):
        text = precision.header({'tune': {'a05.input_bound small': [3, 4]}, 'llm_tune': {'a05.input_bound small': [0, 5], 'a03.x large': [1, 1]}})
        self.assertIn('    {"a03.x", Size::kLarge, 1, 1},\n    {"a05.input_bound", Size::kSmall, 3, 9},\n};', text)

    def test_the_table_in_the_tree_is_the_one_of_the_counts(self):
        done = subprocess.run([sys.executable, str(PROGRAM), '--check'], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_file_of_counts_is_read_as_written(self):
        counts = {'tune': {'a05.input_bound small': [3, 4]}, 'llm_tune': {}}
        path = self.folder() / 'counts.json'
        path.write_text(precision.text(counts), encoding='utf-8')
        self.assertEqual(precision.read_counts(path), counts)


if __name__ == '__main__':
    unittest.main()
