#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fault memory_leak of the faulty image server, which needs LibTorch.

usage: leak_test.py FAULTY_IMAGE_SERVER LOAD_GENERATOR
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SERVER, LOAD = None, None  # from the command line
MIB = 1 << 20
LEAKED_MIB = 8  # a batch


class MemoryLeak(unittest.TestCase):
    def resident_bytes(self, process):
        status = Path(f'/proc/{process.pid}/status').read_text(encoding='utf-8')
        return 1024 * int(re.search(r'VmRSS:\s+(\d+) kB', status).group(1))

    def load(self, port):
        subprocess.run([LOAD, '--port', port, '--closed', '--concurrency', '1', '--warm-up', '0', '--duration', '1', '--image-size', '64'],
                       check=True, stdout=subprocess.DEVNULL)

    def test_it_leaks_what_its_log_says(self):
        with tempfile.TemporaryDirectory() as name, open(Path(name) / 'server.txt', 'w', encoding='utf-8') as out:
            folder = Path(name)
            process = subprocess.Popen([SERVER, '--port', '0', '--port-file', str(folder / 'port'), '--incident-dir', str(folder / 'incidents'),
                                        '--no-triggers', '--width', '8', '--resolution', '64', '--device', 'cpu', '--fault-log',
                                        str(folder / 'faults.jsonl'), '--fault', f'memory_leak:rate=0.2,dose_mib={LEAKED_MIB}'],
                                       stdout=out, stderr=subprocess.STDOUT)
            try:
                deadline = time.monotonic() + 60
                while not (folder / 'port').exists():
                    self.assertTrue(process.poll() is None and time.monotonic() < deadline, 'the server did not start')
                    time.sleep(0.05)
                before = self.resident_bytes(process)
                self.load((folder / 'port').read_text(encoding='utf-8').strip())
                grown = self.resident_bytes(process) - before
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(30)
            lines = [json.loads(text) for text in (folder / 'faults.jsonl').read_text(encoding='utf-8').splitlines()]
            leaks = [line for line in lines if line['fault'] == 'memory_leak']
            totals = sorted({line['leaked_bytes'] for line in leaks})
            self.assertGreater(len(totals), 0)
            self.assertEqual(totals, [LEAKED_MIB * MIB * (i + 1) for i in range(len(totals))])
            self.assertLessEqual(totals[-1], 1 << 30)
            self.assertGreater(grown, 0.9 * totals[-1])


if __name__ == '__main__':
    SERVER, LOAD = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
