#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives benchmarks/gpu_coverage.py requests of every kind, and checks which ones it counts as covered."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "benchmarks", "gpu_coverage.py")
# Prints its input file, like `pitot requests --json` prints a dump.
PITOT = "#!/bin/sh\nfor dump; do :; done\ncat \"$dump\"\n"


def slow(number, **what):
    return {"id": f"{number:016x}", "latency_ms": 40, "outcome": "ok", "gpu_ns": 1000, "gpu_by_events_ns": 0, "coverage": 1, **what}


class GpuCoverage(unittest.TestCase):
    def row(self, first, later):
        """The table's row for a fault with two incidents."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "pitot").write_text(PITOT, encoding="utf-8")
            (folder / "pitot").chmod(0o700)
            (folder / "lock_held").mkdir()
            for number, requests in enumerate((first, later)):
                (folder / "lock_held" / f"{number:03}.pitot").write_text(json.dumps({"requests": requests}), encoding="utf-8")
            done = subprocess.run([sys.executable, PROGRAM, "table", folder, "--pitot", folder / "pitot"], capture_output=True,
                                  text=True, check=True)
        return next(line.split()[1:] for line in done.stdout.splitlines() if line.startswith("lock_held"))

    def test_a_covered_request_has_kernels_of_its_own(self):
        later = [slow(1), slow(2, coverage=0.8), slow(3, coverage=0.79), slow(4, coverage=None, gpu_ns=None)]
        self.assertEqual(self.row([slow(9)], later), ["2", "1", "of", "1", "2", "of", "4", "50", "%", "1", "0"])

    def test_whole_coverage_of_no_work_covers_nothing(self):
        self.assertEqual(self.row([], [slow(1, gpu_ns=0)]), ["2", "0", "of", "0", "0", "of", "1", "0", "%", "1", "0"])

    def test_time_from_events_is_not_a_kernel(self):
        self.assertEqual(self.row([], [slow(1, gpu_by_events_ns=10)]), ["2", "0", "of", "0", "0", "of", "1", "0", "%", "0", "1"])

    def test_fast_and_failed_requests_do_not_count(self):
        self.assertEqual(self.row([], [slow(1, latency_ms=24), slow(2, outcome="error")]), self.row([], []))


if __name__ == "__main__":
    unittest.main()
