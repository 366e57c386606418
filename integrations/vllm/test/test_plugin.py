#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the plug-in with a fake vLLM, and Pitot's package replaced: records, switches, missing names, and failures."""

import concurrent.futures
import contextlib
import importlib
import logging
import os
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

FOLDER = Path(__file__).resolve().parent
OURS = ('vllm', 'pitot', 'fake_vllm')


def hook(function, name, after, failed):
    """As pitot.hook."""
    def hooked(*args, **kwargs):
        result = function(*args, **kwargs)
        try:
            after(result, *args, **kwargs)
        except Exception as error:
            failed(error)
        return result
    return hooked


class Plugin(unittest.TestCase):
    environment = {'PITOT_INCIDENT_DIRECTORY': '/incidents'}

    def setUp(self):
        self.requests, self.steps, self.waits = {}, [], []
        pitot = mock.MagicMock(__path__=[str(FOLDER.parent / 'pitot')], __spec__=None)
        pitot.Request.side_effect = self.make_request
        pitot.Batch.begin_step.side_effect = lambda *given: self.steps.append(mock.MagicMock(given=given)) or self.steps[-1]
        pitot.scope.side_effect = lambda name: contextlib.nullcontext()
        pitot.Wait.side_effect = lambda *given: self.waits.append(given) or contextlib.nullcontext()
        pitot.hook.side_effect = hook
        pitot.now.return_value = 10 ** 15
        self.pitot = pitot
        kept = {name: module for name, module in sys.modules.items() if name.split('.')[0] in OURS}
        environment = {name: value for name, value in os.environ.items() if not name.startswith('PITOT_')}
        for patch in (mock.patch.dict(sys.modules, {'pitot': pitot}), mock.patch.object(sys, 'path', [str(FOLDER), *sys.path]),
                      mock.patch.dict('os.environ', {**environment, **self.environment}, clear=True)):
            patch.start()
            self.addCleanup(patch.stop)
        for name in kept:
            del sys.modules[name]
        sys.modules['pitot'] = pitot
        self.vllm = importlib.import_module('fake_vllm')
        self.vllm.install()
        self.plugin = importlib.import_module('pitot.vllm')

    def make_request(self, route, traceparent=None, arrival=0, id=None):
        """Its token is the request's name. Queued again it has one more "'"."""
        def queued(token):
            made = mock.MagicMock(name=token)
            made.said = token
            made.enqueue.side_effect = lambda queue: queued(token + "'")
            return made
        one = mock.MagicMock(route=route, client=traceparent, arrival=arrival, traceparent=f'00-{id}')
        one.enqueue.side_effect = lambda queue: queued(id)
        self.requests[id] = one
        return one

    def start(self, **options):
        self.plugin.register()
        return self.vllm.EngineCore(**options)

    def serve(self, core, count):
        return [(one.request_id, len(one.new_token_ids)) for _ in range(count) for one in core.step()]

    def said(self, members):
        return [token.said for token in members]

    def begun(self):
        return [(self.said(step.given[1]), step.given[2]) for step in self.steps]


