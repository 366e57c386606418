#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of the default set for PyTorch's models: blocks of iterations with its collectors recording and paused, in turn.

Equal processes differ by several percent on a shared machine, so one process is compared with itself. In each round every arm has a
block of iterations, in shuffled order: `off` and `off again` with the collectors paused, then each collector alone, and all of them
(`default`). A block begins when the collectors have settled. The cost of an arm is the median over rounds of its block's median
iteration relative to that of `off`, with the 95 % interval of that median (order statistics).

What stays while the collectors are paused is in `off`, too: the recorder, its calls, and the replaced functions of CUDA. graph_steps.py
compares with processes without a recorder.

Needs a GPU, PyTorch with CUDA and the Python package pitot (PYTHONPATH=bindings/python, PITOT_LIBRARY).
"""

import argparse
import random
import statistics
import sys
import tempfile
import time

from gpu_overhead import pitot, torch, workloads

COLLECTORS = ("cuda_calls", "cuda_events", "counters")
ARMS = {"off": (), "off again": (), **{name: (name,) for name in COLLECTORS}, "default": COLLECTORS}
SETTLE_S = 0.15  # the counters' first samples come 20 to 130 ms after their start


class Switch:
    """Pauses and resumes collectors."""

    def __init__(self, recorder):
        self.recorder, self.on = recorder, set(COLLECTORS)

    def to(self, arm):
        for name in COLLECTORS:
            if (name in ARMS[arm]) == (name in self.on):
                continue
            is_on = name in ARMS[arm]
            status = self.recorder.resume(name) if is_on else self.recorder.pause(name)
            if not status:
                sys.exit(f"gpu_default: {name}: {status.message}")
            (self.on.add if is_on else self.on.discard)(name)
        time.sleep(SETTLE_S)


def block(function, iterations):
    """The median time of an iteration, in ms, after three that do not count."""
    times = []
    for _ in range(iterations + 3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with pitot.Request("/model") as request, pitot.Batch("model") as batch:
            batch.join(request.token)
            with pitot.scope("forward"):
                function()
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times[3:])


def interval(values):
    """The 95 % interval of the median, by order statistics."""
    values, n = sorted(values), len(values)
    half = 0.98 * n ** 0.5
    return values[max(0, int(n / 2 - half))], values[min(n - 1, int(n / 2 + half))]


def measure(function, switch, options):
    """Each arm's ratios to `off` of the same round, and the times of `off`."""
    ratios, off = {arm: [] for arm in ARMS}, []
    order = random.Random(options.seed)
    for _ in range(options.rounds):
        times = {}
        for arm in order.sample(list(ARMS), len(ARMS)):
            switch.to(arm)
            times[arm] = block(function, options.iterations)
        off.append(times["off"])
        for arm in ARMS:
            ratios[arm].append(times[arm] / times["off"])
    return ratios, off


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="blocks of each arm (default: %(default)s)")
    parser.add_argument("--iterations", type=int, default=20, help="iterations of a block (default: %(default)s)")
    parser.add_argument("--workloads", default="b1", help="only workloads with this in their name (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of arms (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recorder = pitot.start(folder)
        status = recorder.enable_gpu()
        if not status:
            sys.exit(f"gpu_default: {status.message}")
        print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, PyTorch {torch.__version__}", flush=True)
        switch = Switch(recorder)
        with torch.inference_mode():
            for name, function in workloads(options.workloads).items():
                for _ in range(30):
                    function()
                ratios, off = measure(function, switch, options)
                print(f"\n{name}: {statistics.median(off):.3f} ms off", flush=True)
                for arm in ARMS:
                    if arm == "off":
                        continue
                    low, high = interval(ratios[arm])
                    print(f"  {arm:<12} {statistics.median(ratios[arm]):.4f} ({low:.4f} to {high:.4f})  n={len(ratios[arm])}", flush=True)
        recorder.stop()


if __name__ == "__main__":
    main()
