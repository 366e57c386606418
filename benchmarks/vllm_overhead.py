#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording costs a stock vLLM: time per token and CPU time, with integrations/vllm and without.

usage: benchmarks/vllm_overhead.py OUT [--seconds N] [--seed N] [--engine fake] [--arm NAME:VARIABLE=VALUE,...]
                                   [--leave-out ARM]
       benchmarks/vllm_overhead.py OUT --table

Each arm is an engine in a process of its own. They take turns in short blocks of 8 and of 64 requests, in an order drawn anew each
round, on the same CPU, while the others have nothing to do. Ratios are to the mean of both arms `off` in the same round. OUT/results.json
has all blocks. The table has medians over rounds, and 95 % intervals of the ratios' medians by bootstrap. "Quiet" is the ratio of
the lower quartiles over rounds: blocks of virtual machines can have two speeds. An arm without a running recorder fails, if it
should have one.

Arms:
  off, off again   vLLM alone: how far two equal arms lie apart
  hooks            its methods are wrapped, no recorder runs
  default          requests, steps, host, GPU and why
  no why           the same without why
  ctypes           default, with calls through ctypes
  kernels          default at depth kernels
--arm adds one: default with other variables of the environment. PITOT_OVERHEAD_OPTIONS has options of pitot.start, as JSON without
a comma. --leave-out takes one away; `off` and `off again` stay.