class Steps(Plugin):
    def test_one_call_begins_a_step_with_its_members_and_their_tokens_and_one_ends_it(self):
        core = self.start()
        core.scheduler.scheduler_config.long_prefill_token_threshold = 60
        core.add_request(self.vllm.make_request('a', 100, 3))
        core.add_request(self.vllm.make_request('b', 60, 1))
        outputs = self.serve(core, 8)
        self.assertEqual(self.begun(), [(['a', 'b'], [60, 60]), (['a'], [40]), (['a'], [1]), (['a'], [1])])
        self.assertEqual([[(name, self.said(given[0]), given[1]) for name, given, _ in step.method_calls] for step in self.steps],
                         [[('end_step', ['b'], [1])], *[[('end_step', ['a'], [1])]] * 3])
        self.assertEqual(outputs, [('b', 1), ('a', 1), ('a', 1), ('a', 1)])

    def test_each_wait_for_the_gpu_is_recorded_once(self):
        core = self.start()
        core.add_request(self.vllm.make_request('a', 1, 3))
        self.serve(core, 4)
        self.assertEqual(self.waits, [(self.pitot.WaitKind.DEVICE, 'sampled tokens')] * 3)
        self.assertNotIn('is_recorded', vars(concurrent.futures.Future.result))

    def test_a_request_that_the_plug_in_did_not_see_is_no_member_and_breaks_nothing(self):
        core = self.start()
        core.scheduler.requests['stranger'] = self.vllm.make_request('stranger', 1, 2)
        core.add_request(self.vllm.make_request('a', 1, 3))
        outputs = self.serve(core, 6)
        self.assertEqual(self.begun(), [(['a'], [1])] * 3)
        self.assertEqual([name for name, _ in outputs].count('stranger'), 2)

    def test_gauges_are_recorded_when_they_change(self):
        core = self.start()
        core.add_request(self.vllm.make_request('a', 1, 40))
        self.serve(core, 3)
        core.add_request(self.vllm.make_request('b', 1, 10))
        self.serve(core, 30)
        running = [call.args[1] for call in self.pitot.counter.mock_calls if call.args[0] == 'vllm running']
        used = [call.args[1] for call in self.pitot.counter.mock_calls if call.args[0] == 'vllm KV cache used']
        self.assertEqual((running, used), ([1, 2, 1], [0.01, 0.02, 0.01]))


class Requests(Plugin):
    def stages(self, name):
        return [call.args[0] for call in self.requests[name].stage.mock_calls]

    def test_a_request_has_its_id_parent_sizes_and_stages(self):
        core = self.start()
        core.add_request(self.vllm.make_request('a', 100, 2, cached=64, trace_headers={'traceparent': '00-1-2-01'},
                                                lora_request=self.vllm.Object(lora_name='french')))
        self.serve(core, 4)
        one = self.requests['a']
        self.assertEqual((one.route, one.client), ('/generate', '00-1-2-01'))
        self.assertEqual([call.args for call in one.set_size.mock_calls], [('prompt tokens', 100), ('cached tokens', 64)])
        one.set_label.assert_called_once_with('lora', 'french')
        self.assertEqual(self.stages('a'), ['waiting', 'prefill', 'decode'])
        one.finish.assert_called_once_with(self.pitot.Outcome.OK, None)

    def test_requests_end_with_their_outcome(self):
        core = self.start()
        reasons = self.vllm.FinishReason
        for name, ends in (('a', reasons.STOP), ('b', reasons.ABORT), ('c', reasons.ERROR)):
            core.add_request(self.vllm.make_request(name, 1, 1, ends=ends))
        self.serve(core, 3)
        self.assertEqual([self.requests[name].finish.call_args.args for name in 'abc'],
                         [(self.pitot.Outcome.OK, None), (self.pitot.Outcome.CANCELLED, 'abort'), (self.pitot.Outcome.FAILED, 'error')])

    def test_aborted_requests_are_cancelled_by_name_by_list_and_all_at_once(self):
        core = self.start()
        for name in 'abcd':
            core.add_request(self.vllm.make_request(name, 1, 100))
        self.serve(core, 3)
        core.scheduler.finish_requests(iter(['a']))
        core.scheduler.finish_requests(request_ids='b')
        core.scheduler.finish_requests(None)
        self.assertEqual(core.scheduler.requests, {})
        for name in 'abcd':
            self.requests[name].finish.assert_called_once_with(self.pitot.Outcome.CANCELLED)
        self.serve(core, 3)

    def test_a_preempted_request_waits_again_and_reads_its_prompt_again(self):
        core = self.start()
        core.add_request(self.vllm.make_request('a', 10, 9))
        self.serve(core, 4)
        core.scheduler.preempted = {'a', 'gone'}
        self.serve(core, 4)
        self.assertEqual(self.stages('a'), ['waiting', 'prefill', 'decode', 'preempted', 'prefill', 'decode'])
        self.assertEqual({members[0] for members, _ in self.begun()}, {'a', "a'"})

    def test_more_input_of_a_session_is_the_same_request(self):
        core = self.start()
        core.add_request(self.vllm.make_request('a', 10, 9))
        first = self.requests['a']
        core.add_request(self.vllm.make_request('a', 10, 9))
        self.assertIs(self.requests['a'], first)

    def test_pooling_has_a_route_of_its_own(self):
        core = self.start()
        core.add_request(self.vllm.make_request('a', 10, 1, pooling_params=object()))
        self.assertEqual(self.requests['a'].route, '/pool')

    def test_a_program_adds_to_requests_and_to_the_recorder(self):
        seen = []
        self.plugin.on_start(seen.append)
        self.plugin.options['post_window_ms'] = 5
        self.plugin.on_request(lambda theirs, ours: ours.set_label('tenant', theirs.request_id.split('-')[0]))
        core = self.start()
        core.add_request(self.vllm.make_request('acme-1', 10, 1))
        self.requests['acme-1'].set_label.assert_called_once_with('tenant', 'acme')
        self.assertEqual(seen, [self.pitot.start.return_value])
        self.assertEqual(self.pitot.start.call_args.kwargs['post_window_ms'], 5)
        self.assertIs(self.plugin.recorder(), self.pitot.start.return_value)


