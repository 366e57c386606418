#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording costs the image server.

Starts the server three times: recorded, unrecorded, and unrecorded again. Drives each in turn, closed loop, in short blocks
whose order is shuffled; idle servers cost nothing meanwhile. Compares recorded with unrecorded, and the two unrecorded with
each other: that ratio is the noise floor of the machine, and a difference below it means nothing. What a part of recording
costs is found with more arms in the same run: --arm "without NVML=--no-nvml". With --alone there is an unrecorded server, too, whose CUPTI
records kernels that nobody reads: what is above it is Pitot's.

Throughput, CPU seconds per request (the server's, from /proc) and p50 are compared per round of blocks (the median ratio
and its quartiles); p99 over all requests of an arm, with a bootstrap interval that resamples blocks.
"""

import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNRECORDED = ("off", "off again")
ALONE = "CUPTI alone"
VARIABLE = re.compile(r"[A-Z_]+=")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, binaries, folder, arm, words, preload):
        name = arm.replace(" ", "_")
        port_file = folder / f"{name}.port"
        environment = dict(word.split("=", 1) for word in words if VARIABLE.match(word))
        options = [word for word in words if not VARIABLE.match(word)]
        command = [binaries / "image_server", "--port", "0", "--port-file", port_file, *options]
        if arm == ALONE:
            environment.update(LD_PRELOAD=str(preload.resolve()), PITOT_CUPTI_ALONE="1")
        if arm not in (*UNRECORDED, ALONE):
            # An objective that nothing misses: the cost of recording, not that of incidents.
            command += ["--incident-dir", folder / f"{name}.incidents", "--slo-ms", "60000"]
        else:
            command += ["--no-recorder"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
        deadline = time.monotonic() + 120
        while not (port_file.exists() and port_file.read_text().strip()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the server did not start: {' '.join(map(str, command))}")
            time.sleep(0.1)
        self.port = int(port_file.read_text())

    def block(self, binaries, folder, seconds, concurrency, seed):
        result = folder / "block.json"
        before = cpu_seconds(self.process.pid)
        subprocess.run([binaries / "load_generator", "--port", str(self.port), "--closed", "--concurrency", str(concurrency),
                        "--duration", str(seconds), "--warm-up", "0.3", "--seed", str(seed), "--image-size", "64",
                        "--list-latencies", "--slowest", "0", "--json", result], check=True, stdout=subprocess.DEVNULL)
        used = cpu_seconds(self.process.pid) - before
        data = json.loads(result.read_text())
        if data["requests"]["ok"] != data["requests"]["sent"]:
            print(f"warning: {data['requests']}", file=sys.stderr)
        return {"throughput": data["throughput_per_s"], "cpu_per_request": used / max(data["requests"]["sent"], 1),
                "p50": data["latency_ms"]["p50"], "latencies": data["latencies_ms"]}

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def p99_interval(blocks_a, blocks_b, rng, rounds=400):
    """Ratio of p99s with its 95 % bootstrap interval over blocks."""
    def p99(blocks):
        return quantile([x for block in blocks for x in block["latencies"]], 0.99)
    ratios = []
    for _ in range(rounds):
        a = [rng.choice(blocks_a) for _ in blocks_a]
        b = [rng.choice(blocks_b) for _ in blocks_b]
        ratios.append(p99(a) / p99(b))
    return p99(blocks_a) / p99(blocks_b), quantile(ratios, 0.025), quantile(ratios, 0.975)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--rounds", type=int, default=20, help="blocks of each arm")
    parser.add_argument("--seconds", type=float, default=3, help="of a block")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path, help="also write every block's numbers here")
    parser.add_argument("--arm", action="append", default=[], metavar="NAME=OPTIONS",
                        help="one more recorded server, with these options and variables (PITOT_DEPTH=kernels) besides")
    parser.add_argument("--alone", type=pathlib.Path, help="libpitot_cupti_alone.so, for the arm of CUPTI alone")
    parser.add_argument("server_options", nargs="*", help="after --: more options for the servers")
    args = parser.parse_args()
    for name in ("image_server", "load_generator"):
        if not (args.binaries / name).exists():
            sys.exit(f"{args.binaries / name} is missing: build with -DPITOT_BUILD_SAMPLES=ON, or name the folder by --binaries")

    more = dict(arm.split("=", 1) for arm in args.arm)
    arms = ("recorded", *more, *((ALONE,) if args.alone else ()), *UNRECORDED)
    rng = random.Random(args.seed)
    blocks = {arm: [] for arm in arms}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        servers = {}
        try:
            for arm in arms:
                servers[arm] = Server(args.binaries, folder, arm, args.server_options + more.get(arm, "").split(), args.alone)
            for arm in arms:  # warm-up, not counted
                servers[arm].block(args.binaries, folder, 1, args.concurrency, 0)
            for round_number in range(args.rounds):
                for arm in rng.sample(arms, len(arms)):
                    blocks[arm].append(servers[arm].block(args.binaries, folder, args.seconds, args.concurrency, round_number))
                print(f"\rround {round_number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
        finally:
            for server in servers.values():
                server.stop()
    print(file=sys.stderr)
    if args.json:
        args.json.write_text(json.dumps(blocks))

    requests = {arm: sum(len(b["latencies"]) for b in blocks[arm]) for arm in arms}
    print(f"{args.rounds} blocks of {args.seconds} s an arm, concurrency {args.concurrency}; requests: "
          + ", ".join(f"{arm} {requests[arm]:,}" for arm in arms))
    print("Cost against off, as a ratio (1 = none): median of rounds [quartiles]; p99 with its 95 % interval. Off again is the noise.")
    print(f"{'':22}{'throughput (off / on)':>24}{'CPU seconds per request':>26}{'p50':>24}{'p99':>24}")
    for arm in (arm for arm in arms if arm != "off"):
        row = ""
        for key, width in (("throughput", 24), ("cpu_per_request", 26), ("p50", 24)):
            ratios = [b[key] / a[key] if key == "throughput" else a[key] / b[key] for a, b in zip(blocks[arm], blocks["off"])]
            cell = f"{statistics.median(ratios):.4f} [{quantile(ratios, .25):.3f}, {quantile(ratios, .75):.3f}]"
            row += f"{cell:>{width}}"
        ratio, low, high = p99_interval(blocks[arm], blocks["off"], rng)
        print(f"{arm:22}{row}{f'{ratio:.4f} [{low:.3f}, {high:.3f}]':>24}")


if __name__ == "__main__":
    main()
