#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has tools/mutate find what the tests of a small project hold and what they do not."""

import argparse
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mutate")
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("mutate", TOOL)
mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", LOADER))
LOADER.exec_module(mutate)

CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(tiny LANGUAGES CXX)
enable_testing()
add_library(shop STATIC lib/shop/price.cc lib/shop/unused.cc)
target_include_directories(shop PUBLIC lib)
add_subdirectory(test/shop)
"""
CMAKE_OF_TESTS = """
add_executable(shop_test price_test.cc)
target_link_libraries(shop_test shop)
add_test(NAME shop_test COMMAND shop_test)
add_executable(other_test other_test.cc)
add_test(NAME other_test COMMAND other_test)
"""
PRICE = """#include "shop/price.h"
int Price(int pieces) {
  int price = 0;
  for (int i = 0; i < pieces; ++i) price += 3;
  return pieces > 9 ? price - 2 : price;
}
void Reset(int* price) { *price = 0; }
int Twice(int price) { return price + price; }
"""
PRICE_TEST = """#include "shop/price.h"
int main() {
  int price = 7;
  Reset(&price);
  return Price(1) == 3 && Price(20) == 58 && price == 0 ? 0 : 1;
}
"""


def names(code):
    return [mutant.name for mutant in mutate.Source("a.cc", code).mutants()]


class Mutants(unittest.TestCase):
    def test_comparisons_arithmetic_and_logic_are_swapped(self):
        self.assertEqual(names("bool a = b < c && d != e;"), ["< -> <=", "&& -> ||", "!= -> =="])
        self.assertEqual(names("a = b + c * d;"), ["+ -> -", "* -> /"])
        self.assertEqual(names("a -= b;"), ["-= -> +="])

    def test_templates_pointers_references_and_signs_are_left_alone(self):
        self.assertEqual(names("std::vector<int>* a(const T& b, T&& c);"), [])
        self.assertEqual(names("template <class T, int kSize = 3> class A;"), [])
        self.assertEqual(names("std::array<std::array<int, 3>, 4> a = -b;"), [])
        self.assertEqual(names("bool operator<(const A& a) const = default;"), [])
        self.assertEqual(names("virtual int A() const = 0;"), [])

    def test_constants_change_by_one_or_a_fifth(self):
        self.assertEqual(names("a(0, 7u, 1'000, 0.5, 1e-6, 5.f, 0.0);"),
                         ["0 -> 1", "7u -> 8u", "1'000 -> 1200", "0.5 -> 0.6", "1e-6 -> 1.2e-06", "5.f -> 6.0f", "0.0 -> 1.0"])
        self.assertEqual(names("a(0xff, 0b1, 017, 10ms);"), [])

    def test_comments_strings_directives_asserts_and_attributes_are_left_alone(self):
        self.assertEqual(names('// a < b\n/* 1 */ f("1 < 2", \'3\', R"(4 + 5)");\n#if A < 3\n#define B \\\n  4\n#endif\n'), [])
        self.assertEqual(names("static_assert(sizeof(A) == 8);\nassert(a < 3);\n[[gnu::format(printf, 2, 3)]] int a;"), [])
        self.assertEqual(names("if (__builtin_expect(a, 1)) b();"), ["condition negated"])

    def test_statements_are_dropped_and_conditions_negated(self):
        self.assertEqual(names("int A() { return b; }"), ["return dropped"])
        self.assertEqual(names("bool A() { return false; }"), ["false -> true"])
        self.assertEqual(names("for (;;) { continue; }"), ["continue -> break"])
        self.assertEqual(names("if (const int a = b(); a) c();"), ["condition negated"])
        self.assertEqual(names("if (const int a = b()) c();"), [])
        self.assertEqual(names("void A::B(int c) const noexcept override { d(c); }\nvoid E();\nvoid F() {}"), ["body deleted"])
        self.assertEqual(names("void* a = b(); void (*c)(int) = d;"), [])
        self.assertEqual(names("return std::max(a, b);"), ["return dropped", "max -> min"])

    def test_a_change_leaves_the_rest_of_the_file_as_it_is(self):
        code = "int A() {\n  if (a; b < 2) return c;\n  return d;\n}\n"
        for mutant in mutate.Source("a.cc", code).mutants():
            self.assertEqual(code[:mutant.begin] + code[mutant.begin:mutant.end] + code[mutant.end:], code)
        negated = next(mutant for mutant in mutate.Source("a.cc", code).mutants() if mutant.name == "condition negated")
        self.assertEqual(code[:negated.begin] + negated.text + code[negated.end:],
                         "int A() {\n  if (a; !(b < 2)) return c;\n  return d;\n}\n")

    def test_the_second_of_a_name_on_a_line_has_a_number(self):
        self.assertEqual(names("a(b < c, d < e);\nf(b < c);"), ["< -> <=", "< -> <= #2", "< -> <="])

    def test_survivors_are_shown_as_a_diff(self):
        code = "int A() {\n  return b +\n         c;\n}\n"
        dropped, plus = mutate.Source("a.cc", code).mutants()
        self.assertEqual(mutate.difference(plus, code), ["    -   return b +", "    +   return b -"])
        self.assertEqual(mutate.difference(dropped, code), ["    -   return b +", "    -          c;", "    +   return {};"])


class Project(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = cls.folder.name
        cls.write("CMakeLists.txt", CMAKE)
        cls.write("test/shop/CMakeLists.txt", CMAKE_OF_TESTS)
        cls.write("lib/shop/price.h", "int Price(int pieces);\nvoid Reset(int* price);\nint Twice(int price);\n")
        cls.write("lib/shop/price.cc", PRICE)
        cls.write("lib/shop/unused.cc", "int Unused() { return 1 * 1; }\n")
        cls.write("lib/lonely/lonely.cc", "int Lonely() { return 1; }\n")
        cls.write("test/shop/price_test.cc", PRICE_TEST)
        cls.write("test/shop/other_test.cc", "int main() {}\n")
        cls.write(".gitignore", "/build/\n")
        for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a"]):
            subprocess.run(["git", "-C", cls.root, *command], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def write(cls, path, text):
        path = os.path.join(cls.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def run_tool(self, *arguments):
        done = subprocess.run([sys.executable, TOOL, "--root", self.root, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def text(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def test_kills_what_tests_hold_and_shows_what_survives(self):
        status, output = self.run_tool("--files", "lib/shop/price.cc:5-7")
        self.assertEqual(status, 1, output)
        for killed in ("lib/shop/price.cc:5  - -> +  (shop_test failed)", "lib/shop/price.cc:5  return dropped",
                       "lib/shop/price.cc:5  2 -> 3", "lib/shop/price.cc:7  body deleted", "lib/shop/price.cc:7  0 -> 1"):
            self.assertIn("killed           " + killed, output)
        for survived in ("lib/shop/price.cc:5  > -> >=", "lib/shop/price.cc:5  9 -> 10"):
            self.assertIn("survived         " + survived, output)
        self.assertIn("    -   return pieces > 9 ? price - 2 : price;\n    +   return pieces >= 9 ? price - 2 : price;\n", output)
        self.assertTrue(output.endswith("7 mutants: 5 killed, 2 survived, 0 did not compile, 0 equivalent\n"), output)
        self.assertEqual(self.text("lib/shop/price.cc"), PRICE)
        self.assertEqual(self.text("build/mutate/tree/lib/shop/price.cc"), PRICE)

    def test_a_mutant_that_hangs_is_killed(self):
        self.write("lib/shop/price.cc", PRICE.replace("i < pieces; ++i", "i < pieces; i += 1"))
        status, output = self.run_tool("--files", "lib/shop/price.cc:4", "--timeout", "2")
        self.write("lib/shop/price.cc", PRICE)
        self.assertEqual(status, 0, output)
        self.assertIn("+= -> -=  (shop_test timed out)", output)

    def test_mutants_that_change_nothing_are_not_counted(self):
        self.write("tools/mutate_equivalent.txt",
                   "# known\n\nfile: lib/shop/price.cc\nline: return pieces > 9 ? price - 2 : price;\n"
                   "mutation: > -> >=\nwhy: nobody buys nine,\n  not even here\n")
        status, output = self.run_tool("--files", "lib/shop/price.cc:5", "lib/shop/unused.cc")
        os.remove(os.path.join(self.root, "tools/mutate_equivalent.txt"))
        self.assertEqual(status, 1, output)
        self.assertIn("equivalent       lib/shop/price.cc:5  > -> >=  (nobody buys nine, not even here)", output)
        self.assertIn("equivalent       lib/shop/unused.cc:1  * -> /  (the same machine code)", output)
        self.assertIn("survived         lib/shop/unused.cc:1  1 -> 2", output)

    def test_a_block_whose_line_has_changed_is_named(self):
        block = "file: lib/shop/price.cc\nline: return pieces > 8 ? price - 2 : price;\nmutation: > -> >=\nwhy: a\n"
        self.write("tools/mutate_equivalent.txt", block + "\n" + block.replace("> 8", "> 9").replace("why: a", "why: b"))
        status, output = self.run_tool("--files", "lib/shop", "--list")
        os.remove(os.path.join(self.root, "tools/mutate_equivalent.txt"))
        self.assertEqual(status, 0, output)
        self.assertIn("matches no mutant, remove it: lib/shop/price.cc, > -> >=: return pieces > 8", output)
        self.assertNotIn("remove it: lib/shop/price.cc, > -> >=: return pieces > 9", output)

    def test_mutants_that_do_not_compile_are_counted_apart(self):
        self.write("lib/shop/price.cc", PRICE + "int& Same(int& a) { return a; }\n")
        status, output = self.run_tool("--files", "lib/shop/price.cc:9")
        self.write("lib/shop/price.cc", PRICE)
        self.assertEqual(status, 0, output)
        self.assertIn("1 mutants: 0 killed, 0 survived, 1 did not compile, 0 equivalent\n", output)

    def test_mutates_changed_lines_of_the_working_tree(self):
        self.write("lib/shop/price.cc", PRICE.replace("price + price", "2 * price"))
        self.write("lib/shop/new.cc", "int New() { return 1 + 2; }\n")
        status, output = self.run_tool("--base", "HEAD", "--list")
        os.remove(os.path.join(self.root, "lib/shop/new.cc"))
        self.write("lib/shop/price.cc", PRICE)
        self.assertEqual(status, 0, output)
        self.assertEqual(output, "lib/shop/new.cc:1  return dropped\nlib/shop/new.cc:1  1 -> 2\nlib/shop/new.cc:1  + -> -\n"
                         "lib/shop/new.cc:1  2 -> 3\nlib/shop/price.cc:8  return dropped\nlib/shop/price.cc:8  2 -> 3\n"
                         "lib/shop/price.cc:8  * -> /\n7 mutants are possible\n")

    def test_a_draw_depends_on_its_seed_alone(self):
        one, same, other = (self.run_tool("--files", "lib/shop", "--list", "--count", "5", "--seed", seed)[1]
                            for seed in ("1", "1", "2"))
        self.assertEqual(one, same)
        self.assertNotEqual(one, other)
        self.assertEqual(len(one.strip().split("\n")), 6)

    def test_a_draw_goes_on_until_enough_were_judged(self):
        status, output = self.run_tool("--files", "lib/shop", "--count", "3", "--seed", "5")
        self.assertIn(status, (0, 1), output)
        counts = [int(word) for word in output.strip().split("\n")[-1].replace(",", "").split() if word.isdigit()]
        self.assertEqual(counts[1] + counts[2], 3, output)

    def test_a_file_without_tests_is_named(self):
        status, output = self.run_tool("--files", "lib/lonely")
        self.assertEqual(status, 0, output)
        self.assertIn("lib/lonely/lonely.cc: left out, no test program is in test/ for its folder", output)

    def test_refuses_what_it_cannot_judge(self):
        self.write("test/shop/other_test.cc", "int main() { return 1; }\n")
        status, output = self.run_tool("--files", "lib/shop/price.cc:7")
        self.assertEqual(status, 2, output)
        self.assertIn("other_test fails without any change (failed)", output)
        self.assertEqual(self.run_tool("--files", "lib/shop/price.cc:7", "--tests", "shop_.*")[0], 0)
        self.write("test/shop/other_test.cc", "int main() {}\n")
        self.assertEqual(self.run_tool("--files", "lib/none")[0], 2)
        self.assertEqual(self.run_tool("--base", "no-such-commit")[0], 2)
        self.write("tools/mutate_equivalent.txt", "file: lib/shop/price.cc\nline: a\nmutation: b\n")
        status, output = self.run_tool("--files", "lib/shop", "--list")
        os.remove(os.path.join(self.root, "tools/mutate_equivalent.txt"))
        self.assertEqual(status, 2, output)
        self.assertIn("a block needs file, line, mutation and why", output)

    def test_the_likeliest_cases_of_a_catch_program_run_first(self):
        options = argparse.Namespace(jobs=1, cmake=[], timeout=None, tests=".*")
        shop = mutate.Workshop(self.root, os.path.join(self.root, "build", "pieces"), options)
        pieces = {"test/a/clock_test.cc": 'TEST_CASE("one")', "test/a/price_test.cc": 'TEST_CASE("two")',
                  "test/a/z_test.cc": 'TEST_CASE("the price of three")'}
        test = mutate.Test("a_test", "a_test", "bin/a_test", ["bin/a_test"], ".", {}, None, pieces)
        self.assertEqual([name for name, _ in shop.runs_of(test, "lib/a/price.cc")],
                         ["test/a/price_test.cc", "test/a/z_test.cc", "a_test"])
        shop.kills["lib/a/price.cc", "test/a/clock_test.cc"] = 2
        self.assertEqual(list(shop.runs_of(test, "lib/a/price.cc"))[0],
                         ("test/a/clock_test.cc", ["bin/a_test", "--abort", "--filenames-as-tags", "[#clock_test]"]))
        shop.lock.close()


if __name__ == "__main__":
    for program in ("cmake", "ninja", "git"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed; run: tools/install_packages check")
    unittest.main()