class Starts(Plugin):
    def recorder(self):
        return self.pitot.start.return_value

    def test_the_recorder_starts_once_with_the_executor(self):
        self.plugin.register()
        self.pitot.start.assert_not_called()
        self.vllm.EngineCore()
        self.vllm.EngineCore()
        self.pitot.start.assert_called_once()
        self.assertEqual(self.pitot.start.call_args.kwargs['process_name'], 'vllm engine 0')
        self.assertTrue(self.pitot.start.call_args.kwargs['gpu'])
        self.recorder().add_host.assert_called_once_with()
        self.recorder().add_why.assert_called_once_with()
        self.recorder().add_cupti.assert_not_called()
        given = self.recorder().add_tokens_trigger.call_args.kwargs
        self.assertEqual((given['gap_above_ms'], given['gap_or_above_quantile']), (0, 0.9999))

    def test_with_workers_it_starts_once_they_are_forked(self):
        order = []
        self.pitot.start.side_effect = lambda **_: order.append('start') or mock.MagicMock()
        executor = self.vllm.Executor
        before = executor.__init__
        executor.__init__ = lambda self, config: order.append('fork') or before(self, config)
        self.start(world_size=2)
        self.start(world_size=1)
        self.assertEqual(order, ['fork', 'start', 'fork'])

    def test_registering_twice_wraps_once(self):
        self.plugin.register()
        core = self.start()
        core.add_request(self.vllm.make_request('a', 1, 1))
        self.assertEqual(self.pitot.Request.call_count, 1)

    def test_a_recorder_that_cannot_start_is_said_and_the_server_runs(self):
        self.recorder().status = mock.MagicMock(message='disk full', **{'__bool__.return_value': False})
        with self.assertLogs('pitot', logging.WARNING) as log:
            core = self.start()
        core.add_request(self.vllm.make_request('a', 1, 1))
        self.assertEqual(self.serve(core, 3), [('a', 1)])
        self.assertEqual([record.getMessage() for record in log.records], ['Pitot records nothing here: disk full'])
        self.recorder().add_host.assert_not_called()

    def test_a_start_that_raises_leaves_the_server_running(self):
        self.pitot.start.side_effect = ValueError('no such option')
        with self.assertLogs('pitot', logging.ERROR) as log:
            core = self.start()
        self.assertIsInstance(core, self.vllm.EngineCore)
        self.assertIn('no such option', log.output[0])


class Chosen(Plugin):
    environment = {'PITOT_INCIDENT_DIRECTORY': '/incidents', 'PITOT_VLLM_RECORD': 'kernels, cpu', 'PITOT_VLLM_GAP_MS': '25',
                   'PITOT_PROCESS_NAME': 'mine'}

    def test_parts_limits_and_the_name_are_the_environments(self):
        with self.assertLogs('pitot', logging.WARNING) as log:
            self.start()
        one = self.pitot.start.return_value
        self.assertFalse(self.pitot.start.call_args.kwargs['gpu'])
        self.assertEqual(self.pitot.start.call_args.kwargs['process_name'], 'mine')
        one.add_host.assert_not_called()
        one.set_depth.assert_called_once_with(self.pitot.Depth.KERNELS)
        given = one.add_tokens_trigger.call_args.kwargs
        self.assertEqual((given['gap_above_ms'], given['gap_or_above_quantile']), (25.0, 0))
        self.assertIn("has 'cpu'", log.output[0])


