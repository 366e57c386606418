#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants violations, and checks that tools/check_layers.py finds them."""

import os
import subprocess
import sys
import tempfile
import unittest

CHECKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_layers.py")
RULES = """
@protobuf = google/protobuf/ *.pb.h
pitot/trace:
pitot/extend: pitot/trace
lib/trace: pitot/trace !<filesystem>
lib/read: pitot/extend lib/trace @protobuf
lib/read/deep: lib/read
"""


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory()
        self.write("include/pitot/trace.h", "#include <stdint.h>\n")
        self.write("include/pitot/extend/foo.h", '#include "pitot/trace.h"\n')
        self.write("lib/trace/own.h", '#include <sys/mman.h>\n#include <atomic>\n')
        self.write("lib/trace/a.cc", '#include "trace/own.h"\n#include "pitot/trace.h"\n')
        self.write("lib/read/deep/d.cc", '#include "read/r0.h"\n')
        self.write("lib/read/r0.h", "")
        self.write("lib/read/r.cc", '#include "dump.pb.h"\n#include <google/protobuf/message.h>\n#include "trace/own.h"\n')

    def tearDown(self):
        self.root.cleanup()

    def write(self, path, text):
        path = os.path.join(self.root.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def check(self, rules=RULES):
        self.write("layers.txt", rules)
        done = subprocess.run([sys.executable, CHECKER, "--root", self.root.name, "--rules",
                               os.path.join(self.root.name, "layers.txt")], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def refused(self, path, text, *said):
        self.write(path, text)
        status, output = self.check()
        self.assertEqual(status, 1, output)
        for words in said:
            self.assertIn(words, output)

    def test_accepts_includes_allowed_by_the_table(self):
        status, output = self.check()
        self.assertEqual((status, output), (0, "ok: 7 files, 5 layers\n"))

    def test_refuses_a_room_that_defines_in_another(self):
        rules = RULES + "lib/analyze/blame:\nlib/analyze/verdict:\n"
        self.write("lib/analyze/blame/a.h", "namespace pitot::blame {\n}\n")
        self.write("lib/analyze/verdict/b.cc", "namespace pitot::verdict {\n}\nnamespace pitot::model {\n}\n")
        self.assertEqual(self.check(rules)[0], 0)
        self.write("lib/analyze/verdict/b.cc", "namespace pitot::blame {\n}\n")
        status, output = self.check(rules)
        self.assertEqual(status, 1)
        self.assertIn("lib/analyze/verdict/b.cc:1: it opens the namespace of lib/analyze/blame", output)

    def test_refuses_an_upward_include(self):
        self.refused("lib/trace/b.cc", '\n#include "pitot/extend/foo.h"\n', "lib/trace/b.cc:2:", "of layer pitot/extend")

    def test_refuses_an_upward_include_by_the_path_from_the_same_folder(self):
        self.write("lib/read/r.h", "")
        self.refused("lib/trace/b.cc", '#include "../read/r.h"\n', "of layer lib/read")

    def test_refuses_a_third_party_not_allowed_for_the_layer(self):
        self.refused("lib/trace/b.cc", "#include <google/protobuf/any.h>\n", "is @protobuf")
        self.refused("lib/trace/b.cc", '#include "proto/dump.pb.h"\n', "is @protobuf")

    def test_refuses_a_third_party_outside_the_table(self):
        self.refused("lib/trace/b.cc", "#include <boost/any.hpp>\n", "neither ours, nor std")
        self.refused("lib/trace/b.cc", "#include <curl.h>\n", "neither ours, nor std")

    def test_refuses_a_std_header_forbidden_for_the_layer(self):
        self.refused("lib/trace/b.cc", "#include <filesystem>\n", "<filesystem> is refused here")

    def test_refuses_a_file_without_a_layer(self):
        self.refused("lib/unknown/b.cc", "\n", "belongs to no layer")

    def test_refuses_a_layer_without_files(self):
        status, output = self.check(RULES + "lib/gone: lib/trace\n")
        self.assertEqual(status, 1, output)
        self.assertIn("no file belongs to layer lib/gone", output)

    def test_a_folder_inside_a_layer_may_have_rules_of_its_own(self):
        self.refused("lib/read/deep/b.cc", '#include "trace/own.h"\n', "of layer lib/trace; lib/read/deep may include")

    def test_refuses_rules_with_a_cycle(self):
        status, output = self.check(RULES.replace("pitot/trace:", "pitot/trace: pitot/extend"))
        self.assertEqual(status, 2)
        self.assertIn("a cycle: pitot/trace -> pitot/extend -> pitot/trace", output)

    def test_refuses_rules_that_name_an_unknown_layer(self):
        status, output = self.check(RULES + "lib/x: lib/y\n")
        self.assertEqual(status, 2)
        self.assertIn("lib/y, but lib/y is not in the table", output)


if __name__ == "__main__":
    unittest.main()
