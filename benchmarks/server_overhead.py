#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of recording for a sample server.

Starts the server three times: recorded, unrecorded, and unrecorded again. Drives each in turn, closed loop, in short blocks in shuffled
order; idle servers cost nothing meanwhile. Compares recorded with unrecorded, and the two unrecorded with each other. That ratio is the
noise floor of the machine, and a difference below it means nothing. Two equal processes differ for as long as they live (where their
memory lies, which CPUs they got), by more than rounds show. So --starts starts all of them anew, and the medians of each start are
printed, too.

More arms in the same run find the cost of a part of recording: --arm "without NVML=--no-nvml". The arm `recorded` has incidents. No
request misses its objective, but the trigger of the p99.5 fires, at most every 10 s. It arms everything for 2 s, longer than a short
block. These arms separate that cost:

  --arm "quiet=--no-triggers"                     no incident
  --arm "incident before=--no-triggers incident"  one before the rounds, and 6 s of work for the forecast; then none
  --arm "no judge=--no-why"                       incidents without a verdict

--server decode measures the decode server. A block is then a fixed number of prompts, --prompts for each connection, the same for all
servers of a round; p50 is that of the gaps between tokens, and there is no p99.

With --alone there are two more unrecorded servers. In one, CUPTI was called once and records nothing. In the other, CUPTI records
kernels, unread. The cost above theirs is Pitot's.

Throughput, CPU seconds per request (the server's, from /proc) and p50 are compared per round of blocks. The table has the median ratio, its
quartiles and, after the sign, half of the 95 % interval of the median, from resampled rounds. The p99 and the p99.9 are over all requests
of an arm, with a bootstrap interval from resampled blocks. The CPU time of Pitot's threads is printed by thread; the host's threads pay the
rest.
"""

import argparse
import collections
import http.client
import itertools
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

from gpu_after import KINDS, OURS

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNRECORDED = ("off", "off again")
ALONE = {"CUPTI called": "register", "CUPTI alone": f"{OURS} register {KINDS}"}  # steps of cupti_alone.cc
INCIDENT = "incident"  # a word of an arm
FORECAST_S = 6  # of work after an incident
VARIABLE = re.compile(r"[A-Z_]+=")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_pitot(pid):
    """Seconds of each of Pitot's threads, by name; those that have ended (collectors' starts) are left out."""
    seconds = collections.Counter()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            if name.startswith("pitot"):
                seconds[name] += int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue  # it has ended
    return seconds


def load(args, seconds):
    """Options of a block for the load generator."""
    if args.server == "image":
        return ["--closed", "--duration", str(seconds), "--warm-up", str(args.warm_up), "--image-size", "64", "--list-latencies"]
    prompts = args.prompts * args.concurrency
    at_once = 1e6  # prompts a second: all are due at the beginning, and each connection takes the next when it has its answer
    return ["--generate", "--rate", str(at_once), "--duration", str(prompts / at_once), "--warm-up", "0", "--prompt-mean", "64", "--prompt-max",
            "256", "--output-mean", "64", "--output-max", "128"]


class Server:
    def __init__(self, args, folder, arm, words):
        name = arm.replace(" ", "_")
        port_file = folder / f"{name}.port"
        environment = dict(word.split("=", 1) for word in words if VARIABLE.match(word))
        options = [word for word in words if not VARIABLE.match(word) and word != INCIDENT]
        command = [args.binaries / f"{args.server}_server", "--port", "0", "--port-file", port_file, *options]
        if INCIDENT in words:
            command.append("--allow-incidentz")
        if arm in ALONE:
            environment.update(LD_PRELOAD=str(args.alone.resolve()), PITOT_CUPTI_ALONE=ALONE[arm])
        if arm not in (*UNRECORDED, *ALONE):
            # An objective that nothing misses: for the cost of recording, not of incidents.
            command += ["--incident-dir", folder / f"{name}.incidents", "--slo-ms", "60000"]
        else:
            command += ["--no-recorder"]
        self.process, self.port_file = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **environment}), port_file

    def wait_until_ready(self):
        deadline = time.monotonic() + 120
        while not (self.port_file.exists() and self.port_file.read_text().strip()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the server did not start: {' '.join(map(str, self.process.args))}")
            time.sleep(0.1)
        self.port = int(self.port_file.read_text())

    def block(self, folder, args, seed, seconds=None):
        result = folder / "block.json"
        before, pitot_before = cpu_seconds(self.process.pid), cpu_of_pitot(self.process.pid)
        subprocess.run([args.binaries / "load_generator", "--port", str(self.port), "--concurrency", str(args.concurrency), "--seed", str(seed),
                        "--slowest", "0", "--json", result, *load(args, seconds or args.seconds)], check=True, stdout=subprocess.DEVNULL)
        used, of_pitot = cpu_seconds(self.process.pid) - before, cpu_of_pitot(self.process.pid)
        data = json.loads(result.read_text())
        if data["requests"]["ok"] != data["requests"]["sent"]:
            print(f"warning: {data['requests']}", file=sys.stderr)
        return {"throughput": data["throughput_per_s"], "cpu_per_request": used / max(data["requests"]["sent"], 1),
                "p50": data["gap_ms" if args.server == "decode" else "latency_ms"]["p50"], "latencies": sorted(data.get("latencies_ms", [])),
                "requests": data["requests"]["ok"],
                "cpu_of_pitot": {name: of_pitot[name] - pitot_before[name] for name in of_pitot}}

    def ask_for_incident(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/incidentz")
        answer = connection.getresponse()
        if answer.status >= 300:
            sys.exit(f"the server made no incident: {answer.status} {answer.read()}")
        connection.close()

    def depth(self):
        """The governor's last report, or None."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/statsz")
        depth = json.loads(connection.getresponse().read())["recorder"].get("depth")
        connection.close()
        return depth

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def half_interval(values, rng, rounds=400):
    medians = [statistics.median(rng.choices(values, k=len(values))) for _ in range(rounds)]
    return (quantile(medians, 0.975) - quantile(medians, 0.025)) / 2


