#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants hard prose, and checks that tools/prose.py finds it."""

import os
import subprocess
import sys
import tempfile
import unittest

CHECKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prose.py")
EASY = "The ring keeps the newest events. A reader walks back from the head. " * 10
LONGER = ("The ring keeps the newest events of its thread and drops the oldest of them at once, "
          "because a spike is explained by the events before it. ") * 10
HARD = ("Of those that were read the one that was what was held against what it was that is that which was said, and which of "
        "the others that came later it was that had what the first one that was there had not had is not known. ") * 4


class Prose(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory()
        subprocess.run(["git", "init", "-q", self.root.name], check=True)
        self.write("docs/a.md", EASY)
        self.write("lib/trace/ring.cc", self.code("// " + EASY))
        self.status, self.output = self.run_tool("--lower")

    def tearDown(self):
        self.root.cleanup()

    @staticmethod
    def code(comment):
        return comment + "\nint a;\nint b;\n"

    def write(self, path, text):
        path = os.path.join(self.root.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def ceilings(self):
        with open(os.path.join(self.root.name, "ceilings.txt"), encoding="utf-8") as file:
            return file.read()

    def run_tool(self, *arguments):
        done = subprocess.run([sys.executable, CHECKER, "--root", self.root.name, "--ceilings",
                               os.path.join(self.root.name, "ceilings.txt"), *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def refused(self, *said):
        status, output = self.run_tool()
        self.assertEqual(status, 1, output)
        for words in said:
            self.assertIn(words, output)

    def test_accepts_prose_at_its_ceiling(self):
        self.assertEqual(self.run_tool()[0], 0)

    def test_refuses_a_sentence_that_begins_with_a_fragment(self):
        self.write("docs/a.md", EASY + "Of ten requests, one was slow.")
        self.refused("docs/a.md: begins with a fragment: Of ten requests, one was slow.")

    def test_accepts_a_question_that_begins_with_who(self):
        self.write("docs/a.md", EASY + "Who holds the lock?")
        self.assertEqual(self.run_tool()[0], 0)

    def test_refuses_a_document_with_more_relatives(self):
        self.write("docs/a.md", HARD)
        self.refused("docs/a.md:", "relatives per 100 words, ceiling 2.0", "of sentences over 30 words")

    def test_refuses_comments_with_more_relatives(self):
        self.write("lib/trace/ring.cc", self.code("// " + HARD))
        self.refused("comments of lib/trace:", "relatives per 100 words")

    def test_refuses_messages_with_longer_sentences(self):
        self.write("lib/trace/message.cc", "const char* k = \"" + EASY.strip() + "\";\n")
        self.run_tool("--lower")
        self.write("lib/trace/message.cc", "const char* k = \"" + LONGER.strip() + "\";\n")
        self.refused("messages of lib/trace:", "words a sentence")

    def test_refuses_comments_deleted_to_meet_a_ceiling(self):
        comments = "\n".join(["// " + EASY] * 10)
        self.write("lib/trace/ring.cc", self.code(comments))
        os.remove(os.path.join(self.root.name, "ceilings.txt"))
        self.run_tool("--lower")
        self.write("lib/trace/ring.cc", self.code("\n".join(["// " + EASY] * 7)))
        self.refused("comment lines per 100 lines of code, floor 400.0")

    def test_prose_at_the_goal_may_vary(self):
        self.write("docs/a.md", EASY + "A reader that lost the CPU looks again. ")
        self.assertEqual(self.run_tool()[0], 0)

    def test_a_ceiling_only_goes_down(self):
        before = self.ceilings()
        self.write("docs/a.md", HARD)
        self.run_tool("--lower")
        self.assertEqual(self.ceilings(), before)
        os.remove(os.path.join(self.root.name, "ceilings.txt"))
        self.run_tool("--lower")
        self.write("docs/a.md", EASY)
        self.run_tool("--lower")
        self.assertEqual(self.ceilings(), before)

    def test_refuses_a_group_without_a_ceiling(self):
        self.write("docs/b.md", EASY)
        self.refused("docs/b.md: no ceiling")

    def test_code_tables_and_headings_are_not_prose(self):
        table = "| " + HARD + " |\n|---|\n\n# " + HARD + "\n\n```\n" + HARD + "\n```\n"
        self.write("docs/a.md", table + EASY)
        self.assertEqual(self.run_tool()[0], 0)


if __name__ == "__main__":
    unittest.main()