class Off(Plugin):
    environment = {}

    def test_without_a_directory_nothing_is_touched(self):
        before = self.vllm.EngineCore.add_request
        core = self.start()
        self.assertIs(self.vllm.EngineCore.add_request, before)
        core.add_request(self.vllm.make_request('a', 1, 1))
        self.serve(core, 3)
        self.pitot.Request.assert_not_called()
        self.pitot.start.assert_not_called()


class SwitchedOff(Off):
    environment = {'PITOT_VLLM': '0', 'PITOT_INCIDENT_DIRECTORY': '/incidents'}


class Hooks(Plugin):
    environment = {'PITOT_VLLM': 'hooks'}

    def test_a_program_with_its_own_recorder_has_the_hooks_alone(self):
        core = self.start()
        core.add_request(self.vllm.make_request('a', 1, 1))
        self.serve(core, 3)
        self.assertEqual(len(self.steps), 1)
        self.pitot.start.assert_not_called()


class Missing(Plugin):
    def test_a_name_that_moved_is_said_and_nothing_is_wrapped(self):
        del self.vllm.NAMES['vllm.v1.executor.abstract']
        del sys.modules['vllm.v1.executor.abstract']
        before = self.vllm.EngineCore.add_request
        with self.assertLogs('pitot', logging.WARNING) as log:
            self.plugin.register()
        self.assertIs(self.vllm.EngineCore.add_request, before)
        self.assertIn('vLLM has no vllm.v1.executor.abstract:Executor.__init__', log.output[0])

    def test_a_method_that_the_scheduler_lacks_is_said_once_and_the_server_runs(self):
        core = self.start()
        del self.vllm.Scheduler.finish_requests
        with self.assertLogs('pitot', logging.WARNING) as log:
            core.add_request(self.vllm.make_request('a', 1, 1))
            core.add_request(self.vllm.make_request('b', 1, 1))
        self.assertEqual([record.getMessage() for record in log.records], ['Pitot records nothing here: vLLM has no Scheduler.finish_requests'])
        self.assertEqual(len(self.serve(core, 3)), 2)

    def test_an_engine_without_counts_or_cache_has_no_gauges(self):
        core = self.start()
        del self.vllm.Scheduler.get_request_counts
        core.scheduler.kv_cache_manager = None
        core.add_request(self.vllm.make_request('a', 1, 1))
        self.serve(core, 3)
        self.pitot.counter.assert_not_called()
        self.assertEqual(len(self.steps), 1)

    def test_a_recording_that_fails_gives_the_engine_its_own_methods_back(self):
        core = self.start()
        core.add_request(self.vllm.make_request('a', 1, 5))
        self.pitot.Batch.begin_step.side_effect = TypeError('numbers')
        with self.assertLogs('pitot', logging.ERROR) as log:
            outputs = self.serve(core, 7)
        self.assertEqual((len(outputs), len(log.records)), (5, 1))
        self.assertNotIn('schedule', vars(core.scheduler))
        core.add_request(self.vllm.make_request('b', 1, 1))
        self.assertEqual(self.serve(core, 3), [('b', 1)])

    def test_own_scopes_need_vllms_function(self):
        with mock.patch.dict('os.environ', {'PITOT_VLLM_SCOPES': '1'}):
            core = self.start()
            with self.assertLogs('pitot', logging.WARNING) as log:
                core.add_request(self.vllm.make_request('a', 1, 1))
            self.assertIn('PITOT_VLLM_SCOPES has no effect', log.output[0])
            utils = types.ModuleType('vllm.v1.utils')
            utils.record_function_or_nullcontext, utils._PROFILER_FUNC = print, None
            with mock.patch.dict(sys.modules, {'vllm.v1.utils': utils}):
                self.start().add_request(self.vllm.make_request('b', 1, 1))
            self.assertIs(utils._PROFILER_FUNC, self.pitot.scope)


