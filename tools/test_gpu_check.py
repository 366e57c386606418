#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/gpu_check with programs that only print their arguments."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_check")

SAMPLE = """#!/bin/sh
name=$(basename "$0")
median=1.000
for argument in "$@"; do
  case $argument in
    --fixed) median=0.250 ;;
    --eager) median=4.000 ;;
  esac
done
echo "/$name: 10 requests, median $median ms, longest 9.000 ms"
echo "incident: somewhere"
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.pack = os.path.join(self.folder.name, "build", "gpu")
        os.makedirs(self.pack)
        os.makedirs(os.path.join(self.folder.name, "tools"))
        self.tool = shutil.copy(TOOL, os.path.join(self.folder.name, "tools"))

    def tearDown(self):
        self.folder.cleanup()

    def install(self, name, text):
        path = os.path.join(self.pack, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_parts(self, *parts, environment=None):
        """The tool's exit status and the table's lines."""
        command = [sys.executable, self.tool, *(option for part in parts for option in ("--only", part))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})})
        return done.returncode, done.stdout[done.stdout.index("part  "):].splitlines()[1:]

    def test_samples_run_slow_and_fixed_and_both_numbers_are_shown(self):
        self.install("gpu_test", "#!/bin/sh\n")
        for name in ("vector_add", "small_copies", "graph_decode", "attention_compare"):
            self.install(name, SAMPLE)

        status, table = self.run_parts("sample *")

        self.assertEqual(status, 0)
        seen = [(line[:31].strip(), line[31:47].strip(), line[55:]) for line in table]
        line = "/{}: 10 requests, median {} ms, longest 9.000 ms".format
        self.assertEqual(seen, [
            ("sample vector_add naive", "ok", line("vector_add", "1.000")),
            ("sample vector_add fixed", "ok", line("vector_add", "0.250")),
            ("sample small_copies naive", "ok", line("small_copies", "1.000")),
            ("sample small_copies fixed", "ok", line("small_copies", "0.250")),
            ("sample graph_decode naive", "ok", line("graph_decode", "4.000")),
            ("sample graph_decode fixed", "ok", line("graph_decode", "1.000")),
            ("sample attention_compare both", "ok", line("attention_compare", "1.000")),
            ("sample attention_compare limits", "ok", line("attention_compare", "1.000"))])

    def test_the_measured_freshness_is_shown_and_a_failed_test_is_reported(self):
        self.install("gpu_test", "#!/bin/sh\n"
                     "echo 'batches: age of a record when it can be had: median 9.0 ms, p99 21.0'\n"
                     "[ \"$1\" = '[fresh]' ]\n")

        status, table = self.run_parts("gpu_test fresh", "gpu_test join")

        self.assertEqual(status, 1)
        self.assertEqual(table[0].split()[:3], ["gpu_test", "join", "FAILED"])
        self.assertEqual(table[1].split()[:3], ["gpu_test", "fresh", "ok"])
        self.assertTrue(table[1].endswith("median 9.0 ms, p99 21.0"), table)

    def test_the_scored_and_the_tuning_board_are_separate_parts_and_report_runs_without_time(self):
        for name in ("gpu_test", "image_server"):
            self.install(name, "#!/bin/sh\n")
        os.makedirs(os.path.join(self.folder.name, "python", "torch"))
        with open(os.path.join(self.folder.name, "python", "torch", "__init__.py"), "w", encoding="utf-8"):
            pass
        with open(os.path.join(self.folder.name, "tools", "scoreboard"), "w", encoding="utf-8") as file:
            file.write("import sys\nprint(' '.join(sys.argv[1:]))\nsys.exit('scoreboard: no time for F14, C02: continue with --resume')\n")
        torch = {"PYTHONPATH": os.path.join(self.folder.name, "python")}

        for part, setting in (("scoreboard", "gpu"), ("scoreboard tune", "gpu_tune")):
            status, table = self.run_parts(part, environment=torch)
            self.assertEqual(status, 1)
            self.assertEqual(table[0][:31].strip(), part)
            text = "\n".join(table)
            self.assertIn(f"--setting {setting} ", text)
            self.assertIn("--limit-s 420", text)
            self.assertIn("no time for F14, C02", text)
            self.assertEqual(text.count("--setting"), 1)


if __name__ == "__main__":
    unittest.main()
