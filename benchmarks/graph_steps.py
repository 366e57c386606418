#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of the default set for a C++ program that replays a CUDA graph: processes of several arms, in turn.

Starts a process of each arm of benchmarks/graph_steps.cc, a few times (--starts). `never again` is a second process without a recorder:
the noise. In each round every process works for a block of steps, in shuffled order. The cost of a process is the median
over rounds of its block's median step relative to that of its start's `never`. The table has, for each arm, the costs of its starts, and
the median, least and most of them. Rounds of one start are alike, and say nothing of the next start: so no interval is made of them.

Needs a GPU; cmake --build BUILD --target graph_steps makes the program.
"""

import argparse
import random
import statistics
import subprocess
import sys

ARMS = ('never', 'never again', 'recorder', 'waits', 'layers', 'counters', 'default', 'divided_6', 'divided')


class Process:
    """A process of an arm."""

    def __init__(self, program, arm):
        self.arm, self.blocks = arm, []
        self.process = subprocess.Popen([program, arm.split()[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def work(self, requests, counts):
        self.process.stdin.write(f'{requests}\n')
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f'{self.arm}: the process ended with {self.process.wait()}')
        if counts:
            self.blocks.append(float(line))

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program', help='the program graph_steps')
    parser.add_argument('--starts', type=int, default=3, help='of each arm (default 3)')
    parser.add_argument('--rounds', type=int, default=40, help='of blocks for each start (default 40)')
    parser.add_argument('--requests', type=int, default=6, help='of 64 steps in a block (default 6)')
    parser.add_argument('--arms', default=','.join(ARMS), help='to compare (default all); never is always among them')
    options = parser.parse_args()
    arms = [arm for arm in ARMS if arm == 'never' or arm in options.arms.split(',')]
    costs, never = {arm: [] for arm in arms}, []
    for start in range(options.starts):
        processes = [Process(options.program, arm) for arm in arms]
        for one in range(options.rounds + 2):
            for process in random.Random(start * 1000 + one).sample(processes, len(processes)):
                process.work(options.requests, one >= 2)
        for process in processes:
            process.end()
        base = processes[0].blocks
        never.append(statistics.median(base))
        for process in processes:
            costs[process.arm].append(statistics.median(block / usual for block, usual in zip(process.blocks, base)))
        print(f'start {start + 1} of {options.starts}: a step of never takes {never[-1]:.1f} us', file=sys.stderr, flush=True)
    print('| arm | ' + ' | '.join(f'start {i + 1}' for i in range(options.starts)) + ' | median (least to most) |')
    print('|---|' + '---|' * (options.starts + 1))
    for arm in arms:
        print(f'| {arm} | ' + ' | '.join(f'{cost:.4f}' for cost in costs[arm]) +
              f' | {statistics.median(costs[arm]):.4f} ({min(costs[arm]):.4f} to {max(costs[arm]):.4f}) |')
    print(f'\nA step of never takes {", ".join(f"{one:.1f}" for one in never)} us.')


if __name__ == '__main__':
    main()
