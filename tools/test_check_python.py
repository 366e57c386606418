#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faulty files, and checks that tools/check_python.py finds them."""

import os
import subprocess
import sys
import tempfile
import unittest

CHECKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_python.py")


class CheckPython(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory()
        subprocess.run(["git", "-C", self.root.name, "init", "--quiet"], check=True)
        self.write(".gitignore", "build/\n")
        self.write("tools/check_it.py", "import json\n")

    def tearDown(self):
        self.root.cleanup()

    def write(self, path, text):
        path = os.path.join(self.root.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def check(self):
        done = subprocess.run([sys.executable, CHECKER, "--root", self.root.name], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def refused(self, said):
        status, output = self.check()
        self.assertEqual((status, output), (1, said), output)

    def test_accepts_harmless_names_and_text(self):
        self.write("tools/test/helpers/__init__.py", "")
        self.assertEqual(self.check(), (0, "ok: 2 files\n"))

    def test_refuses_the_name_of_a_standard_module_next_to_any_script(self):
        for folder in ("", "tools/", "test/contract/", "benchmarks/"):
            path = f"{folder}select.py"
            self.write(path, "")
            self.refused(f"{path}:1: it hides Python's own module select from the scripts next to it: rename it\n")
            os.remove(os.path.join(self.root.name, path))

    def test_refuses_a_package_with_such_a_name(self):
        self.write("tools/json/__init__.py", "")
        self.refused("tools/json/__init__.py:1: it hides Python's own module json from the scripts next to it: rename it\n")

    def test_a_refused_file_does_hide_the_module(self):
        self.write("tools/json.py", "raise RuntimeError('not the standard one')\n")
        script = os.path.join(self.root.name, "tools/check_it.py")
        done = subprocess.run([sys.executable, script], capture_output=True, text=True)
        self.assertIn("not the standard one", done.stderr)
        self.assertEqual(self.check()[0], 1)

    def test_refuses_a_file_that_does_not_parse_and_names_the_line(self):
        self.write("tools/broken.py", "a = 1\nb = (\n")
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertTrue(output.startswith("tools/broken.py:2: "), output)

    def test_names_every_offence(self):
        self.write("tools/io.py", "")
        self.write("tools/re.py", "")
        status, output = self.check()
        self.assertEqual((status, output.count("\n")), (1, 2), output)

    def test_ignores_files_ignored_by_git(self):
        self.write("build/json.py", "")
        self.assertEqual(self.check(), (0, "ok: 1 files\n"))

    def test_fails_without_any_file(self):
        os.remove(os.path.join(self.root.name, "tools/check_it.py"))
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("nothing was checked", output)


if __name__ == "__main__":
    unittest.main()
