#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What verdicts say of faults in a batching Python server with the default set: no kernels, no names of theirs.

Clients wait for a thread with batches of ResNet-50. From time to time something holds up a batch, and the program notes it: the GPU's
time or the host's. Afterwards `pitot why` judges each incident. Prints for each fault what is named as
the root, and how often code is named, at confidence 0.5 or more, where the GPU held up the batch.

Needs a GPU, PyTorch with CUDA, the Python package pitot and the command line tool (PITOT_TOOL). Exit status: 1 if code is named for a
fault of the GPU, 77 without a GPU.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import queue
import sys
import tempfile
import threading
import time

from torch_tables import tool

SKIPPED = 77
SLOW_MS = 30
CODE = ("host_oncpu_pre", "host_oncpu_framework", "host_oncpu_post")
# The right parts of each fault.
RIGHT = {"products on a stream beside": ("gpu_exec_expected", "gpu_contention", "gpu_queue_wait_others", "gpu_excess_unknown"),
         "products of the batch on a side stream": ("gpu_exec_expected", "gpu_contention", "gpu_queue_wait_others", "gpu_excess_unknown"),
         "products before a poll": ("gpu_exec_expected", "gpu_contention", "gpu_queue_wait_others", "gpu_excess_unknown"),
         "pageable copy": ("h2d",), "allocations": ("alloc_stall",), "code": CODE, "sleep": ("host_blocked_unknown",)}
OF_HOST = ("code", "sleep")


class Server:
    """Clients, a queue, and a thread with batches."""

    def __init__(self, torch, pitot, model, clients):
        self.torch, self.pitot, self.model = torch, pitot, model
        self.jobs, self.ends, self.fault = queue.Queue(), threading.Event(), None
        self.side = torch.cuda.Stream()
        self.matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.half)
        self.pageable = torch.ones(128 << 20)  # 512 MiB
        self.images = torch.randn(clients, 3, 224, 224, device="cuda", dtype=torch.half)
        self.threads = [threading.Thread(target=self.ask) for _ in range(clients)] + [threading.Thread(target=self.serve)]
        self.struck = []  # begin and end of each fault, and its name

    def products(self, count, stream):
        with self.torch.cuda.stream(stream):
            for _ in range(count):
                self.matrix @ self.matrix  # pylint: disable=pointless-statement

    def do(self, fault):
        """What holds up the batch, on its thread."""
        if fault == "products of the batch on a side stream":
            self.products(30, self.side)
            self.torch.cuda.current_stream().wait_stream(self.side)
        elif fault == "products before a poll":
            self.products(30, self.torch.cuda.current_stream())
            while not self.torch.cuda.current_stream().query():
                pass
        elif fault == "pageable copy":
            self.pageable.to("cuda")
        elif fault == "allocations":
            for _ in range(30):
                self.torch.empty(600 << 20, dtype=self.torch.uint8, device="cuda")
                self.torch.cuda.empty_cache()
        elif fault == "code":
            until = time.monotonic() + 0.06
            while time.monotonic() < until:
                pass
        elif fault == "sleep":
            time.sleep(0.06)

    def ask(self):
        while not self.ends.is_set():
            with self.pitot.Request("/classify") as request:
                done = threading.Event()
                self.jobs.put((request.enqueue("images"), done))
                done.wait(10)

    def serve(self):
        with self.torch.inference_mode():
            while not self.ends.is_set():
                try:
                    jobs = [self.jobs.get(timeout=0.2)]
                except queue.Empty:
                    continue
                time.sleep(0.001)
                while not self.jobs.empty() and len(jobs) < len(self.images):
                    jobs.append(self.jobs.get())
                with self.pitot.Batch("resnet50") as batch:
                    for token, _ in jobs:
                        batch.join(token)
                    fault, self.fault = self.fault, None
                    begin = time.monotonic_ns()
                    with self.pitot.scope("forward"):
                        if fault is not None:
                            self.do(fault)
                        answer = self.model(self.images[:len(jobs)])
                    with self.pitot.scope("answer"):
                        answer.cpu()
                    if fault is not None:
                        self.struck.append((begin, time.monotonic_ns(), fault))
                for _, done in jobs:
                    done.set()

    def run(self, faults, rounds, pause_s):
        with self.torch.inference_mode():  # each size of a batch once: cuDNN tries its algorithms then
            for size in range(1, len(self.images) + 1):
                self.model(self.images[:size]).cpu()
        for thread in self.threads:
            thread.start()
        time.sleep(3)
        for fault in itertools.chain.from_iterable([faults] * rounds):
            if fault == "products on a stream beside":
                begin = time.monotonic_ns()
                self.products(30, self.side)
                self.side.synchronize()
                self.struck.append((begin, time.monotonic_ns(), fault))
            else:
                self.fault = fault
            time.sleep(pause_s)
        self.ends.set()
        for thread in self.threads:
            thread.join()


