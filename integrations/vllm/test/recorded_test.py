#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plug-in with the library: an incident of a fake vLLM has its requests and steps, as the command line reads them.

Environment: PITOT_LIBRARY, PITOT_PROGRAM, PITOT_PACKAGE (default: bindings/python)
"""

import os
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

pitot.__path__.append(str(FOLDER.parent / 'pitot'))

import pitot.vllm  # noqa: E402

NEVER = '1000000'


def serve(core, count):
    for _ in range(count):
        core.step()


class Recorded(unittest.TestCase):
    def test_an_incident_has_the_engines_requests_and_steps(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = temporary.name
        os.environ.update(PITOT_INCIDENT_DIRECTORY=f'{folder}/incidents', PITOT_VLLM_GAP_MS=NEVER, PITOT_VLLM_FIRST_TOKEN_MS=NEVER,
                          PITOT_VLLM_RECORD='')
        fake_vllm.install()
        pitot.vllm.register()
        core = fake_vllm.EngineCore()
        recorder = pitot.vllm.recorder()
        self.addCleanup(recorder.stop)
        core.add_request(fake_vllm.make_request('cmpl-1', 100, 5, cached=64, lora_request=fake_vllm.Object(lora_name='french')))
        core.add_request(fake_vllm.make_request('cmpl-2', 10, 30))
        serve(core, 4)
        core.scheduler.preempted = {'cmpl-2'}
        serve(core, 10)
        core.add_request(fake_vllm.make_request('cmpl-3', 10, 50))
        serve(core, 3)
        core.scheduler.finish_requests(['cmpl-3'])
        serve(core, 30)
        self.assertTrue(recorder.trigger('by hand'))
        self.assertTrue(recorder.flush())
        (directory,) = [one for one in Path(folder, 'incidents').iterdir() if (one / 'dump.pitot').exists()]

        info = incident.run_pitot('info', str(directory))
        self.assertEqual((info['process']['name'], info['losses']), ('vllm engine 0', []))
        first, second, third = incident.requests_of(str(directory))
        self.assertEqual([one['host_id'] for one in (first, second, third)], ['cmpl-1', 'cmpl-2', 'cmpl-3'])
        self.assertEqual([one['outcome'] for one in (first, second, third)], ['ok', 'ok', 'cancelled'])
        self.assertEqual((first['tokens']['count'], second['tokens']['count']), (5, 30))
        self.assertEqual((first['sizes'], first['labels']), ({'prompt tokens': 100, 'cached tokens': 64}, {'lora': 'french'}))
        self.assertEqual([stage['name'] for stage in first['stages']], ['waiting', 'prefill', 'decode'])
        self.assertEqual([stage['name'] for stage in second['stages']], ['waiting', 'prefill', 'decode', 'preempted', 'prefill', 'decode'])
        self.assertEqual(len(first['batch_ids']), 5)
        trace = incident.perfetto_of(str(directory))
        for text in (b'vllm step', b'schedule', b'execute', b'sample', b'update', b'sampled tokens', b'vllm running', b'vllm KV cache used'):
            self.assertIn(text, trace)


if __name__ == '__main__':
    unittest.main()
