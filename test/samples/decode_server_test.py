#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The decode server end to end, with a tiny model: requests together, one that is cancelled, some that are made slow.

usage: decode_server_test.py DECODE_SERVER PITOT
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

SERVER, PITOT = None, None  # from the command line
TINY = ['--layers', '2', '--width', '32', '--heads', '2', '--vocabulary', '128', '--device', 'cpu']
FIRST_TOKEN_SLO_MS = 500
DOSE_MS = 800
GAP_SLO_MS = 100
LONG_PROMPT = 3500  # takes this model several times as long, in one piece
NEVER_MS = 60000
PATIENCE_S = 30  # with who makes an incident, on a busy machine


class Server:
    """A server process on a free port; stopped by its pid."""

    def __init__(self, folder, depth, *options):
        self.folder = folder
        port_file = folder / 'port'
        self.log = open(folder / 'server.log', 'w+', encoding='utf-8')
        self.process = subprocess.Popen(
            [SERVER, *TINY, '--port', '0', '--port-file', str(port_file), '--incident-dir', str(folder / 'incidents'),
             '--fault-log', str(folder / 'faults.jsonl'), '--allow-fault-control', '--slo-ms', str(NEVER_MS), *options],
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
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        cls.server = Server(cls.folder, cls.DEPTH, *cls.OPTIONS)

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

    def faults(self, *faults):
        """From now on these."""
        self.server.post('/faultz', {'active': bool(faults), 'faults': list(faults)})

    def injected(self):
        return [json.loads(line) for line in (self.folder / 'faults.jsonl').read_text().splitlines()]


class DecodeServer(WithServer):
    OPTIONS = ('--context', '512', '--gap-slo-ms', str(NEVER_MS), '--ttft-slo-ms', str(FIRST_TOKEN_SLO_MS))

    def leave_half_way(self):
        """Reads a few tokens and closes the connection: the request's id."""
        body = json.dumps({'prompt_length': 10, 'max_tokens': 500}).encode()
        with socket.create_connection(('127.0.0.1', self.server.port), timeout=30) as client:
            client.sendall(b'POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s' %
                           (len(body), body))
            got = b''
            while b'"index":3' not in got:
                got += client.recv(4096)
        self.server.wait_until_idle()
        return got.split(b'x-request-id: ')[1][:16].decode()

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

    def test_a_client_that_leaves_while_its_request_waits_for_room_is_noticed(self):
        self.faults('kv_pressure:rate=1,dose_ms=3600000,dose_tokens=100000')
        try:
            body = b'{"prompt_length": 10}'
            with socket.create_connection(('127.0.0.1', self.server.port), timeout=30) as client:
                client.sendall(b'POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s' %
                               (len(body), body))
                self.assertTrue(wait_for(lambda: self.server.stats()['requests_open'] == 1, 30))
            self.server.wait_until_idle()
        finally:
            self.faults()
            self.server.generate(prompt_length=1, max_tokens=1)  # has room once the pressure is gone

    def test_a_request_that_is_made_slow_is_in_an_incident_and_one_whose_client_left_is_cancelled(self):
        incident = None
        for _ in range(5):  # an incident begins no sooner than a second after the one before it
            left = self.leave_half_way()
            self.server.post('/faultz', {'active': True, 'faults': [f'slow_tokenizer_sleep:rate=1,dose_ms={DOSE_MS}']})
            _, summary = self.server.generate(prompt_length=40, max_tokens=5)
            self.server.post('/faultz', {'active': False})
            slow = summary['id']
            self.assertGreaterEqual(summary['ttft_ms'], DOSE_MS)
            incident = wait_for(lambda of=slow: self.incident_in_which_fired(of), PATIENCE_S)
            if incident:
                break
        self.assertIsNotNone(incident, self.server.output())

        requests = self.requests_of(incident)
        self.assertEqual(requests[slow]['fired'], ['first_token /generate'])
        self.assertGreaterEqual(requests[slow]['tokens']['first_ms'], DOSE_MS)
        self.assertGreaterEqual(requests[slow]['latency_ms'], DOSE_MS)
        self.assertEqual(requests[left]['outcome'], 'cancelled')
        stages = {stage['name']: stage for stage in requests[slow]['stages']}
        self.assertGreaterEqual(stages['tokenize']['ms'], DOSE_MS)
        self.assertIn(slow, [line['request'] for line in self.injected()])
        self.server.wait_until_idle()
        self.assertEqual(self.server.stats()['requests_abandoned'], 0)


class Gaps(WithServer):
    OPTIONS = ('--context', '4096', '--kv-tokens', '9000', '--ttft-slo-ms', str(NEVER_MS), '--gap-slo-ms',
               str(GAP_SLO_MS))

    def test_a_gap_between_tokens_is_an_incident_that_has_iterations_stages_and_tokens(self):
        incident = None
        for _ in range(5):  # an incident begins no sooner than a second after the one before it
            stream = self.server.begin(prompt_length=20, max_tokens=2000)
            self.assertEqual(stream.line()['index'], 0)
            # The client has the first token: what happens from here on happens after that.
            self.faults(f'long_prompt:rate=1,dose_tokens={LONG_PROMPT}')
            _, later = self.server.generate(prompt_length=1, max_tokens=1)
            self.faults()
            rest = stream.rest()
            incident = wait_for(lambda of=stream.id: self.incident_in_which_fired(of), PATIENCE_S)
            if incident:
                break
        self.assertIsNotNone(incident, self.server.output())
        self.assertEqual([line['index'] for line in rest[:-1]], list(range(1, 2000)))

        requests = self.requests_of(incident)
        request, other = requests[stream.id], requests[later['id']]
        self.assertEqual(request['fired'], ['token_gap /generate'])
        self.assertEqual(other['fired'], [])
        # Its own fault: the time in which the other's prompt was taken, as the server measured it.
        waited = [line['injected_ns'] / 1e6 for line in self.injected()
                  if line['request'] == stream.id and line.get('role') == 'waiter']
        self.assertEqual(len(waited), 1)
        self.assertGreaterEqual(request['tokens']['longest_gap_ms'], max(GAP_SLO_MS, 0.99 * waited[0]))

        names = [stage['name'] for stage in request['stages']]
        self.assertEqual(names[:6], ['receive', 'tokenize', 'look up', 'queue', 'prefill', 'decode'])
        stages = {stage['name']: stage for stage in request['stages']}
        # The first token ends the prefill, and gaps are in the decoding.
        first_ms, rounding_ms = request['tokens']['first_ms'], 0.2
        self.assertLessEqual(stages['prefill']['begin_ms'], first_ms + rounding_ms)
        self.assertLessEqual(first_ms, stages['decode']['begin_ms'] + rounding_ms)
        self.assertGreaterEqual(stages['decode']['ms'], request['tokens']['longest_gap_ms'])
        # An iteration for each token. Some with the other request, which came when the client had the first token: so that
        # had been sent before the later ones were made.
        self.assertGreater(request['tokens']['count'], 10)
        self.assertAlmostEqual(len(set(request['batch_ids'])), request['tokens']['count'], delta=10)
        self.assertTrue(set(request['batch_ids']) & set(other['batch_ids']))
        self.assertEqual(other['tokens']['count'], 1)


class Operators(WithServer):
    OPTIONS = ('--context', '512', '--gap-slo-ms', str(NEVER_MS), '--ttft-slo-ms', str(FIRST_TOKEN_SLO_MS))
    DEPTH = 'ops'

    def top(self, incident, request, by):
        """The request's rows, by name."""
        run = subprocess.run([PITOT, 'top', str(incident / 'dump.pitot'), '--by', by, '--request', request, '--json',
                              '--limit', '0'], capture_output=True, text=True, timeout=60, check=False)
        return {row['name']: row for row in json.loads(run.stdout)['rows']}

    def products_in(self, incident, request):
        return self.top(incident, request, 'op').get('aten::addmm', {'calls': 0})['calls']

    def scheduler_in(self, incident):
        """What the report says that ran on the thread that worked for the slow request."""
        report = (incident / 'report.txt').read_text(encoding='utf-8')
        return report.partition('* scheduler #')[2].partition('* http')[0]

    def test_operators_and_layers_of_a_slow_request_are_in_its_report_and_in_top(self):
        incident = None
        for _ in range(5):  # an incident begins no sooner than a second after the one before it
            self.faults(f'slow_tokenizer_sleep:rate=1,dose_ms={DOSE_MS}')
            _, summary = self.server.generate(prompt_length=40, max_tokens=5)
            self.faults()
            slow = summary['id']
            incident = wait_for(lambda of=slow: self.incident_in_which_fired(of), PATIENCE_S)
            # The process may have gone deep in the middle of it, and what took longest been no operator.
            if incident and self.products_in(incident, slow) >= 2 * 5 and 'aten::' in self.scheduler_in(incident):
                break
        self.assertIsNotNone(incident, self.server.output())

        operators, layers = self.top(incident, slow, 'op'), self.top(incident, slow, 'layer')
        # Two layers in each of five iterations, each with products of matrices; and what these took is not nothing.
        self.assertGreaterEqual(self.products_in(incident, slow), 2 * 5)
        self.assertGreater(operators['aten::addmm']['self_cpu_ns'], 0)
        self.assertTrue(any(' / ' in name for name in layers), layers)
        scheduler = self.scheduler_in(incident)
        self.assertRegex(scheduler, r'aten::\w+\s+[\d.]+\s+[mun]s')
        self.assertRegex(scheduler, r'(layer \d|attention|mlp|prefill|decode)\s+[\d.]+\s+[mun]s')


class OperatorsOfLateRequests(Operators):
    DEPTH = 'auto'  # deep from when the request is late


class CommandLine(unittest.TestCase):
    def test_options_that_do_not_fit_together_are_refused(self):
        for options in (['--width', '30', '--heads', '4'], ['--fault', 'fsync'], ['--fault', 'big_tensor:dose_ms=1']):
            run = subprocess.run([SERVER, *options], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)


if __name__ == '__main__':
    PITOT = sys.argv.pop()
    SERVER = sys.argv.pop()
    unittest.main()
