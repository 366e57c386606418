#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the server in C and reads its incident. Environment: PITOT_PROGRAM, PITOT_C_SERVER"""

import os
import subprocess
import tempfile
import unittest

import incident


class Server(unittest.TestCase):
    def test_a_slow_request_of_a_server_in_c_leaves_an_incident(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([os.environ["PITOT_C_SERVER"], folder], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual([os.path.join(folder, name) for name in os.listdir(folder) if name[0] != "."],
                             done.stdout.splitlines())
            incident.check_served(self, done.stdout.splitlines()[0], "server in C")


if __name__ == "__main__":
    unittest.main()
