#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What lets samples/quickstart say that an incident holds the slow request: that it can also say no."""

import json
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / 'samples' / 'find_injected.py'
SLOW, FAST, OTHER = '00000000000000aa', '00000000000000bb', '00000000000000cc'


class FindInjected(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.incident = self.folder / 'incidents' / '20261121T000000Z-0001-latency'
        self.incident.mkdir(parents=True)
        for name in ('dump.pitot', 'report.html'):
            (self.incident / name).write_bytes(b'')
        self.write_report([SLOW])
        self.requests = [{'id': SLOW, 'latency_ms': 80.0}, {'id': FAST, 'latency_ms': 5.0}]
        self.write_log([(SLOW, 60)])

    def write_report(self, ids):
        lines = [f'{i + 1}) 80.0 ms  /classify  ok  request {request}\n' for i, request in enumerate(ids)]
        (self.incident / 'report.txt').write_text(''.join(lines), encoding='utf-8')

    def write_log(self, faults, more='as'):
        lines = [json.dumps({'request': request, 'injected_ns': ms * 1e6, more: 'lock_held'}) + '\n' for request, ms in faults]
        (self.folder / 'faults.jsonl').write_text(''.join(lines), encoding='utf-8')

    def find(self, above_ms='40'):
        """Runs it with a command line tool that says which requests the dump holds."""
        tool = self.folder / 'pitot'
        tool.write_text(f'#!/bin/sh\ncat <<"END"\n{json.dumps({"requests": self.requests})}\nEND\n', encoding='utf-8')
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        return subprocess.run([sys.executable, str(SCRIPT), '--pitot', str(tool), '--incidents',
                               str(self.folder / 'incidents'), '--fault-log', str(self.folder / 'faults.jsonl'),
                               '--above-ms', above_ms], capture_output=True, text=True, timeout=60, check=False)

    def test_the_slow_request_that_was_made_slow_is_found(self):
        run = self.find()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.splitlines()[0], str(self.incident))
        self.assertIn(f'request {SLOW} took 80.0 ms, of which 60.0 ms were injected', run.stdout)

    def test_another_request_than_was_made_slow_is_not_taken_for_it(self):
        self.write_log([(OTHER, 60)])
        self.assertEqual(self.find().returncode, 1)

    def test_nothing_is_found_without_an_injection(self):
        self.write_log([])
        self.assertEqual(self.find().returncode, 1)
        self.write_log([(SLOW, 60)], more='scope')  # true of it, and not injected
        self.assertEqual(self.find().returncode, 1)
        (self.folder / 'faults.jsonl').unlink()
        self.assertEqual(self.find().returncode, 1)

    def test_a_request_that_the_report_does_not_list_is_not_enough(self):
        self.write_report([OTHER])
        self.assertEqual(self.find().returncode, 1)

    def test_a_request_that_was_not_as_slow_as_what_was_injected_is_not_it(self):
        self.write_log([(SLOW, 100)])
        self.assertEqual(self.find().returncode, 1)

    def test_a_request_below_the_threshold_is_not_slow(self):
        self.assertEqual(self.find(above_ms='90').returncode, 1)

    def test_an_incident_without_its_verdict_does_not_count(self):
        (self.incident / 'report.html').unlink()
        self.assertEqual(self.find().returncode, 1)

    def test_a_log_whose_last_line_is_half_written_is_read(self):
        with (self.folder / 'faults.jsonl').open('a', encoding='utf-8') as log:
            log.write('{"request": "00')
        self.assertEqual(self.find().returncode, 0)


if __name__ == '__main__':
    unittest.main()
