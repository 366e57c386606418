#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CPU time of `pitot analyze` next to Perfetto's trace processor (v52, wasm), for the same Perfetto traces, in turns.

Perfetto's time is that of all processes of a headless Chromium from the request for the trace until the trace processor has
loaded it: the browser's start is not counted, the transfer on loopback is. Pitot's is the whole program, with all analyses.
Prints medians over rounds and the ratio, with its smallest and largest. Without traces it makes one: operators, calls and
kernels of PyTorch's JSON, converted by `pitot convert`.

Exit status: 0 done, 1 a program failed, 2 bad usage.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tools/perfetto_reader'))
from perfetto_query import PerfettoReader  # noqa: E402  pylint: disable=wrong-import-position

TIME_LIMIT_S = 600
TICK_S = 1 / os.sysconf('SC_CLK_TCK')


def session_s(session: int) -> float:
    """CPU seconds of all living processes of a session, and of their ended children."""
    ticks = 0
    for stat in Path('/proc').glob('[0-9]*/stat'):
        try:
            fields = stat.read_text(encoding='ascii', errors='replace').rpartition(')')[2].split()
        except OSError:
            continue  # It has ended.
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks * TICK_S


def perfetto_s(trace: Path) -> float:
    with PerfettoReader(time_limit=TIME_LIMIT_S) as reader:
        before = session_s(reader.browser_pid)
        reader.open(trace)
        return session_s(reader.browser_pid) - before


def pitot_s(pitot: Path, trace: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([pitot, 'analyze', trace], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: nothing found
        raise RuntimeError(f'{pitot}: {done.stderr.strip()[-400:]}')
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def make(pitot: Path, folder: Path, kernels: int) -> Path:
    rng = random.Random(1)
    source, trace = folder / 'trace.json', folder / 'kernels.pftrace'
    with source.open('w', encoding='ascii') as out:
        out.write('{"deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, '
                  '"tid": 0, "args": {"name": "python"}}')
        cpu_us, gpu_us = 0.0, 0.0
        for i in range(kernels):
            duration_us = 5 + rng.randrange(20000) / 1000
            gpu_us = max(gpu_us, cpu_us + 8)
            host = {'ph': 'X', 'pid': 1, 'tid': 1}
            for event in (
                    {**host, 'cat': 'cpu_op', 'name': f'aten::op_{i % 40}', 'ts': cpu_us, 'dur': 9,
                     'args': {'External id': i + 1, 'Input Dims': [[64, i % 512], [i % 512, 64]]}},
                    {**host, 'cat': 'cuda_runtime', 'name': 'cudaLaunchKernel', 'ts': cpu_us + 2, 'dur': 5,
                     'args': {'External id': i + 1, 'correlation': i + 1}},
                    {'ph': 'X', 'pid': 0, 'tid': 7, 'cat': 'kernel', 'name': f'void gemm_{i % 60}<float, {i % 60}>(float*)',
                     'ts': gpu_us, 'dur': duration_us,
                     'args': {'External id': i + 1, 'correlation': i + 1, 'device': 0, 'context': 1, 'stream': 7,
                              'grid': [i % 500 + 1, 1, 1], 'block': [256, 1, 1], 'registers per thread': 32, 'shared memory': 0}}):
                out.write(',\n' + json.dumps(event))
            cpu_us, gpu_us = cpu_us + 10, gpu_us + duration_us + 1
        out.write(']}')
    subprocess.run([pitot, 'convert', source, '--to', 'perfetto', '-o', trace], check=True, capture_output=True)
    source.unlink()
    return trace


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('traces', nargs='*', type=Path, help='Perfetto traces')
    parser.add_argument('--pitot', type=Path, default=ROOT / 'build/release/bin/pitot', help='the command line tool (default: %(default)s)')
    parser.add_argument('--rounds', type=int, default=5, help='rounds (default: %(default)s)')
    parser.add_argument('--kernels', type=int, default=620000, help='kernels of the trace that is made (default: %(default)s)')
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            traces = options.traces or [make(options.pitot, Path(folder), options.kernels)]
            for trace in traces:
                rounds = [(pitot_s(options.pitot, trace), perfetto_s(trace)) for _ in range(options.rounds)]
                pitot, perfetto = (statistics.median(row[i] for row in rounds) for i in range(2))
                ratios = sorted(row[1] / row[0] for row in rounds)
                print(f'{trace.name}, {trace.stat().st_size / 1e6:.0f} MB: pitot {pitot:.2f} s '
                      f'[{min(r[0] for r in rounds):.2f}, {max(r[0] for r in rounds):.2f}], perfetto {perfetto:.2f} s '
                      f'[{min(r[1] for r in rounds):.2f}, {max(r[1] for r in rounds):.2f}]: '
                      f'{statistics.median(ratios):.2f} x [{ratios[0]:.2f}, {ratios[-1]:.2f}]', flush=True)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f'against_perfetto: {error}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
