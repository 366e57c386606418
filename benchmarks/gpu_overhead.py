#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of recording a GPU for PyTorch's models: the tables of docs/lab/gpu.md.

Runs each workload in short blocks of iterations, one block of each arm to a round, in shuffled order. An arm's cost is the median over
rounds of its block's median iteration relative to that of the arm `off` in the same round, with quartiles. The arm `off again` shows
how far two equal arms lie apart on this machine.

Arms:

  off, off again         Pitot at depth scopes
  auto, graphs, kernels  Pitot at that depth
  ops                    Pitot at that depth, with LibTorch's operators and memory (--torch)
  cupti                  CUPTI alone: activity records on, unused, Pitot paused
  callback               an empty RecordFunction callback and CUPTI alone (--callback)
  kineto, kineto-ops     PyTorch's profiler with CUDA only, and with CPU and CUDA; a few rounds

The cost of CUPTI's presence is in the arm off, too; gpu_after.py --set depths compares with processes without CUPTI. The line lasting
compares blocks at depth scopes after all arms with blocks before the first arm ever ran.

Needs a GPU, PyTorch with CUDA and the Python package pitot (PYTHONPATH=bindings/python, PITOT_LIBRARY).
"""

import argparse
import ctypes
import json
import os
import random
import statistics
import sys
import tempfile
import time

try:
    import pitot
    import torch
    from torch import nn
except ImportError as missing:
    sys.exit(f"gpu_overhead.py needs PyTorch with CUDA and the Python package pitot (PYTHONPATH=bindings/python, "
             f"PITOT_LIBRARY): {missing}")

ITERATIONS = 8
PITOT_ARMS = {"off": pitot.Depth.SCOPES, "off again": pitot.Depth.SCOPES, "auto": pitot.Depth.AUTO,
              "graphs": pitot.Depth.GRAPHS, "kernels": pitot.Depth.KERNELS, "ops": pitot.Depth.OPS}


class Bottleneck(nn.Module):
    """The block of ResNet-50: 1x1, 3x3, 1x1."""

    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.skip = nn.Identity() if stride == 1 and channels == out else nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return torch.relu_(self.body(x) + self.skip(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, depth, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(depth):
            layers.append(Bottleneck(channels, width, stride if i == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def on_gpu(model):
    return model.cuda().half().eval()


def transformer():
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 24, enable_nested_tensor=False)


def captured(function):
    """`function` as a CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def workloads(only=""):
    """The workloads whose name contains `only`, in their order."""
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.mha.set_fastpath_enabled(False)
    image = {n: torch.randn(n, 3, 224, 224, device="cuda", dtype=torch.half) for n in (1, 64)}
    text = torch.randn(1, 64, 1024, device="cuda", dtype=torch.half)
    net, encoder = on_gpu(resnet50()), on_gpu(transformer())
    makers = {"resnet50 b1": lambda: lambda: net(image[1]), "resnet50 b64": lambda: lambda: net(image[64]),
              "transformer b1": lambda: lambda: encoder(text), "transformer b1, graph": lambda: captured(lambda: encoder(text))}
    return {name: make() for name, make in makers.items() if only in name}


