#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/doxygen_filter.py."""

import glob
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from doxygen_filter import filtered  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOP = "// SPDX-License-Identifier: Apache-2.0\n//\n// What the header is.\n#ifndef X_H_\n"


def shown(text):
    """The filter's output for a header's text, without its beginning."""
    return filtered(TOP + text).split("\n", 4)[4]


class TheFilter(unittest.TestCase):
    def test_the_beginning_becomes_the_files_description(self):
        self.assertEqual(filtered(TOP), "/// @file\n/// What the header is.\n\n#ifndef X_H_\n")

    def test_a_comment_directly_above_a_declaration_becomes_its_description(self):
        self.assertEqual(shown("// Does it.\nvoid Do();\n"), "/// Does it.\nvoid Do();\n")

    def test_a_comment_above_a_macro_is_its_description_also_where_the_macro_is_conditional(self):
        for text in ("#define DO() 1\n", "#ifndef OFF\n#define DO() 1\n"):
            self.assertEqual(shown("// Does it.\n" + text), "/// Does it.\n" + text)

    def test_a_comment_after_the_namespace_macro_is_a_description(self):
        before = "PITOT_NAMESPACE_BEGIN\n\n"
        self.assertEqual(shown(before + "// It.\nint a();\n"), before + "/// It.\nint a();\n")

    def test_other_comments_stay(self):
        for text in ("// A section.\n\nvoid Do();\n", "// For this.\n#include <x>\n", "// Ends.\n}\n",
                     "// clang-format off\nint a;\n", "}  // namespace pitot\n"):
            self.assertEqual(shown(text), text)

    def test_comments_inside_of_functions_stay(self):
        text = "inline int Do() {\n  // Why.\n  int a = 1;  // one\n  return a;\n}\n"
        self.assertEqual(shown(text), text)

    def test_a_comment_behind_a_member_describes_it_with_its_next_lines(self):
        self.assertEqual(shown("struct S {\n  int a = 0;  // first\n              // and more\n  int b;\n};\n"),
                         "struct S {\n  int a = 0;  ///< first\n              ///< and more\n  int b;\n};\n")

    def test_a_comment_behind_the_last_enumerator_describes_it(self):
        self.assertEqual(shown("enum class E : int {\n  kA,  // a\n  kB  // b\n};\n"),
                         "enum class E : int {\n  kA,  ///< a\n  kB  ///< b\n};\n")

    def test_doxygens_characters_are_escaped_outside_of_code(self):
        self.assertEqual(shown("// A <b> & 5 % of #1, `a<b>`.\nint a;\n"),
                         "/// A \\<b\\> \\& 5 \\% of \\#1, `a<b>`.\nint a;\n")

    def test_indented_lines_after_an_empty_one_are_code_and_lists_are_not(self):
        self.assertEqual(shown("// So:\n//\n//   Do(a & b);\n//\n// Then.\nint a;\n"),
                         "/// So:\n/// @code{.cpp}\n///   Do(a & b);\n/// @endcode\n/// Then.\nint a;\n")
        self.assertEqual(shown("// So:\n//\n//  * one\n//    and more\nint a;\n"),
                         "/// So:\n///\n///  * one\n///    and more\nint a;\n")

    def test_a_text_that_looks_like_a_comment_is_none(self):
        text = 'inline constexpr char kUrl[] = "https://ui.perfetto.dev";\n'
        self.assertEqual(shown(text), text)

    def test_every_public_header_keeps_its_lines(self):
        headers = glob.glob(os.path.join(ROOT, "include/pitot/**/*.h"), recursive=True)
        headers.append(os.path.join(ROOT, "bindings/c/include/pitot/c.h"))
        self.assertGreater(len(headers), 50)
        for header in headers:
            with open(header, encoding="utf-8") as file:
                text = file.read()
            self.assertEqual(filtered(text).count("\n"), text.count("\n"), header)
            self.assertTrue(filtered(text).startswith("/// @file\n"), header)


if __name__ == "__main__":
    unittest.main()
