#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The image server end to end, with a narrow network: under load, asked for an incident, and stopped.

usage: image_server_test.py IMAGE_SERVER LOAD_GENERATOR
"""

import http.client
import json
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SERVER, LOAD = None, None  # from the command line


class ImageServer(unittest.TestCase):
    def test_it_serves_load_writes_an_incident_when_asked_and_stops(self):
        with tempfile.TemporaryDirectory() as name, open(Path(name) / 'server.txt', 'w', encoding='utf-8') as out:
            folder = Path(name)
            process = subprocess.Popen([SERVER, '--port', '0', '--port-file', str(folder / 'port'), '--incident-dir',
                                        str(folder / 'incidents'), '--no-triggers', '--allow-incidentz', '--width', '8',
                                        '--resolution', '64', '--device', 'cpu'], stdout=out, stderr=subprocess.STDOUT)
            try:
                deadline = time.monotonic() + 60
                while not (folder / 'port').exists():
                    self.assertTrue(process.poll() is None and time.monotonic() < deadline, 'the server did not start')
                    time.sleep(0.05)
                port = (folder / 'port').read_text(encoding='utf-8').strip()
                subprocess.run([LOAD, '--port', port, '--closed', '--concurrency', '2', '--warm-up', '0', '--duration', '1',
                                '--image-size', '64', '--json', str(folder / 'load.json')], check=True, stdout=subprocess.DEVNULL)
                connection = http.client.HTTPConnection('127.0.0.1', int(port), timeout=120)
                connection.request('POST', '/incidentz')
                self.assertEqual(connection.getresponse().status, 200)
                connection.close()
            finally:
                process.send_signal(signal.SIGTERM)
                status = process.wait(30)
            self.assertEqual(status, 0, (folder / 'server.txt').read_text(encoding='utf-8'))
            load = json.loads((folder / 'load.json').read_text(encoding='utf-8'))
            self.assertEqual(load['requests']['ok'], load['requests']['sent'])
            self.assertGreater(load['requests']['ok'], 0)
            reports = list((folder / 'incidents').glob('*/report.txt'))
            self.assertEqual(len(reports), 1)
            self.assertIn('/classify', reports[0].read_text(encoding='utf-8'))

    def test_faults_are_not_an_option(self):
        run = subprocess.run([SERVER, '--fault', 'lock_held'], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 2)


if __name__ == '__main__':
    LOAD = sys.argv.pop()
    SERVER = sys.argv.pop()
    unittest.main()