Needs a GPU and, in PYTHONPATH, vLLM, tools/accuracy/vllm_plugin, and Pitot's package with integrations/vllm in it. --engine fake needs
neither GPU nor vLLM.
"""

import argparse
import json
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

WIDTHS, PROMPT, ANSWER = (8, 64), 128, 96
ARMS: Dict[str, Dict[str, str]] = {
    'off': {'PITOT_VLLM': '0'}, 'off again': {'PITOT_VLLM': '0'}, 'hooks': {'PITOT_VLLM': 'hooks'}, 'default': {},
    'no why': {'PITOT_VLLM_RECORD': 'gpu,host'}, 'ctypes': {'PITOT_CALLS': 'ctypes'}, 'kernels': {'PITOT_VLLM_RECORD': 'gpu,host,why,kernels'}}
NO_INCIDENTS = {'PITOT_VLLM_GAP_MS': '1000000', 'PITOT_VLLM_FIRST_TOKEN_MS': '1000000'}
OPTIONS = 'PITOT_OVERHEAD_OPTIONS'
READY_S, BLOCK_S, END_S = 200, 60, 20  # END_S: left for statistics and files
SAVE_EVERY = 10  # rounds
RESAMPLES = 2000
METRICS = {'time': 's', 'ITL p50': 'p50_ms', 'ITL p99': 'p99_ms', 'CPU': 'cpu_s'}  # per token, as a block has equally many everywhere


# ---- An arm's process

def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def run_block(engine: Any, number: int, width: int, words: List[int]) -> Dict[str, float]:
    """`width` requests at once, from the first one's arrival to the last one's end."""
    gaps: List[float] = []
    last: Dict[str, float] = {}
    tokens, left, cpu_s, begin_s = 0, width, time.process_time(), time.perf_counter()
    for place in range(width):
        at = (131 * (number * 64 + place)) % (len(words) - PROMPT)
        engine.add(f'b{number}x{place}', words[at:at + PROMPT], ANSWER)
    while left:
        outputs = engine.step()
        now_s = time.perf_counter()
        for name, count, is_over in outputs:
            if count:
                if name in last:
                    gaps.append(now_s - last[name])
                last[name] = now_s
            tokens += count
            left -= is_over
    return {'tokens': tokens, 's': time.perf_counter() - begin_s, 'cpu_s': time.process_time() - cpu_s, 'p50_ms': 1e3 * quantile(gaps, 0.5),
            'p99_ms': 1e3 * quantile(gaps, 0.99)}


def serve(kind: str) -> None:
    """Runs blocks as a line on stdin asks for them. A line of 0 ends it."""
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)  # others' output goes to the log

    def answer(**fields: Any) -> None:
        answers.write(json.dumps(fields) + '\n')
        answers.flush()

    begin_s = time.perf_counter()
    import pitot.vllm
    pitot.vllm.options.update(json.loads(os.environ.get(OPTIONS, '{}')))
    if kind == 'fake':
        import fake_engine
        engine: Any = fake_engine.Engine()
    else:
        import driver
        engine = driver.Stock()
    from pitot import _recorder
    is_recording = _recorder._current() is not None
    if not is_recording and not os.environ.get('PITOT_VLLM'):
        sys.exit('no recorder runs')
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # this thread alone
    answer(ready_s=time.perf_counter() - begin_s, is_native=pitot.is_native, is_recording=is_recording)
    words = [random.Random(7).randrange(10, 31000) for _ in range(64 * PROMPT)]
    for number, line in enumerate(sys.stdin):
        if int(line) == 0:
            break
        answer(**run_block(engine, number, int(line), words))
    answer(**engine.stop())
    os._exit(0)  # vLLM's own end takes long


class Arm:
    def __init__(self, name: str, kind: str, environment: Dict[str, str], folder: Path) -> None:
        self.name, self.log = name, folder / f'{name}.log'
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen([sys.executable, __file__, str(folder), '--engine', kind, '--serve'], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=log, text=True,
                                            env={**os.environ, **NO_INCIDENTS, 'PITOT_INCIDENT_DIRECTORY': str(folder / name), **environment})

    def read(self, limit_s: float) -> Optional[Dict[str, Any]]:
        """Its next answer. None: it failed."""
        is_there = select.select([self.process.stdout], [], [], limit_s)[0]
        line = self.process.stdout.readline() if is_there else ''  # type: ignore[union-attr]
        if line:
            return dict(json.loads(line))
        self.process.kill()
        return None

    def ask(self, width: int) -> Optional[Dict[str, Any]]:
        try:
            self.process.stdin.write(f'{width}\n')  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]
        except OSError:
            return None
        return self.read(BLOCK_S)

    def said(self) -> str:
        return self.log.read_text(encoding='utf-8', errors='replace')[-3000:]


# ---- All arms

def read_arm(text: str) -> Tuple[str, Dict[str, str]]:
    name, _, variables = text.partition(':')
    return name, dict(variable.split('=', 1) for variable in variables.split(','))  # type: ignore[arg-type]


def measure(options: argparse.Namespace) -> None:
    begin_s = time.perf_counter()
    results: Dict[str, Any] = {'seed': options.seed, 'cores': len(os.sched_getaffinity(0)), 'arms': {}, 'blocks': []}
    options.out.mkdir(parents=True, exist_ok=True)

    def elapsed_s() -> float:
        return time.perf_counter() - begin_s

    def save() -> None:
        (options.out / 'results.json').write_text(json.dumps(results), encoding='utf-8')

    with tempfile.TemporaryDirectory() as name:
        arms = [Arm(name_of, options.engine, environment, Path(name)) for name_of, environment in {**ARMS, **dict(options.arm)}.items()
                if name_of not in options.leave_out]
        for arm in arms:
            ready = arm.read(max(1.0, READY_S - elapsed_s()))
            results['arms'][arm.name] = ready or {'failed': arm.said()}
            print(f'{elapsed_s():.0f} s: {arm.name}: {json.dumps(ready) if ready else arm.said()}', flush=True)
        arms = [arm for arm in arms if 'failed' not in results['arms'][arm.name]]
        draws, number, longest_s = random.Random(options.seed), 0, 0.0
        while arms and elapsed_s() + 1.5 * longest_s + END_S < options.seconds:
            round_begin_s = elapsed_s()
            for width in WIDTHS:
                draws.shuffle(arms)
                for arm in list(arms):
                    block = arm.ask(width)
                    if block is None:
                        results['arms'][arm.name]['failed'] = arm.said()
                        arms.remove(arm)
                    elif number > 0:  # the first round warms up
                        results['blocks'].append({'round': number, 'arm': arm.name, 'width': width, **block})
            longest_s = max(longest_s, elapsed_s() - round_begin_s) if number > 0 else 0.0
            number += 1
            if number % SAVE_EVERY == 0:
                save()
        save()
        for arm in arms:
            results['arms'][arm.name]['end'] = arm.ask(0) if elapsed_s() < options.seconds else None
            results['arms'][arm.name]['log'] = arm.said()
        for arm in arms:
            arm.process.kill()
    save()
    print(f'{elapsed_s():.0f} s: {number - 1} rounds', flush=True)


# ---- The table

def interval_of(values: Sequence[Any], statistic: Callable[[Sequence[Any]], float], draws: random.Random) -> str:
    """The statistic, and its 95 % interval."""
    resampled = sorted(statistic(draws.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return f'{statistic(values):.3f} ({resampled[int(0.025 * RESAMPLES)]:.3f} to {resampled[int(0.975 * RESAMPLES)]:.3f})'


def quiet(pairs: Sequence[Tuple[float, List[float]]]) -> float:
    """An arm's lower quartile over rounds relative to the mean of the arms off."""
    return quantile([mine for mine, _ in pairs], 0.25) / statistics.mean(quantile(arm, 0.25) for arm in zip(*(others for _, others in pairs)))


