#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The speed of `pitot analyze` next to HolisticTraceAnalysis, on the same traces, in turns. Prints a table.

Both read the trace and answer the questions that both know: where the time of GPUs went, why they were idle, launches, queues of
streams, copies, sequences of kernels. The table has the CPU time of one thread, medians over rounds. HTA's time excludes Python's
start and the import of HTA; Pitot's is the time of the analyses and, for reading, the rest of the program. Behind each pair stands
how much faster Pitot is, with the smallest and largest of the rounds. Time spent on a question that HTA cannot answer is not counted.

Needs a Python with the package HolisticTraceAnalysis 0.5.0 and pandas before 3 (--python), and a built `pitot` (--pitot).
Exit status: 0 done, 1 a program failed, 2 bad usage.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ANALYZERS = {'temporal breakdown': 'a01', 'idle time': 'a04', 'launches': 'a10', 'queues': 'a11', 'copies': 'a06', 'sequences': 'a12'}
# HTA's names of the questions. Each runs in the thread whose CPU time is read.
OF_HTA = '''
import contextlib, json, logging, os, sys, tempfile, time
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
def now(): return time.process_time()
seconds = {}
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), tempfile.TemporaryDirectory() as folder:
    begin = now()
    analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
    seconds["read"] = now() - begin
    for name, call in (
            ("temporal breakdown", lambda: analysis.get_temporal_breakdown(visualize=False)),
            ("idle time", lambda: analysis.get_idle_time_breakdown(ranks=[0], visualize=False)),
            ("launches", lambda: analysis.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)),
            ("queues", lambda: analysis.get_queue_length_summary(ranks=[0])),
            ("copies", lambda: analysis.get_memory_bw_summary(ranks=[0])),
            ("sequences", lambda: analysis.get_frequent_cuda_kernel_sequences(
                operator_name="aten", output_dir=folder, visualize=False))):
        begin = now()
        try:
            call()
            seconds[name] = now() - begin
        except Exception as error:  # HTA cannot answer for every trace
            print(name, type(error).__name__, error, file=sys.stderr)
print(json.dumps(seconds))
'''


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: 'list[str]', environment: 'dict[str, str]') -> 'tuple[float, str]':
    """CPU seconds, and the output."""
    begin = children_s()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode not in (0, 1):  # 1: nothing found
        raise RuntimeError(f'{command[0]}: {done.stderr.strip()[-400:]}')
    return children_s() - begin, done.stdout


def compared(rounds: 'list[tuple[float, float]]') -> str:
    """A cell for HTA's and Pitot's seconds."""
    faster = sorted(hta / pitot for hta, pitot in rounds)
    hta, pitot = (statistics.median(row[i] for row in rounds) for i in range(2))
    return f'{hta * 1e3:.0f} ms, {pitot * 1e3:.2f} ms: {statistics.median(faster):.0f} x [{faster[0]:.0f}, {faster[-1]:.0f}]'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('traces', nargs='+', type=Path, help='JSON of PyTorch\'s profiler')
    parser.add_argument('--python', default=sys.executable, help='a Python with HolisticTraceAnalysis (default: this one)')
    parser.add_argument('--pitot', default=str(ROOT / 'build/release/bin/pitot'), help='the command line tool (default: %(default)s)')
    parser.add_argument('--rounds', type=int, default=5, help='rounds (default: %(default)s)')
    options = parser.parse_args()
    alone = {name: '1' for name in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS')}
    print(f'{"trace":<40}  {"reading: HTA, Pitot":<42}{"analyses: HTA, Pitot":<42}')
    try:
        for trace in options.traces:
            rounds = []
            for number in range(options.rounds):
                print(f'\r{trace.name}: round {number + 1} of {options.rounds}', end='', file=sys.stderr, flush=True)
                said = run([options.python, '-c', OF_HTA, str(trace)], alone)[1].strip()
                if not said:
                    raise RuntimeError(f'HTA does not read {trace}')
                hta = json.loads(said.splitlines()[-1])
                only = ','.join(ANALYZERS[name] for name in hta if name != 'read')
                whole, found = run([options.pitot, 'analyze', str(trace), '--compat', 'hta', '--only', only, '--json'], {})
                told = json.loads(found)
                analyses = (told['index_cpu_ns'] + sum(analyzer['cpu_ns'] for analyzer in told['analyzers'])) / 1e9
                rounds.append(((hta['read'], whole - analyses), (sum(hta.values()) - hta['read'], analyses)))
            print('\r\033[K', end='', file=sys.stderr)
            print(f'{trace.name:<40}  {compared([row[0] for row in rounds]):<42}{compared([row[1] for row in rounds]):<42}', flush=True)
    except (RuntimeError, OSError, json.JSONDecodeError) as error:
        print(f'against_hta: {error}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
