#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants a fault for each contract check, and checks that it is found: planted.py COMPILER OBJDUMP"""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
COMPILER, OBJDUMP = "g++", "objdump"


class Planted(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_check(self, script, *arguments):
        done = subprocess.run([sys.executable, os.path.join(HERE, script), *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def assert_fails(self, words, script, *arguments):
        status, output = self.run_check(script, *arguments)
        self.assertEqual(status, 1, output)
        self.assertIn(words, output)

    def archive(self, source, *flags, name="planted"):
        path = self.write(name + ".cc", source)
        object_path = path + ".o"
        subprocess.run([COMPILER, "-std=c++20", "-fPIC", "-fvisibility=hidden", "-c", path, "-o", object_path, *flags], check=True)
        subprocess.run(["ar", "rcs", path + ".a", object_path], check=True)
        return path + ".a"

    def test_a_header_that_needs_another_before_it(self):
        self.write("pitot/bad.h", "inline uint64_t Bad();\n")
        self.assert_fails("pitot/bad.h does not compile alone", "headers.py", COMPILER, "c++17", self.folder.name)

    def test_a_header_without_a_guard(self):
        self.write("pitot/bad.h", "struct Bad {};\n")
        self.assert_fails("pitot/bad.h does not compile alone", "headers.py", COMPILER, "c++17", self.folder.name)

    def test_a_header_that_needs_cxx20(self):
        self.write("pitot/bad.h", "#pragma once\n#include <concepts>\ntemplate <std::integral T> T Bad();\n")
        self.assert_fails("pitot/bad.h does not compile alone", "headers.py", COMPILER, "c++17", self.folder.name)
        self.assertEqual(self.run_check("headers.py", COMPILER, "c++20", self.folder.name)[0], 0)

    def test_a_header_with_an_example_that_needs_cxx20(self):
        self.write("pitot/bad.h", "#pragma once\n//   recorder.Add(pitot::MakeBad({.above_ms = 50}));\n")
        self.assert_fails("pitot/bad.h:2: names members in braces", "headers.py", COMPILER, "c++17", self.folder.name)
        self.assertEqual(self.run_check("headers.py", COMPILER, "c++20", self.folder.name)[0], 0)

    def test_a_header_over_budget(self):
        self.write("pitot/extend/bad.h", "#include <string_view>\n")
        self.assert_fails("lines preprocessed, more than 300", "budgets.py", COMPILER, self.folder.name)

    def test_an_include_that_users_must_not_get(self):
        for header in ("<atomic>", "<chrono>", '"absl/status/status.h"', "<google/protobuf/message.h>", "<torch/torch.h>"):
            self.write("pitot/bad.h", f"\n#  include {header}\n")
            self.assert_fails("pitot/bad.h:2: a public header must not contain", "budgets.py", COMPILER, self.folder.name)

    def test_an_archive_that_prints(self):
        self.assert_fails("imports printf", "symbols.py", "archive",
                          self.archive('#include <cstdio>\nnamespace pitot { void Bad(int x) { std::printf("%d", x); } }\n'))

    def test_an_archive_that_aborts(self):
        self.assert_fails("imports abort", "symbols.py", "archive",
                          self.archive("#include <cstdlib>\nnamespace pitot { void Bad() { std::abort(); } }\n"))

    def test_an_archive_that_asserts(self):
        self.assert_fails("imports __assert_fail", "symbols.py", "archive",
                          self.archive("#include <cassert>\nnamespace pitot { void Bad(int x) { assert(x); } }\n"))

    def test_an_archive_with_iostream(self):
        self.assert_fails("imports std::cout", "symbols.py", "archive",
                          self.archive("#include <iostream>\nnamespace pitot { void Bad() { std::cout << 1; } }\n"))

    def test_an_archive_that_runs_something_when_loaded(self):
        self.assert_fails("has a section .init_array", "symbols.py", "archive",
                          self.archive("int Now();\nnamespace pitot { int g_now = Now(); }\n"))

    def test_an_archive_with_a_static_that_is_destroyed_at_exit(self):
        self.assert_fails("imports __cxa_atexit", "symbols.py", "archive",
                          self.archive("struct S { ~S(); };\nnamespace pitot { S& Get() { static S s; return s; } }\n"))

    def test_an_archive_that_exports_a_private_name(self):
        self.assert_fails("exports pitot::session::Bad()", "symbols.py", "archive",
                          self.archive("namespace pitot::session { [[gnu::visibility(\"default\")]] void Bad() {} }\n"))

    def analysis(self, public, internal=""):
        """An archive of the analysis with these definitions in pitot::analyze, and others in a room's namespace."""
        header = "#define PITOT_EXPORT [[gnu::visibility(\"default\")]]\n"
        return self.archive(f"{header}namespace pitot {{ inline namespace v1 {{ namespace analyze {{ {public} }} }} }}\n"
                            f"namespace pitot::blame {{ {internal} }}\n", name="libpitot_analyze")

    def test_an_archive_of_the_analysis_whose_internals_have_their_own_namespace(self):
        archive = self.analysis("PITOT_EXPORT const char* BlameName(int) { return nullptr; }", "void Good() {}")
        self.assertEqual(self.run_check("symbols.py", "archive", archive)[0], 0)

    def test_an_archive_of_the_analysis_with_an_internal_in_the_public_namespace(self):
        self.assert_fails("defines an internal, pitot::v1::analyze::Bad()", "symbols.py", "archive",
                          self.analysis("void Bad() {}"))

    def test_an_archive_of_the_analysis_with_an_internal_class_in_the_public_namespace(self):
        self.assert_fails("defines an internal, pitot::v1::analyze::Bad::Run()", "symbols.py", "archive",
                          self.analysis("struct Bad { void Run(); }; void Bad::Run() {}"))

    def test_an_archive_of_the_analysis_with_an_internal_overload_of_a_public_function(self):
        self.assert_fails("defines an internal, pitot::v1::analyze::BlameName(int)", "symbols.py", "archive",
                          self.analysis("const char* BlameName(int) { return nullptr; }"))

    def test_a_shared_library_that_exports_templates_of_libstdcxx(self):
        path = self.write("planted.cc", "#include <vector>\nvoid Use(std::vector<int>& v) { v.push_back(1); }\n")
        subprocess.run([COMPILER, "-std=c++20", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-soname,planted", path, "-o",
                        path + ".so"], check=True)
        self.assert_fails("exports void std::vector<int", "symbols.py", "shared", path + ".so")

    def test_a_pair_whose_bad_twin_compiles(self):
        self.write("pairs/bad.cc", "// expect: anything\n#ifdef BAD\nint a;\n#endif\n")
        self.assert_fails("bad.cc: the bad twin compiles", "must_not_compile.py", COMPILER, self.folder.name + "/pairs")

    def test_a_pair_whose_good_twin_does_not_compile(self):
        self.write("pairs/bad.cc", "// expect: anything\n#ifdef BAD\n#endif\nint a = b;\n")
        self.assert_fails("bad.cc: the good twin does not compile", "must_not_compile.py", COMPILER, self.folder.name + "/pairs")

    def test_a_pair_that_fails_for_another_reason(self):
        self.write("pairs/bad.cc", "// expect: our message\n#ifdef BAD\nint a = b;\n#endif\n")
        self.assert_fails("bad.cc: at c++17 the message has none of ['our message']", "must_not_compile.py", COMPILER, self.folder.name + "/pairs")

    def test_a_disabled_macro_that_leaves_code(self):
        source = self.write("bad.cc", 'int Work(int);\n#ifndef BARE\n#define MACRO() Work(0)\n#else\n#define MACRO()\n#endif\n'
                                      'extern "C" int Handle(int a) { MACRO(); return Work(a); }\n')
        self.assert_fails("the macros leave code", "codegen.py", "disabled", COMPILER, OBJDUMP, self.folder.name, source)

    def test_an_off_path_that_calls(self):
        gate = "namespace pitot { extern unsigned g_gate; bool Ask(); }\nvoid Work(int);\n"
        source = self.write("bad.cc", gate + 'extern "C" void WithScope(int a) { if (pitot::Ask()) Work(1); Work(a); }\n')
        self.assert_fails("calls before the branch on the gate", "codegen.py", "off", COMPILER, OBJDUMP, self.folder.name, source)

    def test_an_off_path_that_branches_before_it_reads_the_gate(self):
        gate = "namespace pitot { extern unsigned g_gate; void Record(); }\nvoid Work(int);\n"
        source = self.write("bad.cc", gate + 'extern "C" void WithScope(int a) { if (a && pitot::g_gate) pitot::Record(); Work(a); }\n')
        self.assert_fails("branches before it has read the gate", "codegen.py", "off", COMPILER, OBJDUMP, self.folder.name, source)

    def test_a_recording_macro_with_more_instructions(self):
        source = self.write("bad.cc", 'void Work(int);\nextern "C" void WithScope(int a) { Work(a); }\n')
        self.assert_fails("WithScope: ", "codegen.py", "on", COMPILER, OBJDUMP, self.folder.name, source)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        COMPILER, OBJDUMP = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
