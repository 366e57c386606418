#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the recorded share of the GPU work of slow requests in their incidents, by fault.

The command `run` starts the faulty image server (test/scoreboard) on a GPU once for each fault, drives it, and keeps its
incidents' dumps. The command `table` reads them, with the command line tool, on a machine with a build of it:

    benchmarks/gpu_coverage.py run FOLDER --binaries build/release/bin [-- OPTIONS OF THE SERVER, such as --attach]
    benchmarks/gpu_coverage.py table FOLDER --pitot build/release/bin/pitot

A slow request is one beyond the server's objective. It is covered under three conditions. At least 80 % of the time of its GPU work was
recorded at the depth of kernels. Its kernels are known to be its own (otherwise a coverage means nothing). And CUDA events gave no part
of its GPU time. The last two columns count the slow requests that fail one of these: without GPU time, and by events. Requests of a
fault's first incident were slow before anything was armed, and are counted separately.
"""

import argparse
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SLO_MS = 25
FAULTS = {
    "slow_decode_spin": "rate=0.004,dose_ms=60",
    "slow_decode_sleep": "rate=0.004,dose_ms=60",
    "lock_held": "rate=0.004,dose_ms=60",
    "batch_timeout": "rate=0.02,dose_ms=60",
    "page_faults": "rate=0.004,dose_mib=128",
    "cpu_spinners": "rate=0.002,dose_ms=100,threads=32",
    # For batches, on the GPU: enough to be beyond the objective.
    "small_copies": "rate=0.01,dose_count=6000",
    "pageable_copy": "rate=0.01,dose_mib=512",
    "sync_each": "rate=0.01,dose_count=5000",
    "scalar_readback": "rate=0.01,dose_count=3000",
    "device_malloc": "rate=0.01,dose_mib=16384",
    "empty_cache": "rate=0.01",
    "lazy_kernel": "rate=0.01",
    "tiny_kernels": "rate=0.01,dose_count=8000",
    "full_queue": "rate=0.01,dose_count=2000",
    "shared_stream": "rate=0.01,dose_count=15",
    "neighbour": "rate=0.01,dose_count=20",
}


def run_fault(fault, dose, options):
    folder = options.folder / fault
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        command = [options.binaries / "faulty_image_server", "--port", "0", "--port-file", temporary / "port", "--device", "cuda",
                   "--incident-dir", temporary / "incidents", "--slo-ms", str(options.slo_ms), "--fault", f"{fault}:{dose}",
                   *options.server_options]
        with open(folder / "server.log", "w", encoding="utf-8") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                deadline = time.monotonic() + 60
                while not (temporary / "port").exists():
                    if server.poll() is not None or time.monotonic() > deadline:
                        sys.exit(f"gpu_coverage: the server did not start, see {folder}/server.log")
                    time.sleep(0.1)
                subprocess.run([options.binaries / "load_generator", "--port", (temporary / "port").read_text().strip(),
                                "--closed", "--concurrency", "8", "--duration", str(options.seconds), "--image-size", "64"],
                               check=True, stdout=subprocess.DEVNULL)
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(30)
        dumps = sorted((temporary / "incidents").glob("*/dump.pitot"))
        for number, dump in enumerate(dumps):
            shutil.copy(dump, folder / f"{number:03}.pitot")
        print(f"{fault}: {len(dumps)} incidents", flush=True)


def requests_of(pitot, dump):
    done = subprocess.run([pitot, "requests", "--json", "--limit", "0", dump], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"gpu_coverage: {dump}: {done.stderr}")
    return json.loads(done.stdout)["requests"] if done.stdout.strip() else []


def is_covered(request):
    return (request.get("coverage") or 0) >= 0.8 and (request.get("gpu_ns") or 0) > 0 and not request.get("gpu_by_events_ns")


def print_table(options):
    print(f"{'fault':<20}{'incidents':>10}{'first incident':>18}{'later ones':>14}{'covered':>9}{'no GPU time':>13}{'by events':>11}")
    for fault in FAULTS:
        dumps = sorted((options.folder / fault).glob("*.pitot"))
        first, later, seen, without, by_events = [], [], set(), 0, 0
        for number, dump in enumerate(dumps):
            for request in requests_of(options.pitot, dump):
                is_slow = (request.get("latency_ms") or 0) >= options.slo_ms
                if not is_slow or request.get("outcome") != "ok" or request["id"] in seen:
                    continue
                seen.add(request["id"])
                (later if number > 0 else first).append(is_covered(request))
                without += not request.get("gpu_ns")
                by_events += bool(request.get("gpu_by_events_ns"))
        share = f"{100 * sum(later) / len(later):.0f} %" if later else "-"
        print(f"{fault:<20}{len(dumps):>10}{f'{sum(first)} of {len(first)}':>18}{f'{sum(later)} of {len(later)}':>14}{share:>9}"
              f"{without:>13}{by_events:>11}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--binaries", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--pitot", type=pathlib.Path, default=pathlib.Path("build/release/bin/pitot"))
    parser.add_argument("--seconds", type=float, default=10, help="seconds of load for each fault (default: %(default)s)")
    parser.add_argument("--faults", default=",".join(FAULTS), help="only these faults, separated by commas")
    parser.add_argument("--fault", action="append", default=[], metavar="FAULT:DOSE", help="this fault and dose instead (repeat for more)")
    parser.add_argument("--slo-ms", type=float, default=SLO_MS, help="the objective (default: %(default)s)")
    # argparse would not take the words after -- behind other options.
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:cut])
    options.server_options = sys.argv[cut + 1:]
    if options.action == "table":
        return print_table(options)
    doses = dict(one.split(":", 1) for one in options.fault) or {fault: FAULTS[fault] for fault in options.faults.split(",")}
    for fault, dose in doses.items():
        run_fault(fault, dose, options)
    return None


if __name__ == "__main__":
    main()
