#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes files of a small repository, and checks the tests named by tools/affected.py."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "affected.py")
LIST = """trace|ring_test names_test|ring_test names_test
session|session_test|session_test
collect/cupti|cupti_test fake_cupti|cupti_test cupti_late_test
analyze|analyze_test|analyze_test
"""
FILES = {"lib/trace/rings.cc": "// Rings.\nint a = 1;\n", "lib/collect/cupti/decode.cc": "int b = 1;\n", "cmake/Targets.cmake": "#\n",
         "include/pitot/options.h": "int c;\n", "include/pitot/collect/cupti.h": "int d;\n", "docs/a.md": "text\n"}


class Affected(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = self.folder.name
        os.makedirs(os.path.join(self.root, "tools"))
        shutil.copy(TOOL, os.path.join(self.root, "tools", "affected.py"))
        for path, text in FILES.items():
            self.write(path, text)
        self.write("build/test_folders.txt", LIST)
        self.write(".gitignore", "build/\n")
        for command in (["init", "-q"], ["add", "-A"],
                        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all"]):
            subprocess.run(["git", "-C", self.root, *command], check=True)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def named(self, what="folders", *scope):
        done = subprocess.run([sys.executable, os.path.join(self.root, "tools", "affected.py"), os.path.join(self.root, "build"),
                               *(scope or ("--since", "HEAD")), "--print", what], capture_output=True, text=True, check=True)
        return done.stdout.split()

    def test_nothing_changed_affects_nothing(self):
        self.assertEqual(self.named(), [])

    def test_a_part_affects_its_own_folder_and_the_others_with_tests_of_it(self):
        self.write("lib/trace/rings.cc", "// Rings.\nint a = 2;\n")
        self.assertEqual(self.named(), ["session", "trace"])

    def test_a_collector_affects_its_own_folder(self):
        self.write("lib/collect/cupti/decode.cc", "int b = 2;\n")
        self.assertEqual(self.named(), ["collect/cupti"])
        self.assertEqual(self.named("targets"), ["cupti_test", "fake_cupti"])
        self.assertEqual(self.named("tests"), ["cupti_late_test", "cupti_test"])

    def test_a_public_header_affects_the_folder_of_its_part(self):
        self.write("include/pitot/options.h", "int e;\n")
        self.assertEqual(self.named(), ["session"])
        self.write("include/pitot/collect/cupti.h", "int e;\n")
        self.assertEqual(self.named(), ["collect/cupti", "session"])

    def test_a_new_file_counts(self):
        self.write("lib/trace/new.cc", "int e;\n")
        self.assertEqual(self.named(), ["session", "trace"])

    def test_comments_and_documents_affect_nothing(self):
        self.write("lib/trace/rings.cc", "// Rings of threads.\nint a = 1;\n")
        self.write("docs/a.md", "other text\n")
        self.assertEqual(self.named(), [])

    def test_a_change_of_the_build_affects_everything(self):
        self.write("cmake/Targets.cmake", "# new\n")
        self.assertEqual(self.named(), ["analyze", "collect/cupti", "session", "trace"])

    def test_names_the_files_with_changed_code(self):
        self.write("lib/trace/rings.cc", "// Rings.\nint a = 2;\n")
        self.write("lib/collect/cupti/decode.cc", "// A comment.\nint b = 1;\n")
        self.assertEqual(self.named("paths"), ["lib/trace/rings.cc"])

    def test_programs_that_a_test_starts_are_targets(self):
        build = os.path.realpath(os.path.join(self.root, "build"))
        self.write("build/CTestTestfile.cmake", f"""
            add_test(cupti_late_test "python3" "late.py" "{build}/bin/server")
            set_tests_properties(cupti_late_test PROPERTIES ENVIRONMENT "PITOT_PROGRAM={build}/bin/pitot;OTHER=1")
            add_test(session_test "{build}/bin/session_test")""")
        self.write("lib/collect/cupti/decode.cc", "int b = 2;\n")
        self.assertEqual(self.named("targets"), ["bin/pitot", "bin/server", "cupti_test", "fake_cupti"])

    def test_all_names_all(self):
        self.assertEqual(len(self.named("folders", "--all")), 4)


if __name__ == "__main__":
    unittest.main()