class Server(Plugin):
    environment = {'PITOT_INCIDENT_DIRECTORY': '/incidents', 'PITOT_VLLM_SERVER': '1'}

    def start_server(self, **options):
        self.plugin.register()
        return self.vllm.OutputProcessor(**options)

    def output(self, name, *tokens, ends=None):
        return self.vllm.Object(request_id=name, new_token_ids=list(tokens), finish_reason=ends)

    def emitted(self):
        return [([one.id for one in call.args[0]], call.args[1]) for call in self.pitot.emit_many.mock_calls]

    def test_a_request_begins_at_its_arrival_and_is_the_parent_of_the_engines(self):
        processor, request = self.start_server(), self.vllm.make_request('a', 10, 2)
        request.arrival_time = 100.0
        with mock.patch('time.time', return_value=102.0):
            processor.add_request(request)
        one = self.requests['a']
        self.assertEqual((one.route, one.client), ('/request', None))
        self.assertEqual(self.pitot.now.return_value - one.arrival, 2 * 10 ** 9)
        self.assertEqual(request.trace_headers, {'traceparent': '00-a'})
        self.assertEqual(self.pitot.start.call_args.kwargs['process_name'], 'vllm server')
        self.assertFalse(self.pitot.start.call_args.kwargs['gpu'])

    def test_spans_of_vllm_keep_their_parents(self):
        processor, request = self.start_server(tracing_enabled=True), self.vllm.make_request('a', 10, 2, trace_headers={'traceparent': '00-client'})
        processor.add_request(request)
        self.assertEqual((request.trace_headers, self.requests['a'].client), ({'traceparent': '00-client'}, '00-client'))

    def test_outputs_are_marked_and_requests_end_with_their_last_one(self):
        processor = self.start_server()
        for name in 'abc':
            processor.add_request(self.vllm.make_request(name, 10, 2))
            self.requests[name].id = name
        processor.process_outputs([self.output('a', 1, 2), self.output('b', 3), self.output('stranger', 4)])
        processor.process_outputs([self.output('a', 5, ends=self.vllm.FinishReason.LENGTH), self.output('b', 'stop string')])
        processor.abort_requests(['c', 'b'], internal=True)
        self.assertEqual(self.emitted(), [(['a', 'b'], [2, 1]), (['a', 'b'], [1, 1])])
        self.assertEqual([call.args[0] for call in self.requests['a'].stage.mock_calls], ['engine', 'stream'])
        self.requests['a'].finish.assert_called_once_with()
        self.requests['b'].finish.assert_called_once_with()
        self.requests['c'].finish.assert_called_once_with(self.pitot.Outcome.CANCELLED)

    def test_in_the_engines_process_requests_are_recorded_once(self):
        processor = self.start_server()
        self.vllm.EngineCore().add_request(self.vllm.make_request('a', 10, 2))
        processor.add_request(self.vllm.make_request('a', 10, 2))
        self.assertEqual(self.pitot.Request.call_count, 1)

    def test_a_failure_is_said_once_and_the_server_runs(self):
        processor = self.start_server()
        self.pitot.Request.side_effect = ValueError('no')
        with self.assertLogs('pitot', logging.ERROR) as log:
            for name in 'ab':
                processor.add_request(self.vllm.make_request(name, 10, 2))
        self.assertEqual((len(log.records), sorted(processor.request_states)), (1, ['a', 'b']))

    def test_names_that_moved_are_said_and_the_engine_is_recorded(self):
        del self.vllm.OutputProcessor.abort_requests
        with self.assertLogs('pitot', logging.WARNING) as log:
            core = self.start()
        self.assertIn('PITOT_VLLM_SERVER has no effect', log.output[0])
        core.add_request(self.vllm.make_request('a', 1, 1))
        self.serve(core, 3)
        self.assertEqual(len(self.steps), 1)


if __name__ == '__main__':
    unittest.main()
