#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plug-in with the library: incidents of a fake vLLM have its requests and steps, as the command line reads them.

Environment: PITOT_LIBRARY, PITOT_PROGRAM, PITOT_PACKAGE (default: bindings/python)
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
sys.path[:0] = [str(FOLDER), os.environ.get('PITOT_PACKAGE') or str(ROOT / 'bindings' / 'python'), str(ROOT / 'test' / 'bindings')]

import fake_vllm  # noqa: E402
import incident  # noqa: E402
import pitot  # noqa: E402

pitot.__path__.insert(0, str(FOLDER.parent / 'pitot'))

import pitot.vllm  # noqa: E402

NEVER = '1000000'


def serve(core, count):
    for _ in range(count):
        core.step()


def dump_of(recorder, folder):
    """The folder of an incident of now."""
    assert recorder.trigger('by hand') and recorder.flush()
    (directory,) = [one for one in Path(folder).iterdir() if (one / 'dump.pitot').exists()]
    return str(directory)


def be_server():
    """The process in front: prints the headers for the engine, and the folder of its incident."""
    pitot.vllm.register()
    processor, request = fake_vllm.OutputProcessor(), fake_vllm.make_request('cmpl-1', 100, 2)
    processor.add_request(request)
    for ends in (None, fake_vllm.FinishReason.LENGTH):
        processor.process_outputs([fake_vllm.Object(request_id='cmpl-1', new_token_ids=[1], finish_reason=ends)])
    folder = dump_of(pitot.vllm.recorder(), os.environ['PITOT_INCIDENT_DIRECTORY'])
    print(json.dumps([request.trace_headers, folder]))


class Recorded(unittest.TestCase):
    def test_an_incident_has_the_engines_requests_and_steps_and_the_servers_trace(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = temporary.name
        environment = {'PITOT_INCIDENT_DIRECTORY': f'{folder}/server', 'PITOT_VLLM_GAP_MS': NEVER, 'PITOT_VLLM_FIRST_TOKEN_MS': NEVER,
                       'PITOT_VLLM_RECORD': ''}
        done = subprocess.run([sys.executable, __file__, 'server'], env={**os.environ, **environment, 'PITOT_VLLM_SERVER': '1'}, check=True,
                              stdout=subprocess.PIPE, text=True)
        headers, server = json.loads(done.stdout)
        os.environ.update(environment, PITOT_INCIDENT_DIRECTORY=f'{folder}/engine')
        pitot.vllm.register()
        core = fake_vllm.EngineCore()
        recorder = pitot.vllm.recorder()
        self.addCleanup(recorder.stop)
        core.add_request(fake_vllm.make_request('cmpl-1', 100, 5, cached=64, lora_request=fake_vllm.Object(lora_name='french'),
                                                trace_headers=headers))
        core.add_request(fake_vllm.make_request('cmpl-2', 10, 30))
        serve(core, 4)
        core.scheduler.preempted = {'cmpl-2'}
        serve(core, 10)
        core.add_request(fake_vllm.make_request('cmpl-3', 10, 50))
        serve(core, 3)
        core.scheduler.finish_requests(['cmpl-3'])
        serve(core, 30)
        directory = dump_of(recorder, f'{folder}/engine')

        info = incident.run_pitot('info', directory)
        self.assertEqual((info['process']['name'], info['losses']), ('vllm engine 0', []))
        first, second, third = incident.requests_of(directory)
        self.assertEqual([one['host_id'] for one in (first, second, third)], ['cmpl-1', 'cmpl-2', 'cmpl-3'])
        self.assertEqual([one['outcome'] for one in (first, second, third)], ['ok', 'ok', 'cancelled'])
        self.assertEqual((first['tokens']['count'], second['tokens']['count']), (5, 30))
        self.assertEqual((first['sizes'], first['labels']), ({'prompt tokens': 100, 'cached tokens': 64}, {'lora': 'french'}))
        self.assertEqual([stage['name'] for stage in first['stages']], ['waiting', 'prefill', 'decode'])
        self.assertEqual([stage['name'] for stage in second['stages']], ['waiting', 'prefill', 'decode', 'preempted', 'prefill', 'decode'])
        self.assertEqual(len(first['batch_ids']), 5)
        trace = incident.perfetto_of(directory)
        for text in (b'vllm step', b'schedule', b'execute', b'sample', b'update', b'sampled tokens', b'vllm running', b'vllm KV cache used'):
            self.assertIn(text, trace)

        (before,) = incident.requests_of(server)
        self.assertEqual((before['route'], before['host_id'], before['outcome'], before['tokens']['count']), ('/request', 'cmpl-1', 'ok', 2))
        self.assertEqual([stage['name'] for stage in before['stages']], ['engine', 'stream'])
        self.assertEqual(before['trace_id'], first['trace_id'])
        self.assertEqual(incident.run_pitot('info', server)['process']['name'], 'vllm server')


if __name__ == '__main__':
    fake_vllm.install()
    if sys.argv[1:] == ['server']:
        be_server()
    else:
        unittest.main()
