#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The faulty decode server end to end, with a tiny model: a request that is cancelled, some that are made slow.

usage: faulty_decode_server_test.py FAULTY_DECODE_SERVER PITOT
"""

import json
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'samples'))
import decode_server_test as plain  # noqa: E402
from decode_server_test import GAP_SLO_MS, LONG_PROMPT, NEVER_MS, PATIENCE_S, wait_for  # noqa: E402

FIRST_TOKEN_SLO_MS = 500
DOSE_MS = 800


class WithServer(plain.WithServer):
    @classmethod
    def more_options(cls):
        return ['--fault-log', str(cls.folder / 'faults.jsonl'), '--allow-fault-control']

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
        run = subprocess.run([plain.PITOT, 'top', str(incident / 'dump.pitot'), '--by', by, '--request', request, '--json',
                              '--limit', '0'], capture_output=True, text=True, timeout=60, check=False)
        return {row['name']: row for row in json.loads(run.stdout)['rows']}

    def products_in(self, incident, request):
        return self.top(incident, request, 'op').get('aten::addmm', {'calls': 0})['calls']

    def scheduler_in(self, incident):
        """What the report says that ran on the thread that worked for the slow request."""
        report = (incident / 'report.txt').read_text(encoding='utf-8')
        return report.partition('* scheduler #')[2].partition('* http')[0]

    def test_operators_and_layers_of_a_slow_request_are_in_top_and_its_layers_in_its_report(self):
        incident = None
        for _ in range(5):  # an incident begins no sooner than a second after the one before it
            self.faults(f'slow_tokenizer_sleep:rate=1,dose_ms={DOSE_MS}')
            _, summary = self.server.generate(prompt_length=40, max_tokens=5)
            self.faults()
            slow = summary['id']
            incident = wait_for(lambda of=slow: self.incident_in_which_fired(of), PATIENCE_S)
            # The process may have gone deep in the middle of it.
            if incident and self.products_in(incident, slow) >= 2 * 5:
                break
        self.assertIsNotNone(incident, self.server.output())

        operators, layers = self.top(incident, slow, 'op'), self.top(incident, slow, 'layer')
        # Two layers in each of five iterations, each with products of matrices; and what these took is not nothing.
        self.assertGreaterEqual(self.products_in(incident, slow), 2 * 5)
        self.assertGreater(operators['aten::addmm']['self_cpu_ns'], 0)
        self.assertTrue(any(' / ' in name for name in layers), layers)
        # The report has room for a few of the longest. An operator is not always among them.
        self.assertRegex(self.scheduler_in(incident), r'(layer \d|attention|mlp|prefill|decode)\s+[\d.]+\s+[mun]s')


class OperatorsOfLateRequests(Operators):
    DEPTH = 'auto'  # deep from when the request is late


class CommandLine(unittest.TestCase):
    def test_options_that_do_not_fit_together_are_refused(self):
        for options in (['--width', '30', '--heads', '4'], ['--fault', 'fsync'], ['--fault', 'big_tensor:dose_ms=1']):
            run = subprocess.run([plain.SERVER, *options], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)


if __name__ == '__main__':
    plain.PITOT = sys.argv.pop()
    plain.SERVER = sys.argv.pop()
    unittest.main()
