#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording costs the image server.

Starts the server three times: recorded, unrecorded, and unrecorded again. Drives each in turn, closed loop, in short blocks
whose order is shuffled; idle servers cost nothing meanwhile. Compares recorded with unrecorded, and the two unrecorded with
each other: that ratio is the noise floor of the machine, and a difference below it means nothing.

Throughput, CPU seconds per request (the server's, from /proc) and p50 are compared per round of blocks (the median ratio
and its quartiles); p99 over all requests of an arm, with a bootstrap interval that resamples blocks.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARMS = ("recorded", "off", "off again")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, binaries, folder, arm, options):
        port_file = folder / f"{arm.replace(' ', '_')}.port"
        command = [binaries / "image_server", "--port", "0", "--port-file", port_file, *options]
        if arm == "recorded":
            # An objective that nothing misses: the cost of recording, not that of incidents.
            command += ["--incident-dir", folder / "incidents", "--slo-ms", "60000"]
        else:
            command += ["--no-recorder"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
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
    parser.add_argument("server_options", nargs="*", help="after --: more options for the servers")
    args = parser.parse_args()
    for name in ("image_server", "load_generator"):
        if not (args.binaries / name).exists():
            sys.exit(f"{args.binaries / name} is missing: build with -DPITOT_BUILD_SAMPLES=ON, or name the folder by --binaries")

    rng = random.Random(args.seed)
    blocks = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        servers = {}
        try:
            for arm in ARMS:
                servers[arm] = Server(args.binaries, folder, arm, args.server_options)
            for arm in ARMS:  # warm-up, not counted
                servers[arm].block(args.binaries, folder, 1, args.concurrency, 0)
            for round_number in range(args.rounds):
                for arm in rng.sample(ARMS, len(ARMS)):
                    blocks[arm].append(servers[arm].block(args.binaries, folder, args.seconds, args.concurrency, round_number))
                print(f"\rround {round_number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
        finally:
            for server in servers.values():
                server.stop()
    print(file=sys.stderr)
    if args.json:
        args.json.write_text(json.dumps(blocks))

    requests = {arm: sum(len(b["latencies"]) for b in blocks[arm]) for arm in ARMS}
    print(f"{args.rounds} blocks of {args.seconds} s an arm, concurrency {args.concurrency}; requests: "
          + ", ".join(f"{arm} {requests[arm]:,}" for arm in ARMS))
    print(f"{'cost, as a ratio (1 = none)':34}{'recorded / off':>26}{'off again / off (noise)':>30}")
    for name, key, inverse in (("throughput (off / on)", "throughput", True), ("CPU seconds per request", "cpu_per_request", False),
                               ("p50", "p50", False)):
        row = []
        for arm in ("recorded", "off again"):
            ratios = [a[key] / b[key] for a, b in zip(blocks[arm], blocks["off"])]
            if inverse:
                ratios = [1 / r for r in ratios]
            row.append(f"{statistics.median(ratios):.4f} [{quantile(ratios, .25):.3f}, {quantile(ratios, .75):.3f}]")
        print(f"{name:34}{row[0]:>26}{row[1]:>30}")
    row = []
    for arm in ("recorded", "off again"):
        ratio, low, high = p99_interval(blocks[arm], blocks["off"], rng)
        row.append(f"{ratio:.4f} [{low:.3f}, {high:.3f}]")
    print(f"{'p99, with its 95 % interval':34}{row[0]:>26}{row[1]:>30}")


if __name__ == "__main__":
    main()