def table(results: Dict[str, Any]) -> str:
    draws = random.Random(1)
    lines = []
    for width in WIDTHS:
        rounds: Dict[int, Dict[str, Dict[str, float]]] = {}
        for block in results['blocks']:
            if block['width'] == width:
                rounds.setdefault(block['round'], {})[block['arm']] = block
        whole = [one for one in rounds.values() if len(one) == max(map(len, rounds.values()))]
        lines += [f'{width} requests, {len(whole)} rounds, {results["cores"]} cores', '',
                  '| arm | ITL p50, ms | p99, ms | us a step more | CPU, us a token | ' + ' | '.join(METRICS) + ' | quiet |', '|' + '---|' * (6 + len(METRICS))]
        for arm in results['arms']:
            of_arm = [one for one in whole if arm in one and 'off' in one and 'off again' in one]
            if not of_arm:
                continue

            def off(one: Dict[str, Dict[str, float]], field: str) -> float:
                return statistics.mean(offs(one, field))

            def offs(one: Dict[str, Dict[str, float]], field: str) -> List[float]:
                return [one[name][field] for name in (('off',) if arm == 'off again' else ('off', 'off again'))]

            def median(value: Callable[[Dict[str, Dict[str, float]]], float]) -> float:
                return statistics.median(map(value, of_arm))

            cells = [f'{median(lambda one: one[arm]["p50_ms"]):.3f}', f'{median(lambda one: one[arm]["p99_ms"]):.2f}',
                     '' if arm == 'off' else f'{1e3 * median(lambda one: one[arm]["p50_ms"] - off(one, "p50_ms")):.0f}',
                     f'{1e6 * median(lambda one: one[arm]["cpu_s"] / one[arm]["tokens"]):.1f}']
            if arm == 'off':
                cells += ['1'] * (len(METRICS) + 1)
            else:
                cells += [interval_of([one[arm][field] / off(one, field) for one in of_arm], statistics.median, draws) for field in METRICS.values()]
                cells.append(interval_of([(one[arm]['p50_ms'], offs(one, 'p50_ms')) for one in of_arm], quiet, draws))
            lines.append(f'| {arm} | ' + ' | '.join(cells) + ' |')
        lines.append('')
    lines += [f'* {arm} failed: {(said["failed"].strip().splitlines() or ["?"])[-1]}' for arm, said in results['arms'].items() if 'failed' in said]
    return '\n'.join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('out', type=Path, metavar='OUT')
    parser.add_argument('--seconds', type=float, default=540, help='in all, with the start of the engines')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--engine', choices=('vllm', 'fake'), default='vllm')
    parser.add_argument('--arm', action='append', type=read_arm, default=[], metavar='NAME:VARIABLE=VALUE,...')
    parser.add_argument('--leave-out', action='append', default=[], choices=sorted(ARMS.keys() - {'off', 'off again'}), metavar='ARM')
    parser.add_argument('--table', action='store_true', help='only print the table of OUT/results.json')
    parser.add_argument('--serve', action='store_true', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.engine)
    if not options.table:
        measure(options)
    text = table(json.loads((options.out / 'results.json').read_text(encoding='utf-8')))
    (options.out / 'table.md').write_text(text + '\n', encoding='utf-8')
    print(text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
