#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The decode server end to end, with a tiny model: requests together, and one that waits for the prompt of another.

usage: decode_server_test.py DECODE_SERVER PITOT
"""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

SERVER, PITOT = None, None  # from the command line
TINY = ['--layers', '2', '--width', '32', '--heads', '2', '--vocabulary', '128', '--device', 'cpu']
GAP_SLO_MS = 100
LONG_PROMPT = 3500  # takes this model several times as long, in one piece
NEVER_MS = 60000
PATIENCE_S = 30  # until an incident is there, on a busy machine


class Server:
    """A server process on a free port; stopped by its pid."""

    def __init__(self, folder, depth, *options):
        self.folder = folder
        port_file = folder / 'port'
        self.log = open(folder / 'server.log', 'w+', encoding='utf-8')
        self.process = subprocess.Popen(
            [SERVER, *TINY, '--port', '0', '--port-file', str(port_file), '--incident-dir', str(folder / 'incidents'),
             '--slo-ms', str(NEVER_MS), *options],
            stdout=self.log, stderr=subprocess.STDOUT,
            env={**os.environ, 'PITOT_DEPTH': depth})
        deadline = time.monotonic() + 60
        while not port_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError('the server did not start: ' + self.output())
            time.sleep(0.05)
        self.port = int(port_file.read_text())

    def output(self):
        return (self.folder / 'server.log').read_text(encoding='utf-8')

    def stop(self):
        """Its exit status; None if it had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.log.close()

    def post(self, path, body):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60)
        try:
            connection.request('POST', path, json.dumps(body))
            response = connection.getresponse()
            return response.status, response.getheader('x-request-id'), response.read().decode()
        finally:
            connection.close()

    def generate(self, **body):
        """Its tokens and the summary."""
        status, request, text = self.post('/generate', body)
        assert status == 200, text
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line['index'] for line in lines[:-1]] == list(range(len(lines) - 1)), text
        assert lines[-1]['id'] == request, text
        return [line['token'] for line in lines[:-1]], lines[-1]

    def begin(self, **body):
        """Sends a request; its tokens can be read as they come."""
        return Stream(self.port, body)

    def stats(self):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60)
        try:
            connection.request('GET', '/statsz')
            return json.loads(connection.getresponse().read())['recorder']
        finally:
            connection.close()

    def wait_until_idle(self):
        deadline = time.monotonic() + 30
        while self.stats()['requests_open'] != 0:
            assert time.monotonic() < deadline, self.stats()
            time.sleep(0.02)


class Stream:
    """The lines of one response, each as soon as it is there."""

    def __init__(self, port, body):
        self.connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
        self.connection.request('POST', '/generate', json.dumps(body))
        self.response = self.connection.getresponse()
        self.id = self.response.getheader('x-request-id')

    def line(self):
        return json.loads(self.response.readline())

    def rest(self):
        """All lines that are left."""
        lines = [json.loads(line) for line in self.response]
        self.connection.close()
        return lines


def wait_for(find, seconds):
    """What `find` returns as soon as it is true."""
    deadline = time.monotonic() + seconds
    while True:
        found = find()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