TAILS = {"p99": 0.99, "p99.9": 0.999}


def tail_intervals(blocks_a, blocks_b, rng, rounds=400):
    """For each tail, the ratio with its 95 % bootstrap interval over blocks."""
    def tails(blocks):
        every = sorted(itertools.chain.from_iterable(block["latencies"] for block in blocks))
        return [every[min(len(every) - 1, int(q * len(every)))] for q in TAILS.values()]

    def ratios(a, b):
        return [x / y for x, y in zip(tails(a), tails(b))]
    resampled = [ratios(rng.choices(blocks_a, k=len(blocks_a)), rng.choices(blocks_b, k=len(blocks_b))) for _ in range(rounds)]
    return [(ratio, quantile(of_tail, 0.025), quantile(of_tail, 0.975))
            for ratio, of_tail in zip(ratios(blocks_a, blocks_b), zip(*resampled))]


def measure(args, arms, more, rounds, rng):
    """The blocks of each arm, of servers started here, and their governors' reports."""
    blocks = {arm: [] for arm in arms}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        servers = {}
        try:
            for arm in arms:
                servers[arm] = Server(args, folder, arm, args.server_options + more.get(arm, "").split())
            for server in servers.values():
                server.wait_until_ready()
            for arm in arms:  # warm-up, not counted
                servers[arm].block(folder, args, 0, seconds=1)
            for arm in (arm for arm in arms if INCIDENT in more.get(arm, "").split()):
                servers[arm].ask_for_incident()
                servers[arm].block(folder, args, 0, seconds=FORECAST_S)
            for round_number in rounds:
                for arm in rng.sample(arms, len(arms)):
                    blocks[arm].append(servers[arm].block(folder, args, round_number))
                print(f"\rround {round_number + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
            depths = {arm: server.depth() for arm, server in servers.items()}
        finally:
            for server in servers.values():
                server.stop()
    return blocks, depths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--server", choices=("image", "decode"), default="image")
    parser.add_argument("--prompts", type=int, default=2, help="prompts of a connection in a block of the decode server")
    parser.add_argument("--rounds", type=int, default=20, help="blocks of each arm")
    parser.add_argument("--starts", type=int, default=1, help="starts of the servers; rounds are spread over them")
    parser.add_argument("--seconds", type=float, default=3, help="seconds of a block")
    parser.add_argument("--warm-up", type=float, default=0.3, help="seconds before each block, not counted")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path, help="also write every block's numbers here")
    parser.add_argument("--arm", action="append", default=[], metavar="NAME=OPTIONS",
                        help="one more recorded server, with these further options and variables (PITOT_DEPTH=kernels)")
    parser.add_argument("--alone", type=pathlib.Path, help="libpitot_cupti_alone.so, for the arm of CUPTI alone")
    parser.add_argument("server_options", nargs="*", help="after --: more options for the servers")
    args = parser.parse_args()
    for name in (f"{args.server}_server", "load_generator"):
        if not (args.binaries / name).exists():
            sys.exit(f"{args.binaries / name} does not exist: build with -DPITOT_BUILD_SAMPLES=ON, or give the folder with --binaries")

    more = dict(arm.split("=", 1) for arm in args.arm)
    arms = ("recorded", *more, *(ALONE if args.alone else ()), *UNRECORDED)
    rng = random.Random(args.seed)
    blocks = {arm: [] for arm in arms}
    starts = [range(start, args.rounds, args.starts) for start in range(min(args.starts, args.rounds))]
    depths = []
    for rounds in starts:
        measured, of_start = measure(args, arms, more, rounds, rng)
        depths.append(of_start)
        for arm in arms:
            blocks[arm] += measured[arm]
    print(file=sys.stderr)
    if args.json:
        args.json.write_text(json.dumps(blocks))

    requests = {arm: sum(b["requests"] for b in blocks[arm]) for arm in arms}
    print(f"{args.rounds} blocks an arm, concurrency {args.concurrency}; requests: "
          + ", ".join(f"{arm} {requests[arm]:,}" for arm in arms))
    print("Cost against off, as a ratio (1 = none): median of rounds [quartiles]; p99 and p99.9 with 95 % intervals. Off again is the noise.")
    p50, tails = ("p50", "".join(f"{tail:>24}" for tail in TAILS)) if args.server == "image" else ("p50 of gaps", "")
    print(f"{'':22}{'throughput (off / on)':>32}{'CPU seconds per request':>32}{p50:>32}{tails}")
    for arm in (arm for arm in arms if arm != "off"):
        row = ""
        for key in ("throughput", "cpu_per_request", "p50"):
            ratios = [b[key] / a[key] if key == "throughput" else a[key] / b[key] for a, b in zip(blocks[arm], blocks["off"])]
            cell = f"{statistics.median(ratios):.4f} [{quantile(ratios, .25):.3f}, {quantile(ratios, .75):.3f}]"
            cell += f" \u00b1{half_interval(ratios, rng):.3f}"
            row += f"{cell:>32}"
        if args.server == "image":
            for ratio, low, high in tail_intervals(blocks[arm], blocks["off"], rng):
                row += f"{f'{ratio:.4f} [{low:.3f}, {high:.3f}]':>24}"
        print(f"{arm:22}{row}")
    if len(starts) > 1:
        print("Throughput (off / on), the median of each start:")
        for arm in (arm for arm in arms if arm != "off"):
            ratios = [b["throughput"] / a["throughput"] for a, b in zip(blocks[arm], blocks["off"])]
            ends = list(itertools.accumulate(map(len, starts)))
            print(f"{arm:22}" + "  ".join(f"{statistics.median(ratios[end - len(of):end]):.4f}" for of, end in zip(starts, ends)))
    print("CPU of Pitot's threads, us a request:")
    for arm in arms:
        total = sum((collections.Counter(b["cpu_of_pitot"]) for b in blocks[arm]), collections.Counter())
        if total:
            sent = max(requests[arm], 1)
            print(f"{arm:22}" + ", ".join(f"{name} {1e6 * seconds / sent:.1f}" for name, seconds in total.most_common()))
    print("The governor's last report, for each start:")
    for arm in arms:
        for depth in (of_start[arm] for of_start in depths if of_start[arm]):
            print(f"{arm:22}{depth['state'] or 'fixed'}; costs {depth['cost_percent']} %; armed {depth['armed_percent']:.1f} %")


if __name__ == "__main__":
    main()
