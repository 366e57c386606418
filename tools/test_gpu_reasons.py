#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the code contains every reason quoted from incidents in docs/guide/kernels.md."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAD = '| what it says | what to do |\n'


def reasons() -> 'list[str]':
    """The phrases of the table, without the names of CUPTI that the code inserts."""
    page = (ROOT / 'docs/guide/kernels.md').read_text(encoding='utf-8')
    rows = page[page.index(HEAD) + len(HEAD):].split('\n\n', 1)[0].splitlines()[1:]
    phrases = re.findall(r'`([^`]+)`', ' '.join(row.split('|')[1] for row in rows))
    parts = [part.strip() for phrase in phrases for part in re.sub(r'\w*CUPTI_ERROR_\w+|cupti\w+ ', '...', phrase).split('...')]
    return [part for part in parts if part and not part.isupper()]


class GpuReasons(unittest.TestCase):
    def test_each_reason_of_the_table_is_in_the_code(self) -> None:
        files = [*(ROOT / 'lib/collect/cupti').iterdir(), *(ROOT / 'lib/serialize').glob('*.cc'),
                 ROOT / 'lib/assemble/gpu.cc', ROOT / 'lib/base/memory_option.h']
        # Literals over several lines are joined.
        code = re.sub(r'"\s*\n\s*"', '', ''.join(file.read_text(encoding='utf-8') for file in files))

        found = reasons()

        self.assertGreater(len(found), 25)
        self.assertEqual([reason for reason in found if reason not in code], [])


if __name__ == '__main__':
    unittest.main()
