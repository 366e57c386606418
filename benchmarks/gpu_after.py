#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording a GPU leaves behind: iterations of processes that never recorded against ones that did, in turn.

What CUPTI leaves behind stays for the life of a process, so that no process can be compared with itself: two (or more) are
started that are alike but for what they did before, and take turns, one iteration each, for as many pairs as asked. The median
over pairs of one's time against that of `never` is what is left; `never again` is the noise.

Processes: never, never again (no recorder); added (Pitot with CUPTI, depth scopes all along); stepped down (the same after
half a second at depth kernels); stopped (the same, and the recorder was stopped).

Needs a GPU, PyTorch with CUDA and the Python package pitot (PYTHONPATH=bindings/python, PITOT_LIBRARY).
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

PROCESSES = ("never", "never again", "added", "stepped down", "stopped")


def serve(name, workload):
    """In a process of its own: prepares, then times an iteration for each line that is read."""
    import gpu_overhead
    import torch

    def iterate():
        torch.cuda.synchronize()
        begin = time.perf_counter()
        function()
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    folder = tempfile.TemporaryDirectory()
    recorder = None
    if not name.startswith("never"):
        recorder = gpu_overhead.pitot.start(folder.name, depth=gpu_overhead.pitot.Depth.SCOPES)
        status = recorder.add_cupti()
        if not status:
            sys.exit(f"gpu_after: {status.message}")
    with torch.inference_mode():
        function = gpu_overhead.workloads()[workload]
        for _ in range(30):
            iterate()
        if name in ("stepped down", "stopped"):
            recorder.set_depth(gpu_overhead.pitot.Depth.KERNELS)
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                iterate()
            recorder.set_depth(gpu_overhead.pitot.Depth.SCOPES)
        if name == "stopped":
            recorder.stop()
        print("ready", flush=True)
        for _ in sys.stdin:
            iterate()  # the caches are another's
            print(iterate(), flush=True)
    folder.cleanup()


def interval(values, rounds=1000):
    """The 95 % bootstrap interval of the median."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(rounds))
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10000, help="default: %(default)s")
    parser.add_argument("--workload", default="resnet50 b1", help="of gpu_overhead.py (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=500, help="stop then, with the pairs there are (default: %(default)s)")
    parser.add_argument("--json", help="write the medians to this file")
    parser.add_argument("--serve", choices=PROCESSES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.workload)

    children = {name: subprocess.Popen([sys.executable, os.path.abspath(__file__), "--serve", name, "--workload",
                                        options.workload], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for name in PROCESSES}
    times = {name: [] for name in PROCESSES}
    try:
        for name, child in children.items():
            if child.stdout.readline() != "ready\n":
                sys.exit(f"gpu_after: the process '{name}' did not start")
        rng, end = random.Random(1), time.monotonic() + options.seconds
        while len(times["never"]) < options.pairs and time.monotonic() < end:
            for name in rng.sample(PROCESSES, len(PROCESSES)):
                children[name].stdin.write("\n")
                children[name].stdin.flush()
                times[name].append(float(children[name].stdout.readline()))
    finally:
        for child in children.values():
            child.stdin.close()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
    numbers = {}
    print(f"{options.workload}: {1e3 * statistics.median(times['never']):.3f} ms, {len(times['never'])} pairs")
    for name in PROCESSES[1:]:
        ratios = [a / b for a, b in zip(times[name], times["never"])]
        low, high = interval(ratios)
        numbers[name] = {"ratio": statistics.median(ratios), "low": low, "high": high}
        print(f"  {name:<14} {statistics.median(ratios):.4f}  [{low:.4f}, {high:.4f}]")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(numbers, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
