#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records with viztracer, ONNX Runtime, JAX and OpenTelemetry's SDK, writes with Perfetto's Python package, and compares pitot's
answers with the tools' own files.

Each tool runs a small program in its own process. The files are then read twice: as JSON by this program, and by pitot. Counts
and times must be equal to the nanosecond. --install makes the environment, build/writers-venv, by pip. Exit: 0 equal, 1
different, 77 a tool is not installed and cannot be.
"""

import argparse
import collections
import decimal
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VENV = ROOT / 'build/writers-venv'
PACKAGES = ['viztracer==1.1.1', 'onnxruntime==1.32.0', 'onnx==1.23.2', 'jax==0.10.2', 'jaxlib==0.10.2',
            'opentelemetry-sdk==1.45.2', 'opentelemetry-exporter-otlp-proto-http==1.45.2',
            'perfetto==0.59.1']
SKIPPED = 77

VIZTRACER = '''
import threading
from viztracer import VizTracer
from viztracer.vizcounter import VizCounter

def leaf(number):
    return number * number

def work(count):
    for number in range(count):
        leaf(number)

tracer = VizTracer(output_file='viztracer.json', verbose=0)
tracer.start()
tracer.log_instant('begin')
threads = [threading.Thread(target=work, args=(200,), name=f'worker-{i}') for i in range(4)]
with tracer.log_event('phase one'):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
depth = VizCounter(tracer, 'queue')
depth.length = 3
depth.length = 1
tracer.stop()
tracer.save()
'''

ONNX = '''
import os
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

weights = helper.make_tensor('w', TensorProto.FLOAT, [16, 8], numpy.ones(128, numpy.float32))
filters = helper.make_tensor('k', TensorProto.FLOAT, [4, 3, 3, 3], numpy.ones(108, numpy.float32))
nodes = [helper.make_node('Conv', ['x', 'k'], ['c'], name='conv1'), helper.make_node('Flatten', ['c'], ['f'], name='flat'),
         helper.make_node('MatMul', ['f', 'w'], ['y'], name='mm')]
graph = helper.make_graph(nodes, 'g', [helper.make_tensor_value_info('x', TensorProto.FLOAT, [1, 3, 4, 4])],
                          [helper.make_tensor_value_info('y', TensorProto.FLOAT, [1, 8])], [weights, filters])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)])
model.ir_version = 8
options = onnxruntime.SessionOptions()
options.enable_profiling = True
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])
for _ in range(5):
    session.run(None, {'x': numpy.ones((1, 3, 4, 4), numpy.float32)})
os.rename(session.end_profiling(), 'onnxruntime.json')
'''

JAX = '''
import jax
import jax.numpy as jnp

@jax.jit
def step(x):
    return jnp.tanh(x @ x).sum()

x = jnp.ones((64, 64))
step(x).block_until_ready()
with jax.profiler.trace('jax'):
    for number in range(4):
        with jax.profiler.StepTraceAnnotation('train', step_num=number):
            step(x).block_until_ready()
'''

OTEL = (pathlib.Path(__file__).parent / 'otel_writer.py').read_text()
PERFETTO = '''
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

trace = TraceProtoBuilder()

def track(uuid, name, parent=0, tid=0, is_counter=False):
    descriptor = trace.add_packet().track_descriptor
    descriptor.uuid = uuid
    if tid:
        descriptor.thread.pid, descriptor.thread.tid, descriptor.thread.thread_name = 42, tid, name
    else:
        descriptor.name, descriptor.parent_uuid = name, parent
    if is_counter:
        descriptor.counter.unit_multiplier = 2

def event(at, kind, uuid, name=''):
    packet = trace.add_packet()
    packet.timestamp, packet.trusted_packet_sequence_id = at, 7
    packet.sequence_flags = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
    packet.track_event.type, packet.track_event.track_uuid = kind, uuid
    if name:
        packet.track_event.name = name
    return packet.track_event

packet = trace.add_packet()
packet.trusted_packet_sequence_id, packet.sequence_flags = 7, TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
for number in range(3):
    track(10 + number, f'worker {number}', tid=43 + number)
track(30, 'depth', is_counter=True)
for number in range(500):
    at, uuid = 2000 + 100 * number, 10 + number % 3
    annotation = event(at, TrackEvent.TYPE_SLICE_BEGIN, uuid, 'handle').debug_annotations.add()
    annotation.name, annotation.int_value = 'number', number
    event(at + 20, TrackEvent.TYPE_SLICE_BEGIN, uuid, 'decode')
    event(at + 60, TrackEvent.TYPE_SLICE_END, uuid)
    event(at + 90, TrackEvent.TYPE_SLICE_END, uuid)
    event(at, TrackEvent.TYPE_COUNTER, 30).counter_value = number % 7
open('perfetto.pftrace', 'wb').write(trace.serialize())
'''


class Differences:
    def __init__(self):
        self.count = 0

    def compare(self, what, expected, found):
        is_equal = expected == found
        self.count += not is_equal
        print(f'{what:44} {"" if is_equal else "DIFFERENT: "}{expected if is_equal else (expected, found)}')


def ns(microseconds):
    """Whole nanoseconds, halves away from 0."""
    return int((decimal.Decimal(microseconds) * 1000).to_integral_value(decimal.ROUND_HALF_UP))


def events_of(path):
    text = gzip.open(path, 'rt').read() if path.suffix == '.gz' else path.read_text()
    document = json.loads(text, parse_float=decimal.Decimal)
    return [event for event in (document if isinstance(document, list) else document['traceEvents']) if event]


def pitot(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f'{" ".join(arguments)}: exit code {done.returncode}: {done.stderr}')
    return json.loads(done.stdout)


def totals(events, name):
    """Calls and total time by name."""
    found = collections.defaultdict(lambda: [0, 0])
    for event in events:
        found[name(event)][0] += 1
        found[name(event)][1] += ns(event['dur'])
    return dict(found)


def rows(program, path, by):
    table = pitot(program, 'top', '--json', '--by', by, '--limit', '0', str(path))
    return {row['name']: [row['calls'], row['cpu_total_ns']] for row in table['rows']}


def check_viztracer(program, folder, differences):
    path = folder / 'viztracer.json'
    events = events_of(path)
    info = pitot(program, 'info', '--json', str(path))
    spans = [event for event in events if event['ph'] == 'X']
    differences.compare('viztracer: format', ['chrome', 'viztracer'], [info['format'], info['json']['tool']])
    differences.compare('viztracer: spans and instants', len([e for e in events if e['ph'] in 'Xi']), info['counts']['events'])
    differences.compare('viztracer: samples', len([e for e in events if e['ph'] == 'C']), info['counts']['samples'])
    names = {event['args']['name'] for event in events if event['name'] == 'thread_name'}
    differences.compare('viztracer: threads', names, {thread['name'] for thread in info['threads']})
    expected = totals([e for e in spans if e['name'].startswith('leaf ')], lambda event: event['name'])
    found = {name: row for name, row in rows(program, path, 'scope').items() if name in expected}
    differences.compare('viztracer: calls and time of leaf', expected, found)


def check_onnx(program, folder, differences):
    path = folder / 'onnxruntime.json'
    events = events_of(path)
    info = pitot(program, 'info', '--json', str(path))
    differences.compare('onnxruntime: format', 'onnxruntime', info['format'])
    differences.compare('onnxruntime: events', len(events), info['counts']['events'])
    nodes = [e for e in events if e['cat'] == 'Node' and e['name'].endswith('_kernel_time')]
    expected = totals(nodes, lambda event: event['args']['op_name'])
    differences.compare('onnxruntime: calls and time by operator', expected, rows(program, path, 'op'))
    runs = totals([e for e in events if e['name'] == 'model_run'], lambda event: event['name'])
    differences.compare('onnxruntime: model_run', runs['model_run'], rows(program, path, 'scope')['model_run'])


def check_jax(program, folder, differences):
    paths = sorted(folder.glob('jax/plugins/profile/*/*.trace.json.gz'))
    differences.compare('jax: files', 1, len(paths))
    events = events_of(paths[0])
    info = pitot(program, 'info', '--json', str(paths[0]))
    spans = [event for event in events if event['ph'] == 'X']
    differences.compare('jax: format', 'jax', info['format'])
    differences.compare('jax: spans', len(spans), info['counts']['events'])
    steps = totals([e for e in spans if e['name'] == 'train'], lambda event: event['name'])
    differences.compare('jax: steps', steps['train'], rows(program, paths[0], 'scope')['train'])
    operations = totals([e for e in spans if 'hlo_op' in e.get('args', {})], lambda event: event['name'])
    differences.compare('jax: calls and time by operation', operations, rows(program, paths[0], 'op'))
    xspace = next(folder.glob('jax/plugins/profile/*/*.xplane.pb'))
    differences.compare('jax: format of the XSpace', 'xspace', pitot(program, 'info', '--json', str(xspace))['format'])
    calls = {name: row[0] for name, row in rows(program, paths[0], 'scope').items()}
    found = {name: row[0] for name, row in rows(program, xspace, 'scope').items()}
    differences.compare('jax: calls by name, in the XSpace', calls, found)


def check_perfetto(program, folder, differences):
    path = folder / 'perfetto.pftrace'
    info = pitot(program, 'info', '--json', str(path))
    differences.compare('perfetto: format', ['perfetto', None], [info['format'], info['complete']])
    differences.compare('perfetto: slices and samples', [1000, 500], [info['counts']['events'], info['counts']['samples']])
    differences.compare('perfetto: threads', {f'worker {number}' for number in range(3)},
                        {thread['name'] for thread in info['threads']})
    differences.compare('perfetto: calls and time by name', {'handle': [500, 45000], 'decode': [500, 20000]},
                        rows(program, path, 'scope'))


def check_otel(program, folder, differences):
    spans = json.loads((folder / 'otel_spans.json').read_text())
    expected = sorted([name, id_, ns, 'ok' if is_ok else 'failed'] for name, id_, ns, is_ok in spans if name == 'GET /cart')
    for path in (folder / 'otel.pb', folder / 'otel.json', folder / 'otel_base64.json'):
        info = pitot(program, 'info', '--json', str(path))
        requests = pitot(program, 'requests', '--json', '--limit', '0', str(path))['requests']
        differences.compare(f'{path.name}: format', ['otlp', None], [info['format'], info['complete']])
        differences.compare(f'{path.name}: parts', len(spans) - len(expected), info['counts']['asyncs'])
        differences.compare(f'{path.name}: requests', expected, sorted(
            [request['route'], request['id'], round(request['latency_ms'] * 1e6), request['outcome']] for request in requests))


def install():
    commands = [[sys.executable, '-m', 'venv', VENV], [VENV / 'bin/pip', 'install', '--quiet', *PACKAGES]]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode != 0:
            print(f'cannot make {VENV}: {done.stderr.strip()[-500:]}')
            return False
    return True


def is_installed():
    script = 'import jax, onnx, onnxruntime, opentelemetry.sdk, perfetto, viztracer'
    python = VENV / 'bin/python'
    return python.exists() and subprocess.run([python, '-c', script], capture_output=True, check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program', help='the pitot program')
    parser.add_argument('--install', action='store_true', help='make the environment if it is missing')
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.program).resolve())
    if not is_installed() and not (arguments.install and install() and is_installed()):
        print("skipped: viztracer, ONNX Runtime, JAX, OpenTelemetry's SDK and Perfetto are not all installed; --install gets them")
        return SKIPPED
    differences = Differences()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for script, check in ((VIZTRACER, check_viztracer), (ONNX, check_onnx), (JAX, check_jax), (OTEL, check_otel),
                              (PERFETTO, check_perfetto)):
            (folder / 'program.py').write_text(script)
            done = subprocess.run([VENV / 'bin/python', 'program.py'], cwd=folder, capture_output=True, text=True,
                                  timeout=300, check=False)
            if done.returncode != 0:
                print(f'{check.__name__}: the recorded program failed: {done.stderr.strip()[-500:]}')
                return 1
            check(program, folder, differences)
    return 1 if differences.count else 0


if __name__ == '__main__':
    sys.exit(main())
