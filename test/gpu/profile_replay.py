#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels measured with replay by CUPTI: a launch with side effects still counts once, and has all values.

A thread adds one to every element of a tensor, again and again. Replay would add more if it did not put memory back. Prints
the values with and without replay. Needs a GPU, PyTorch with CUDA and the Python package pitot. Exit status: 0 if the sum is right and
each value was measured, 77 without a GPU.
"""

import sys
import tempfile
import threading

try:
    import pitot
    import torch
except ImportError as missing:
    sys.exit(f"profile_replay.py needs PyTorch with CUDA and the Python package pitot (PYTHONPATH=bindings/python, PITOT_LIBRARY): {missing}")

LAUNCHES = 22  # two rounds of all metrics without replay
SKIPPED = 77
ELEMENTS = 32 << 20  # 128 MiB: more than L2 holds
FIELDS = ("duration_ns", "achieved_occupancy_percent", "dram_percent", "dram_read_bytes", "dram_written_bytes", "l2_hit_percent",
          "sm_percent")


class Adder:
    """A thread adds one to a tensor until the block ends."""

    def __init__(self):
        self.tensor = torch.zeros(ELEMENTS, device="cuda")
        self.added, self.ends = 0, threading.Event()
        self.thread = threading.Thread(target=self.work)

    def work(self):
        while not self.ends.is_set():
            self.tensor.add_(1)
            self.added += 1
            torch.cuda.synchronize()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.ends.set()
        self.thread.join()


def main():
    if not torch.cuda.is_available():
        print("SKIP: no GPU")
        return SKIPPED
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        recorder = pitot.start(folder, gpu=True)
        torch.ones(1, device="cuda")
        for replay in (pitot.ProfileReplay.NONE, pitot.ProfileReplay.KERNEL):
            with Adder() as adder:
                profile = pitot.profile_kernels("elementwise", launches=LAUNCHES, replay=replay, timeout_ms=60000)
            least, most = adder.tensor.min().item(), adder.tensor.max().item()
            kernel = profile.kernels[0] if profile.kernels else None
            missing = [field for field in FIELDS if kernel is None or getattr(kernel, field) is None]
            is_right = bool(profile) and not missing and least == most == adder.added
            failed += not is_right
            print(f"{'ok  ' if is_right else 'FAIL'} replay {replay.name}: {profile.launches_measured} of {profile.launches_seen} launches "
                  f"measured, {profile.launches_disturbed} disturbed; added {adder.added}, elements from {least:.0f} to {most:.0f}"
                  + (f"; not measured: {', '.join(missing)}" if missing else "")
                  + ("" if profile else f"; {profile.status.message}"))
            if kernel is not None:
                print("     " + ", ".join(f"{field} {getattr(kernel, field):.6g}" for field in FIELDS if field not in missing))
        recorder.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
