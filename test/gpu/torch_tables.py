#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Pitot says of PyTorch's work on a GPU, against what PyTorch itself says. Prints tables.

operators, kernels  the ten that take most GPU time, of `pitot top` and of torch.profiler, over as many iterations of the same work: the
                    same ones in the same order (two that are closer to each other than TOLERANCE may change places), each
                    time within TOLERANCE
graph               kernels, copies and sets of a CUDA graph are tied to the operators under which they were captured
memory              the peak of each request is what torch.cuda.max_memory_allocated() says of it, to the byte
allocators          with the allocator of cudaMallocAsync operators are recorded all the same

Each part runs in a process of its own. Needs a GPU, PyTorch with CUDA, the Python package pitot with a library that was built
with PITOT_C_WITH_TORCH, and the command line tool (PITOT_TOOL). Exit status: 0 when all of it holds; 77 without a GPU.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

PARTS = {"resnet50 b1": {}, "transformer b1": {}, "graph": {}, "memory": {},
         "allocators": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}}
ITERATIONS, ROUNDS, TOLERANCE, SHOWN = 10, 5, 0.03, 10
MIB = 1 << 20


def tool(command, dump, *arguments):
    """The JSON that `pitot` answers with."""
    program = os.environ["PITOT_TOOL"]
    libraries = os.path.join(os.path.dirname(program), "lib")  # that gpu_check put beside it
    done = subprocess.run([program, command, dump, *arguments, "--json"], capture_output=True, text=True, check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}"})
    if done.returncode != 0:
        with open(os.path.join(dump, "report.txt"), encoding="utf-8") as report:
            print(report.read()[:6000])
        raise RuntimeError(f"pitot {command} {' '.join(arguments)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class Recording:
    """A recorder, and requests whose incidents are read back."""

    def __init__(self, folder, **cupti):
        import pitot  # pylint: disable=import-outside-toplevel
        self.pitot, self.folder = pitot, folder
        self.recorder = pitot.start(folder, depth=pitot.Depth.OPS, max_ring_bytes=64 * MIB,
                                    memory_budget_bytes=512 * MIB, pre_window_ms=2000)
        for status in (self.recorder.add_cupti(**cupti), self.recorder.add_torch()):
            if not status:
                raise RuntimeError(status.message)

    def request(self, function):
        """Serves one request by `function`; its id as the command line takes it."""
        with self.pitot.Request("/work") as request, self.pitot.Batch("model") as batch:
            batch.join(request.token)
            function()
        return f"{request.id:016x}"

    def incident(self):
        self.recorder.trigger("look")
        self.recorder.flush()
        return os.path.join(self.folder, sorted(os.listdir(self.folder))[-1])


def iterations(function):
    import torch  # pylint: disable=import-outside-toplevel
    for _ in range(ITERATIONS):
        function()
    torch.cuda.synchronize()


def key(name):
    """A kernel's name without its parameters, which demanglers spell differently."""
    name = re.sub(r"\s+", "", name).replace("(anonymousnamespace)", "<unnamed>").replace("(unnamed)", "<unnamed>")
    depth = 0
    for i, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            return name[:i]
    return name


def add(sums, name, calls, ns):
    before = sums.get(name, (0, 0))
    sums[name] = (before[0] + calls, before[1] + ns)


def add_recorded(recording, function, operators, kernels):
    wanted = recording.request(lambda: iterations(function))
    dump = recording.incident()
    for by, sums in (("op", operators), ("kernel", kernels)):
        for row in tool("top", dump, "--by", by, "--limit", "0", "--request", wanted)["rows"]:
            if row["self_gpu_ns"] > 0:
                name, calls = (row["name"], row["calls"]) if by == "op" else (key(row["name"]), row["gpu_records"])
                add(sums, name, calls, row["self_gpu_ns"])


def add_profile(torch, profiler, operators, kernels):
    for event in profiler.key_averages():
        ns = round(1000 * event.self_device_time_total)
        if ns == 0:
            continue
        if event.device_type == torch.autograd.DeviceType.CUDA:
            add(kernels, key(event.key), event.count, ns)
        elif "::" in event.key:  # not what the profiler itself took
            add(operators, event.key, event.count, ns)


def compare(what, theirs, ours):
    """Prints both, and says whether they agree."""
    rank = sorted(theirs, key=lambda name: -theirs[name][1])[:SHOWN]
    our_rank = {name: i for i, name in enumerate(sorted(ours, key=lambda name: -ours[name][1]))}
    is_well, worst = True, 0.0
    print(f"  {what}: rank of Pitot's, calls, ms of torch.profiler's, Pitot's, ratio")
    for place, name in enumerate(rank):
        calls, ns = ours.get(name, (0, 0))
        ratio = ns / theirs[name][1]
        worst = max(worst, abs(ratio - 1))
        # Whoever comes before it there and is larger here is larger by less than the tolerance.
        ordered = all(ours.get(other, (0, 0))[1] >= (1 - TOLERANCE) * ns for other in rank[:place])
        is_well &= ordered and abs(ratio - 1) <= TOLERANCE and calls == theirs[name][0]
        print(f"    {place + 1:>2} {our_rank.get(name, -1) + 1:>3} {theirs[name][0]:>6} {calls:>6} {theirs[name][1] / 1e6:>9.3f} "
              f"{ns / 1e6:>9.3f} {ratio:>7.4f}{'' if ordered else ' out of order'}  {name[:90]}")
    is_well &= len(rank) >= 5  # the transformer has six operators
    for name in [name for name, place in our_rank.items() if place < len(rank) and name not in theirs]:
        print(f"    Pitot alone has {ours[name][0]} calls, {ours[name][1] / 1e6:.3f} ms: {name[:300]}")
    same = rank == sorted(rank, key=lambda name: our_rank.get(name, 1 << 30))
    first = {name for name, place in our_rank.items() if place < len(rank)} == set(rank)
    print(f"    {'agree' if is_well and first else 'DIFFER'}: {'the same' if first else 'others'}, "
          f"{'same order' if same else 'order differs'}, worst ratio off by {100 * worst:.1f} %")
    return is_well and first


def tables(workload, folder):
    recording = Recording(folder)
    import gpu_overhead  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    their_operators, their_kernels, our_operators, our_kernels = {}, {}, {}, {}
    with torch.inference_mode():
        function = gpu_overhead.workloads()[workload]
        iterations(function)
        for _ in range(ROUNDS):
            add_recorded(recording, function, our_operators, our_kernels)
        for _ in range(ROUNDS):
            with torch.profiler.profile(activities=activities) as profiler:
                iterations(function)
            add_profile(torch, profiler, their_operators, their_kernels)
    recording.recorder.stop()
    return [compare("operators", their_operators, our_operators), compare("kernels", their_kernels, our_kernels)]


def graph(folder):
    recording = Recording(folder, allow_torch_profiler=False)
    import gpu_overhead  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel
    with torch.inference_mode():
        replay = gpu_overhead.workloads()["transformer b1, graph"]
        iterations(replay)
        wanted = recording.request(lambda: iterations(replay))
        dump = recording.incident()
        rows = tool("top", dump, "--by", "op", "--limit", "0", "--request", wanted)["rows"]
        kinds = tool("top", dump, "--by", "kernel", "--limit", "0", "--request", wanted)["rows"]
    recording.recorder.stop()
    total = sum(row["self_gpu_ns"] for row in kinds)
    tied = sum(row["self_gpu_ns"] for row in rows if row["name"].startswith("aten::"))
    for row in sorted(rows, key=lambda row: -row["self_gpu_ns"])[:12]:
        print(f"    {row['self_gpu_ns'] / 1e6:>9.3f} ms {row['gpu_records']:>6}  {row['name']}")
    print(f"    {tied / 1e6:.3f} of {total / 1e6:.3f} ms of the graph under the operators that were captured")
    return [total > 0 and tied == total]


def memory(folder):
    recording = Recording(folder)
    import torch  # pylint: disable=import-outside-toplevel
    side = torch.cuda.Stream()
    kept = []

    def plain():
        return torch.empty(64 * MIB, device="cuda", dtype=torch.uint8)

    def of_another_stream():
        # Freed here, in use there: it counts until the other stream is done.
        x = torch.empty(256 * MIB, device="cuda", dtype=torch.uint8)
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)  # pylint: disable=protected-access
            x.record_stream(side)
        del x
        kept.append(torch.empty(32 * MIB, device="cuda", dtype=torch.uint8))

    def many():
        for size in range(1, 400):
            torch.empty(size * 10_000, device="cuda", dtype=torch.uint8)

    def emptied():
        torch.cuda.empty_cache()
        torch.empty(96 * MIB, device="cuda", dtype=torch.uint8)

    def too_much():
        try:
            torch.empty(1 << 40, device="cuda", dtype=torch.uint8)
        except torch.cuda.OutOfMemoryError:
            pass

    served = []
    for function in (plain, of_another_stream, many, emptied, too_much, plain):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        recording.pitot.instant(f"before {function.__name__}")

        def work(function=function):
            function()
            torch.cuda.synchronize()
            gone = torch.cuda.memory_stats()["num_alloc_retries"], torch.cuda.memory_stats()["num_ooms"]
            served.append((function.__name__, torch.cuda.max_memory_allocated(), gone))

        wanted = recording.request(work)
        served[-1] += (wanted,)
        subprocess.run(["sleep", "0.02"], check=True)  # counters hold the maximum of each 2 ms
    dump = recording.incident()
    peaks = {request["id"]: [one["most_bytes"] for one in request["memory"]
                             if one["allocator"] == "LibTorch allocated" and one["gpu"] == 0]
             for request in tool("requests", dump, "--limit", "0")["requests"]}
    recording.recorder.stop()
    results = []
    for name, theirs, gone, wanted in served:
        ours = peaks.get(wanted) or [-1]
        results.append(ours[0] == theirs)
        print(f"    {name:<18} torch {theirs:>12} Pitot {ours[0]:>12}{'' if results[-1] else '  DIFFER'}   retries, OOMs {gone}")
    with open(os.path.join(dump, "report.txt"), encoding="utf-8") as report:
        text = report.read()
    for line in text.splitlines():
        if any(word in line for word in ("out of GPU memory", "cudaMalloc", "torch.memory")):
            print(f"    {line.strip()[:140]}")
    return results


