#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pitot and torch.profiler in one process, in every order. Each order runs in a process of its own; prints a table.

Needs a GPU, PyTorch with CUDA, the Python package pitot and the command line tool (PITOT_TOOL). Exit status: 0 when in each order
torch.profiler saw its kernels and its calls, Pitot tied the same kernels to each request before and after, and said in words what it did in
between; 77 without a GPU. The first profile of a process, while Pitot is at `scopes`, may go unseen, and takes what is recorded for 10 s:
then nothing may be claimed (docs/guide/gpu.md).
"""

import json
import os
import subprocess
import sys
import tempfile
import time

from torch_tables import tool

ORDERS = {
    "pitot, then the profiler": "pitot work profile work",
    "the profiler, then pitot": "profile pitot work",
    "pitot in the middle of a profile": "begin pitot work end work",
    "a profile while pitot records": "pitot work begin work end work",
    "pitot pauses for the profiler": "pitot work pause profile resume work",
    "pitot stops, then the profiler": "pitot work stop profile",
    "pitot, three profiles in a row": "pitot work profile work profile work profile work",
    "pitot rests while the profiler is in use": "pitot work rest profile deepen work rest profile",
    "pitot after CUDA was in use": "cuda pitot work profile work",
    "operators, beside stacks and memory": "pitot operators work whole work profile work",
}
KERNELS = 50


def is_product(name):
    return "gemm" in name or "cutlass" in name


def read(incident, request):
    """How many kernels are tied to the request, its kernel coverage, and what is said of CUPTI."""
    found = next(row for row in tool("requests", incident, "--limit", "0")["requests"] if row["id"] == request)
    rows = tool("top", incident, "--by", "kernel", "--request", request, "--limit", "0")["rows"] if found["gpu_ns"] else []
    with open(os.path.join(incident, "report.txt"), encoding="utf-8") as report:
        said = [line.strip() for line in report if line.strip().startswith("cupti ")]
    return sum(row["calls"] for row in rows if is_product(row["name"])), found["coverage"], " ".join(said)


class Process:
    """What an order does, a word at a time."""

    def __init__(self, folder):
        import pitot  # pylint: disable=import-outside-toplevel
        import torch  # pylint: disable=import-outside-toplevel
        self.pitot, self.torch, self.folder = pitot, torch, folder
        self.recorder = self.profiler = None
        self.is_profiling = False
        self.profiled = {}  # what is asked of the profiler
        self.profiles, self.works = [], []

    def kernels(self):
        x = self.torch.ones(256, 256, device="cuda")
        for _ in range(KERNELS):
            x = x @ x
        self.torch.cuda.synchronize()

    def do_pitot(self):
        # Opened before CUDA is used where the order lets it.
        self.recorder = self.pitot.start(self.folder, depth=self.pitot.Depth.KERNELS, pre_window_ms=1000)
        status = self.recorder.add_cupti()
        if not status:
            raise RuntimeError(status.message)

    def do_cuda(self):
        self.kernels()

    def do_work(self):
        time.sleep(0.2)  # Pitot looks every 20 ms who has CUPTI
        with self.pitot.Request("/work") as request, self.pitot.Batch("model") as batch:
            batch.join(request.token)
            self.kernels()
        time.sleep(0.1)
        self.recorder.trigger("look")
        self.recorder.flush()
        newest = os.path.join(self.folder, sorted(os.listdir(self.folder))[-1])
        self.works.append((self.is_profiling, *read(newest, f"{request.id:016x}")))

    def do_rest(self):
        self.recorder.set_depth(self.pitot.Depth.SCOPES)
        self.kernels()
        time.sleep(0.2)

    def do_deepen(self):
        self.recorder.set_depth(self.pitot.Depth.KERNELS)

    def do_operators(self):
        self.recorder.set_depth(self.pitot.Depth.OPS)
        status = self.recorder.add_torch()
        if not status:
            raise RuntimeError(status.message)

    def do_whole(self):
        both = [self.torch.profiler.ProfilerActivity.CPU, self.torch.profiler.ProfilerActivity.CUDA]
        self.profiled = {"activities": both, "record_shapes": True, "with_stack": True, "profile_memory": True, "with_flops": True}
        self.do_profile()
        self.profiled = {}

    def do_begin(self):
        asked = {"activities": [self.torch.profiler.ProfilerActivity.CUDA], **self.profiled}
        self.profiler = self.torch.profiler.profile(**asked)
        self.profiler.__enter__()
        self.is_profiling = True
        self.kernels()

    def do_end(self):
        self.kernels()
        self.profiler.__exit__(None, None, None)
        self.is_profiling = False
        names = [event.name() for event in self.profiler.profiler.kineto_results.events()]
        self.profiles.append((sum(is_product(name) for name in names),
                              sum(name.startswith(("cudaLaunchKernel", "cuLaunchKernel")) for name in names)))

    def do_profile(self):
        self.do_begin()
        self.do_end()

    def do_pause(self):
        if not self.recorder.pause("cupti"):
            raise RuntimeError("pause")

    def do_resume(self):
        status = self.recorder.resume("cupti")
        if not status:
            raise RuntimeError(status.message)

    def do_stop(self):
        self.recorder.stop()


def run(order):
    with tempfile.TemporaryDirectory() as folder:
        process = Process(folder)
        for word in ORDERS[order].split():
            getattr(process, f"do_{word}")()
        print(json.dumps({"profiles": process.profiles, "works": process.works}))
        if process.recorder is not None:
            process.recorder.stop()


def main():
    if len(sys.argv) == 2:
        run(sys.argv[1])
        return 0
    try:
        import torch  # pylint: disable=import-outside-toplevel
        if not torch.cuda.is_available():
            raise ImportError("no GPU")
    except ImportError as error:
        print(f"coexistence: skipped: {error}")
        return 77
    failures = 0
    for order in ORDERS:
        done = subprocess.run([sys.executable, __file__, order], capture_output=True, text=True, timeout=120, check=False)
        seen = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"profiles": [], "works": []}
        wrong = [f"the profiler saw {kernels} kernels and {calls} launches of {2 * KERNELS}"
                 for kernels, calls in seen["profiles"] if min(kernels, calls) < 2 * KERNELS]
        works = [work for work in seen["works"] if "rest" not in ORDERS[order] or work[1:3] != [0, 0]]
        for is_profiled, tied, coverage, said in works:
            if is_profiled and "PyTorch's profiler" not in said:
                wrong.append(f"beside the profiler Pitot says '{said}'")
            if not is_profiled and (tied < KERNELS or coverage != 1):
                wrong.append(f"{tied} kernels tied, coverage {coverage}; Pitot says '{said}'")
        if len({work[1] for work in works if not work[0]}) != 1:  # a product may take two
            wrong.append("not all kernels are tied each time")
        failures += bool(wrong) or done.returncode != 0
        print(f"{'FAIL' if wrong or done.returncode != 0 else 'ok  '} {order:<42} exit {done.returncode}, the profiler saw "
              f"{seen['profiles']}, tied {[work[1] for work in seen['works']]}", flush=True)
        for line in wrong + (done.stdout + done.stderr).splitlines()[-12:] if done.returncode != 0 else wrong:
            print(f"       {line}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
