#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pitot and torch.profiler in one process, in every order. Each order runs in a process of its own; prints a table.

Needs a GPU, PyTorch with CUDA and the Python package pitot. Exit status: 0 when in each order torch.profiler saw its kernels,
Pitot recorded before and after, and said in words what it did in between; 77 without a GPU.
"""

import os
import subprocess
import sys
import tempfile
import time

ORDERS = {
    "pitot, then the profiler": "pitot work profile work",
    "the profiler, then pitot": "profile pitot work",
    "pitot in the middle of a profile": "begin pitot work end work",
    "pitot pauses for the profiler": "pitot work pause profile resume work",
    "pitot stops, then the profiler": "pitot work stop profile",
    "pitot, three profiles in a row": "pitot work profile work profile work profile work",
}
KERNELS = 50


class Process:
    """What an order does, a word at a time."""

    def __init__(self, folder):
        import pitot  # pylint: disable=import-outside-toplevel
        import torch  # pylint: disable=import-outside-toplevel
        self.pitot, self.torch, self.folder = pitot, torch, folder
        self.recorder = self.profiler = None
        self.profiles, self.reports = [], []

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

    def do_work(self):
        time.sleep(0.2)  # Pitot looks every 20 ms who has CUPTI
        begin = time.time()
        self.kernels()
        time.sleep(0.1)
        self.recorder.trigger("look")
        self.recorder.flush()
        newest = sorted(os.listdir(self.folder))[-1]
        with open(os.path.join(self.folder, newest, "report.txt"), encoding="utf-8") as report:
            self.reports.append((begin, report.read()))

    def do_begin(self):
        activities = [self.torch.profiler.ProfilerActivity.CUDA]
        self.profiler = self.torch.profiler.profile(activities=activities)
        self.profiler.__enter__()
        self.kernels()

    def do_end(self):
        self.kernels()
        self.profiler.__exit__(None, None, None)
        seen = sum(event.count for event in self.profiler.key_averages()
                   if event.device_type == self.torch.autograd.DeviceType.CUDA)
        self.profiles.append(seen)

    def do_profile(self):
        self.do_begin()
        self.do_end()

    def do_pause(self):
        if not self.recorder.pause_cupti():
            raise RuntimeError("pause")

    def do_resume(self):
        status = self.recorder.resume_cupti()
        if not status:
            raise RuntimeError(status.message)

    def do_stop(self):
        self.recorder.stop()


def run(order):
    with tempfile.TemporaryDirectory() as folder:
        process = Process(folder)
        for word in ORDERS[order].split():
            getattr(process, f"do_{word}")()
        for seen in process.profiles:
            print(f"profile {seen}")
        for _, report in process.reports:
            recorded = [line for line in report.splitlines() if "gemm" in line or "sgemm" in line or "cutlass" in line]
            said = [line.strip() for line in report.splitlines() if line.strip().startswith("cupti ")]
            print(f"recorded {'yes' if recorded else 'no'} {' '.join(said)}")
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
        profiles = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("profile")]
        recorded = [line for line in done.stdout.splitlines() if line.startswith("recorded")]
        works = [line.split()[1] for line in recorded]
        # What is recorded while somebody else profiles is nobody's promise.
        asked = works[1:] if ORDERS[order].startswith("begin") else works
        is_well = done.returncode == 0 and all(seen >= 2 * KERNELS for seen in profiles) and "no" not in asked
        failures += not is_well
        print(f"{'ok  ' if is_well else 'FAIL'} {order:<36} exit {done.returncode}, profiler saw {profiles}, Pitot recorded "
              f"{works}", flush=True)
        for line in recorded if is_well else (done.stdout + done.stderr).splitlines()[-12:]:
            print(f"       {line}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