def allocators(folder):
    recording = Recording(folder)
    import torch  # pylint: disable=import-outside-toplevel
    x = torch.ones(256, 256, device="cuda")
    wanted = recording.request(lambda: iterations(lambda: x @ x))
    rows = tool("top", recording.incident(), "--by", "op", "--limit", "0", "--request", wanted)["rows"]
    said = tool("info", recording.incident())
    print(f"    {torch.cuda.get_allocator_backend()}: {[row['name'] for row in rows][:3]}")
    print(f"    {[(k, v) for k, v in said.get('attributes', {}).items() if 'torch' in k]}")
    recording.recorder.stop()
    return [any(row["name"] == "aten::mm" and row["calls"] == ITERATIONS for row in rows)]


def run(part):
    with tempfile.TemporaryDirectory() as folder:
        made = {"graph": graph, "memory": memory, "allocators": allocators}.get(part)
        results = made(folder) if made else tables(part, folder)
    return 0 if results and all(results) else 1


def main():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
    import torch  # pylint: disable=import-outside-toplevel
    if not torch.cuda.is_available():
        print("torch_tables: skipped: no GPU")
        return 77
    if len(sys.argv) == 2:
        return run(sys.argv[1])
    failures = 0
    for part, environment in PARTS.items():
        print(f"{part}:", flush=True)
        done = subprocess.run([sys.executable, __file__, part], timeout=200, check=False, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, **environment})
        failures += done.returncode != 0
        if done.returncode != 0:
            print(done.stderr[-1500:])
        print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {part}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