class WithServer(unittest.TestCase):
    OPTIONS = ()
    DEPTH = 'scopes'  # operators of so fast a model fill rings

    @classmethod
    def more_options(cls):
        return ['--allow-incidentz']

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        cls.server = Server(cls.folder, cls.DEPTH, *cls.more_options(), *cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        output = cls.server.output()
        cls.temporary.cleanup()
        assert status == 0, f'status {status}: {output}'
        assert 'stopping' in output, output

    def requests_of(self, incident):
        run = subprocess.run([PITOT, 'requests', str(incident / 'dump.pitot'), '--json', '--limit', '0'],
                             capture_output=True, text=True, timeout=60, check=True)
        return {request['id']: request for request in json.loads(run.stdout)['requests']}

    def incident_in_which_fired(self, request):
        fired = re.compile(rf'^ *\d+\) .* request {request}$', re.MULTILINE)
        for report in (self.folder / 'incidents').glob('[0-9]*/report.txt'):
            if fired.search(report.read_text(encoding='utf-8')):
                return report.parent
        return None


class DecodeServer(WithServer):
    OPTIONS = ('--context', '512', '--gap-slo-ms', str(NEVER_MS), '--ttft-slo-ms', str(NEVER_MS))

    def test_each_request_gets_the_tokens_that_it_asks_for_also_beside_others(self):
        wishes = [(3, 40), (200, 5), (1, 1), (64, 64), (65, 20), (130, 30), (10, 100), (400, 8), (7, 7), (90, 50)]
        alone = [self.server.generate(prompt_length=prompt, max_tokens=most, seed=i)[0]
                 for i, (prompt, most) in enumerate(wishes)]
        together = [None] * len(wishes)

        def send(i):
            together[i] = self.server.generate(prompt_length=wishes[i][0], max_tokens=wishes[i][1], seed=i)

        threads = [threading.Thread(target=send, args=(i,)) for i in range(len(wishes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        for i, (prompt, most) in enumerate(wishes):
            tokens, summary = together[i]
            self.assertEqual(len(tokens), most)
            self.assertEqual(tokens, alone[i])
            self.assertEqual((summary['prompt_tokens'], summary['tokens']), (prompt, most))
            self.assertLessEqual(summary['ttft_ms'], summary['total_ms'])
            self.assertNotIn('error', summary)

    def test_a_token_follows_a_prompt_as_it_follows_what_was_generated(self):
        prompt = [(i * 37 + 5) % 128 for i in range(100)]
        tokens, _ = self.server.generate(prompt_tokens=prompt, max_tokens=40)
        for k in (1, 7, 28, 39):  # prompts that end before, at and behind a chunk's border
            self.assertEqual(self.server.generate(prompt_tokens=prompt + tokens[:k], max_tokens=1)[0], [tokens[k]])

    def test_sampling_is_the_same_for_a_seed(self):
        def sample(seed):
            return self.server.generate(prompt_tokens=[1, 2, 3], max_tokens=20, temperature=2, seed=seed)[0]

        self.assertEqual(sample(1), sample(1))
        self.assertNotEqual(sample(1), sample(2))

    def test_what_the_client_does_wrong_is_said(self):
        for body in ({}, {'prompt_length': 600}, {'prompt_tokens': [128]}, {'prompt_length': 5, 'max_tokens': 0}):
            self.assertEqual(self.server.post('/generate', body)[0], 400)

    def test_an_incident_is_written_when_it_is_asked_for(self):
        _, summary = self.server.generate(prompt_length=40, max_tokens=5)
        self.assertEqual(self.server.post('/incidentz', {})[0], 200)
        incidents = sorted((self.folder / 'incidents').glob('[0-9]*'))
        request = self.requests_of(incidents[-1])[summary['id']]
        self.assertEqual([stage['name'] for stage in request['stages']], ['receive', 'tokenize', 'queue', 'prefill', 'decode', 'respond'])
        self.assertEqual(request['tokens']['count'], 5)


class WholePrompts(WithServer):
    OPTIONS = ('--context', '4096', '--kv-tokens', '9000', '--ttft-slo-ms', str(NEVER_MS), '--gap-slo-ms', str(GAP_SLO_MS),
               '--whole-prompts')

    def test_a_prompt_that_is_taken_in_one_piece_is_a_gap_for_another_request_and_an_incident(self):
        incident = None
        for _ in range(5):  # an incident begins no sooner than a second after the one before it
            stream = self.server.begin(prompt_length=20, max_tokens=2000)
            self.assertEqual(stream.line()['index'], 0)
            self.server.generate(prompt_length=LONG_PROMPT, max_tokens=1)
            stream.rest()
            incident = wait_for(lambda of=stream.id: self.incident_in_which_fired(of), PATIENCE_S)
            if incident:
                break
        self.assertIsNotNone(incident, self.server.output())
        self.assertEqual(self.requests_of(incident)[stream.id]['fired'], ['token_gap /generate'])


class CommandLine(unittest.TestCase):
    def test_options_that_do_not_fit_together_are_refused(self):
        run = subprocess.run([SERVER, '--width', '30', '--heads', '4'], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn('--width: it is not a multiple of --heads', run.stderr)


if __name__ == '__main__':
    PITOT = sys.argv.pop()
    SERVER = sys.argv.pop()
    unittest.main()