def judge(incident):
    """The verdict of an incident; None if its dump cannot be judged."""
    try:
        return tool("why", incident)
    except RuntimeError:
        return None


def named(verdict):
    """The part of the root, or the first cause; and its confidence. ("undetermined", 0) where nothing is claimed."""
    if verdict is None or verdict["verdict"] == "undetermined" or not verdict["causes"]:
        return "undetermined" if verdict is None else verdict["verdict"], 0
    root = verdict.get("root") or verdict["causes"][0]
    return root["blame"], root["confidence"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="of each fault (default: %(default)s)")
    parser.add_argument("--pause-s", type=float, default=1.1, help="between faults (default: %(default)s)")
    parser.add_argument("--keep", help="a folder for the incidents")
    options = parser.parse_args()
    import torch  # pylint: disable=import-outside-toplevel
    if not torch.cuda.is_available():
        print("SKIP: no GPU")
        return SKIPPED
    import pitot  # pylint: disable=import-outside-toplevel
    from gpu_overhead import on_gpu, resnet50  # pylint: disable=import-outside-toplevel
    with tempfile.TemporaryDirectory() as folder:
        folder = options.keep or folder
        recorder = pitot.start(folder, gpu=True, max_incidents_per_cause_and_hour=100_000, max_incidents_kept=100_000,
                               max_incident_directory_bytes=8 << 30, pre_window_ms=3000, worker_cpu_percent=100)
        recorder.add_host()
        recorder.add_latency_trigger("/classify", above_ms=SLOW_MS, cool_down_ms=300)
        server = Server(torch, pitot, on_gpu(resnet50()), 8)
        server.run(list(RIGHT), options.rounds, options.pause_s)
        recorder.flush()
        recorder.stop()
        incidents = sorted(os.path.join(folder, name) for name in os.listdir(folder) if not name.startswith("."))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            verdicts = list(pool.map(judge, incidents))
        return show(server.struck, incidents, verdicts)


def show(struck, incidents, verdicts):
    counts, false = collections.defaultdict(collections.Counter), 0
    for incident, verdict in zip(incidents, verdicts):
        fired = tool("info", incident)["firings"][0]["at_ns"] if verdict else 0
        fault = next((what for begin, end, what in struck if begin <= fired <= end + 100_000_000), None)
        part, confidence = named(verdict)
        counts[fault][part] += 1
        if fault is not None and fault not in OF_HOST and part in CODE and confidence >= 0.5:
            false += 1
            print(f"code named for {fault}: {os.path.basename(incident)}, confidence {confidence:.2f}")
    for fault, parts in sorted(counts.items(), key=str):
        right = sum(count for part, count in parts.items() if part in RIGHT.get(fault, ()))
        print(f"{fault}: {sum(parts.values())} incidents, right {right}, undetermined {parts['undetermined']}: "
              + ", ".join(f"{part} {count}" for part, count in parts.most_common()))
    of_gpu = sum(sum(parts.values()) for fault, parts in counts.items() if fault is not None and fault not in OF_HOST)
    print(f"code named for a fault of the GPU: {false} of {of_gpu}")
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
