#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/reference/formats/json.md has exactly the fields written by `pitot why`, `analyze` and `diff` with --json."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Each source names a field by a call, or as the first of a pair in braces.
WRITERS = {'pitot why': ('lib/analyze/verdict/verdict_json.cc', r'(?:Key|Name|Causes|Parts)\("(\w+)"'),
           'pitot analyze': ('lib/cli/analyze.cc', r'\{"(\w+)",\s|document\["(\w+)"\]'),
           'pitot diff': ('lib/cli/diff.cc', r'\{"(\w+)",\s')}
ELSEWHERE = {'pitot', 'hta', 'tracelens', 'tbplugin', 'compute'}  # pairs of a table of policies; a row's name


def written(path, pattern):
    """The names of fields in a source."""
    found = re.findall(pattern, (ROOT / path).read_text(encoding='utf-8'))
    return {name for one in found for name in (one if isinstance(one, tuple) else (one,)) if name} - ELSEWHERE


def section(text, command):
    """The text from the command's heading to the next one."""
    return text.partition(f'## `{command} --json`')[2].partition('\n## ')[0]


def listed(text):
    """The names in the first column of the tables."""
    rows = re.findall(r'^\| (`.*?) \|', text, re.M)
    return {name for row in rows for one in re.findall(r'`([\w.]+)`', row) for name in one.split('.')}


class Documented(unittest.TestCase):
    TEXT = (ROOT / 'docs/reference/formats/json.md').read_text(encoding='utf-8')

    def test_every_written_field_is_documented(self):
        for command, (path, pattern) in WRITERS.items():
            fields, named = written(path, pattern), set(re.findall(r'`([\w.]+)`', section(self.TEXT, command)))
            named = {part for one in named for part in one.split('.')}
            self.assertGreater(len(fields), 20, command)
            self.assertEqual(sorted(fields - named), [], command)

    def test_every_row_is_about_a_written_field(self):
        for command, (path, pattern) in WRITERS.items():
            self.assertEqual(sorted(listed(section(self.TEXT, command)) - written(path, pattern)), [], command)


if __name__ == '__main__':
    unittest.main()