def iterate(function, iterations=ITERATIONS):
    """The median time of an iteration, in s, after one that does not count."""
    times = []
    for _ in range(iterations + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with pitot.Batch("model"):  # the governor measures batches
            function()
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


class Arms:
    """Switches between arms."""

    def __init__(self, recorder, alone, callback):
        self.recorder = recorder
        self.alone = alone
        self.callback = callback

    def run(self, arm, function):
        if arm in PITOT_ARMS:
            self.recorder.set_depth(PITOT_ARMS[arm])
            try:
                return iterate(function)
            finally:
                self.recorder.set_depth(pitot.Depth.SCOPES)
        if arm in ("cupti", "callback"):
            self.recorder.pause("cupti")
            if arm == "callback":
                self.callback.pitot_callback_alone(1)
            if error := self.alone.pitot_cupti_alone(1):
                sys.exit(f"gpu_overhead: CUPTI alone failed: {error}")
            try:
                return iterate(function)
            finally:
                if arm == "callback":
                    self.callback.pitot_callback_alone(0)
                self.alone.pitot_cupti_alone(0)
                status = self.recorder.resume("cupti")
                if not status:
                    sys.exit(f"gpu_overhead: {status.message}")
        activities = [torch.profiler.ProfilerActivity.CUDA]
        if arm == "kineto-ops":
            activities.append(torch.profiler.ProfilerActivity.CPU)
        with torch.profiler.profile(activities=activities):
            return iterate(function)


def quartiles(values):
    if len(values) < 2:
        return values * 3
    return statistics.quantiles(values, n=4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="blocks of each arm (default: %(default)s)")
    parser.add_argument("--kineto-rounds", type=int, default=4, help="rounds of PyTorch's profiler (default: %(default)s)")
    parser.add_argument("--arms", default="off,off again,kernels,graphs,ops,cupti,callback,kineto,kineto-ops", 
                        help="auto: before the first incident (default: %(default)s)")
    parser.add_argument("--workloads", default="", help="only workloads with this in their name")
    parser.add_argument("--alone", help="libpitot_cupti_alone.so, for the arm cupti")
    parser.add_argument("--torch", action="store_true", help="record LibTorch (the library is built with PITOT_C_WITH_TORCH)")
    parser.add_argument("--callback", help="libpitot_callback_alone.so, for the arm callback")
    parser.add_argument("--graph-level", action="store_true", help="record graphs as a whole at depth graphs")
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    arms = [arm.strip() for arm in options.arms.split(",")]
    missing = [arm for arm, needed in (("cupti", options.alone), ("callback", options.alone and options.callback),
                                       ("ops", options.torch)) if not needed]
    arms = [arm for arm in arms if arm not in missing]
    alone = ctypes.CDLL(options.alone) if options.alone else None
    callback = ctypes.CDLL(options.callback) if options.callback else None

    with tempfile.TemporaryDirectory() as folder:
        recorder = pitot.start(folder, depth=pitot.Depth.SCOPES)
        status = recorder.add_cupti(attach=pitot.CuptiAttach.AT_START, graph_level=options.graph_level)
        if not status:
            sys.exit(f"gpu_overhead: {status.message}")
        if options.torch and not (status := recorder.add_torch()):
            sys.exit(f"gpu_overhead: {status.message}")
        print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, PyTorch {torch.__version__}, "
              f"{os.cpu_count()} CPUs", flush=True)
        switch = Arms(recorder, alone, callback)
        numbers = {}
        with torch.inference_mode():
            for name, function in workloads(options.workloads).items():
                for _ in range(20):
                    function()
                torch.cuda.synchronize()
                numbers[name] = measure(name, function, arms, switch, options)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as out:
                json.dump(numbers, out, indent=1)
        recorder.trigger("the end")
        recorder.flush()
        report = os.path.join(folder, sorted(os.listdir(folder))[-1], "report.txt")
        print(open(report, encoding="utf-8").read()[:3000], file=sys.stderr)
        recorder.stop()


def measure(name, function, arms, switch, options):
    before = [iterate(function) for _ in range(options.rounds)]
    ratios = {arm: [] for arm in arms}
    times = []
    order = random.Random(1)
    for turn in range(options.rounds):
        now = [arm for arm in arms if not arm.startswith("kineto") or turn < options.kineto_rounds]
        # Kineto last: once it has run, CUPTI is Kineto's until Pitot has taken it back.
        mine = [arm for arm in now if not arm.startswith("kineto")]
        order.shuffle(mine)
        block = {arm: switch.run(arm, function) for arm in mine}
        for arm in now:
            if arm not in block:
                block[arm] = switch.run(arm, function)
                time.sleep(0.1)  # Pitot sees that it is over
        for arm in now:
            ratios[arm].append(block[arm] / block["off"])
        times.append(block["off"])
    time.sleep(0.5)
    after = [iterate(function) for _ in range(options.rounds)]
    half = len(before) // 2
    lasting = statistics.median(after) / statistics.median(before)
    null = statistics.median(before[half:]) / statistics.median(before[:half])
    print(f"\n{name}: {1e3 * statistics.median(times):.2f} ms off", flush=True)
    for arm in arms:
        if arm != "off":
            low, middle, high = quartiles(ratios[arm])
            print(f"  {arm:<26} {middle:.3f}  [{low:.3f}, {high:.3f}]  n={len(ratios[arm])}", flush=True)
    print(f"  {'lasting':<26} {lasting:.3f}  (before the first arm, second half against first: {null:.3f})", flush=True)
    return {"off_ms": 1e3 * statistics.median(times), "ratios": ratios, "lasting": lasting, "null": null}


if __name__ == "__main__":
    main()
