#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The load generator's command line.

usage: load_generator_test.py LOAD_GENERATOR
"""

import subprocess
import sys
import unittest

LOAD = None  # from the command line


class CommandLine(unittest.TestCase):
    def refused(self, *options):
        run = subprocess.run([LOAD, *options], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 2)
        return run.stderr

    def test_numbers_that_must_be_above_zero_are_refused_in_a_line(self):
        for option in ('--duration', '--rate', '--burst-every'):
            for value in ('0', '-3', 'x'):
                self.assertIn(f'{option}: {value} is not above 0', self.refused('--port', '1', option, value))

    def test_numbers_out_of_range_are_refused_with_the_range(self):
        self.assertIn('--port: 70000 is not 1 to 65535', self.refused('--port', '70000'))

    def test_a_port_is_required(self):
        self.assertIn('--port is required', self.refused())

    def test_another_machine_is_refused(self):
        self.assertIn('--host: 192.0.2.1 is not a loopback address', self.refused('--port', '1', '--host', '192.0.2.1'))


if __name__ == '__main__':
    LOAD = sys.argv.pop()
    unittest.main()
