#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch and NCCL mark with NVTX, captured by Pitot in the same process, no variable set and no tool attached.

nccl      collectives of a process group of one GPU are scopes of the request, with what they are and how many bytes
pytorch   torch.cuda.nvtx's ranges and emit_nvtx's operators are scopes of the request
late      PyTorch was there first and had called NVTX: the incident says who is missed

Each part runs in a process of its own; --keep FOLDER keeps the incidents. Needs a GPU, PyTorch with CUDA and NCCL, the Python package pitot
and the command line tool (PITOT_TOOL). Exit status: 0 when all of it holds; 77 without a GPU.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

from torch_tables import tool

PARTS = ("nccl", "pytorch", "late")
CALLS, FLOATS = 7, 1 << 18


def scopes(dump, request):
    return {row["name"]: row["calls"] for row in tool("top", dump, "--by", "scope", "--limit", "0", "--request", request)["rows"]}


def begin(pitot, folder):
    recorder = pitot.start(folder, depth=pitot.Depth.KERNELS, pre_window_ms=5000, perfetto_file=True)
    for status in (recorder.add_nvtx(), recorder.add_cupti()):
        if not status:
            raise RuntimeError(status.message)
    return recorder


def serve(pitot, recorder, folder, function):
    """The incident of a request that ran the function, and the request."""
    with pitot.Request("/work") as request, pitot.Batch("model") as batch:
        batch.join(request.token)
        function()
    recorder.trigger("look")
    recorder.flush()
    return os.path.join(folder, sorted(os.listdir(folder))[-1]), f"{request.id:016x}"


def attributes(dump):
    return {key: value for key, value in tool("info", dump).get("attributes", {}).items() if key.startswith("nvtx")}


def nccl(folder):
    import pitot  # pylint: disable=import-outside-toplevel
    recorder = begin(pitot, folder)
    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    with tempfile.TemporaryDirectory() as store:
        dist.init_process_group("nccl", init_method=f"file://{store}/store", rank=0, world_size=1,
                                device_id=torch.device("cuda", 0))
        x = torch.ones(FLOATS, device="cuda")
        gathered = [torch.empty_like(x)]
        dist.all_reduce(x)
        torch.cuda.synchronize()

        def work():
            for _ in range(CALLS):
                dist.all_reduce(x)
                dist.broadcast(x, 0)
                dist.all_gather(gathered, x)
            torch.cuda.synchronize()

        dump, request = serve(pitot, recorder, folder, work)
        dist.destroy_process_group()
    print(f"    NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}: {attributes(dump)}")
    seen = scopes(dump, request)
    print(f"    {({name: calls for name, calls in seen.items() if 'nccl' in name.lower()})}")
    with open(os.path.join(dump, "trace.pftrace"), "rb") as file:
        trace = file.read()
    payloads = [word for word in (b"AllReduce", b"Broadcast", b"AllGather") if word in trace]
    print(f"    collectives named by payloads: {[word.decode() for word in payloads]}")
    recorder.stop()
    return [seen.get("ncclAllReduce", 0) == CALLS, sum(calls for name, calls in seen.items() if "Broadcast" in name) == CALLS,
            seen.get("ncclAllGather", 0) == CALLS, len(payloads) == 3]


def pytorch(folder):
    import pitot  # pylint: disable=import-outside-toplevel
    recorder = begin(pitot, folder)
    import torch  # pylint: disable=import-outside-toplevel
    x = torch.ones(256, 256, device="cuda")
    x @ x  # pylint: disable=pointless-statement

    def work():
        for _ in range(CALLS):
            with torch.cuda.nvtx.range("a range of the model's"):
                x @ x  # pylint: disable=pointless-statement
        with torch.autograd.profiler.emit_nvtx():
            for _ in range(CALLS):
                x @ x  # pylint: disable=pointless-statement
        torch.cuda.synchronize()

    dump, request = serve(pitot, recorder, folder, work)
    print(f"    {attributes(dump)}")
    seen = scopes(dump, request)
    print(f"    {seen}")
    recorder.stop()
    return [seen.get("a range of the model's", 0) == CALLS,
            sum(calls for name, calls in seen.items() if name.startswith("aten::matmul")) == CALLS]


def late(folder):
    import torch  # pylint: disable=import-outside-toplevel
    with torch.cuda.nvtx.range("before Pitot"):
        x = torch.ones(256, 256, device="cuda")
    import pitot  # pylint: disable=import-outside-toplevel
    recorder = begin(pitot, folder)

    def work():
        with torch.cuda.nvtx.range("missed"):
            x @ x  # pylint: disable=pointless-statement
        torch.cuda.synchronize()

    dump, request = serve(pitot, recorder, folder, work)
    said = attributes(dump)
    print(f"    {said}")
    recorder.stop()
    return ["missed" not in scopes(dump, request), "torch" in said.get("nvtx.missed", "")]


def run(part, keep):
    with tempfile.TemporaryDirectory() as folder:
        results = {"nccl": nccl, "pytorch": pytorch, "late": late}[part](folder)
        if keep:
            shutil.copytree(folder, os.path.join(keep, part), dirs_exist_ok=True)
    return 0 if all(results) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=PARTS, help="this part, in this process (default: all, each in its own)")
    parser.add_argument("--keep", metavar="FOLDER", help="folder for the incidents")
    options = parser.parse_args()
    if options.part:
        return run(options.part, options.keep)
    probe = subprocess.run([sys.executable, "-c", "import torch,sys;sys.exit(not torch.cuda.is_available())"], check=False,
                           capture_output=True)
    if probe.returncode != 0:
        print("nvtx_of_libraries: skipped: no GPU")
        return 77
    failures = 0
    for part in PARTS:
        keep = ["--keep", options.keep] if options.keep else []
        done = subprocess.run([sys.executable, __file__, part, *keep], capture_output=True, text=True, timeout=120, check=False)
        failures += done.returncode != 0
        print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {part}", flush=True)
        print(done.stdout, end="", flush=True)
        for line in done.stderr.splitlines()[-12:] if done.returncode != 0 else ():
            print(f"       {line}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
