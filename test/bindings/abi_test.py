#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants changes in the header, and checks that abi.py finds them: abi_test.py LIBRARY HEADER C_COMPILER GOLDEN"""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY, HEADER, COMPILER, GOLDEN = sys.argv[1:5]


def check(header):
    """abi.py's status and output; it must not approve the planted change."""
    environment = {name: value for name, value in os.environ.items() if name != "PITOT_APPROVE"}
    done = subprocess.run([sys.executable, os.path.join(HERE, "abi.py"), LIBRARY, header, COMPILER, GOLDEN], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


class Planted(unittest.TestCase):
    def check_with(self, old, new):
        with open(HEADER, encoding="utf-8") as file:
            text = file.read()
        self.assertIn(old, text)
        with tempfile.TemporaryDirectory() as folder:
            header = os.path.join(folder, "c.h")
            with open(header, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new, 1))
            return check(header)

    def assert_finds(self, gone, come, old, new):
        status, output = self.check_with(old, new)
        self.assertEqual(status, 1, output)
        self.assertIn(f"approved, but gone or changed: {gone}\n", output)
        self.assertIn(f"new, but not approved (tools/approve bindings): {come}\n", output)

    def test_the_header_as_it_is(self):
        self.assertEqual(check(HEADER)[0], 0)

    def test_another_parameter(self):
        self.assert_finds("function void pitot_counter(pitot_name, double)", "function void pitot_counter(pitot_name, float)",
                          "pitot_counter(pitot_name name, double value)", "pitot_counter(pitot_name name, float value)")

    def test_one_parameter_more(self):
        self.assert_finds("function void pitot_scope_end(void)", "function void pitot_scope_end(pitot_name)",
                          "pitot_scope_end(void)", "pitot_scope_end(pitot_name name)")

    def test_a_parameter_that_is_no_longer_const(self):
        self.assert_finds("function void pitot_token_emit(const pitot_token*, uint32_t)",
                          "function void pitot_token_emit(pitot_token*, uint32_t)",
                          "pitot_token_emit(const pitot_token*", "pitot_token_emit(pitot_token*")

    def test_another_result(self):
        self.assert_finds("function uint64_t pitot_now(void)", "function int64_t pitot_now(void)",
                          "uint64_t pitot_now(void)", "int64_t pitot_now(void)")

    def test_another_callback(self):
        self.assert_finds("typedef int32_t(*pitot_predicate_function)(void*, const pitot_request_view*)",
                          "typedef uint64_t(*pitot_predicate_function)(void*, const pitot_request_view*)",
                          "typedef int32_t (*pitot_predicate_function)", "typedef uint64_t (*pitot_predicate_function)")

    def test_a_type_of_another_width(self):
        self.assert_finds("typedef uint32_t pitot_name", "typedef uint64_t pitot_name",
                          "typedef uint32_t pitot_name;", "typedef uint64_t pitot_name;")

    def test_another_type_of_a_field_of_the_same_size(self):
        self.assert_finds("field pitot_latency_trigger.above_ms 16 8 double", "field pitot_latency_trigger.above_ms 16 8 uint64_t",
                          "double above_ms;", "uint64_t above_ms;")

    def test_names_of_parameters_comments_and_white_space_are_not_part_of_the_abi(self):
        for old, new in (("pitot_counter(pitot_name name, double value)", "pitot_counter(pitot_name series, double y)"),
                         ("uint64_t pitot_now(void)", "uint64_t\n    pitot_now( /* nothing */ void )"),
                         ("char out[56]", "char  text[ 56 ]")):
            status, output = self.check_with(old, new)
            self.assertEqual(status, 0, output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
