#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests screenshots of Perfetto's interface with a hand-written trace."""

import contextlib
import io
import struct
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import perfetto_screenshot  # noqa: E402  pylint: disable=wrong-import-position
from test_perfetto_query import encode, small_trace  # noqa: E402  pylint: disable=wrong-import-position


class Screenshot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = Path(folder.name, 'trace.pftrace')
        self.trace.write_bytes(b''.join(small_trace()))
        self.out = Path(folder.name, 'out.png')

    def run_main(self, *args):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            status = perfetto_screenshot.main([str(self.trace), str(self.out), *args])
        return status, said.getvalue()

    def test_a_picture_of_the_requested_size(self):
        self.assertEqual(self.run_main('--width', '640', '--height', '480', '--from-ns', '900', '--to-ns', '2100',
                                       '--select', "name = 'inner'", '--pin', 'worker'), (0, ''))
        png = self.out.read_bytes()
        self.assertEqual((png[:8], struct.unpack('>II', png[16:24])), (b'\x89PNG\r\n\x1a\n', (640, 480)))
        self.assertGreater(len(png), 10000)  # An empty page of this size has 2 KB.

    def test_a_broken_trace_is_status_1_and_no_picture(self):
        self.trace.write_bytes(encode([(1, b'\xff' * 20)]))
        status, said = self.run_main()
        self.assertEqual(status, 1)
        self.assertIn('Failed to parse proto packet', said)
        self.assertFalse(self.out.exists())


if __name__ == '__main__':
    unittest.main()
