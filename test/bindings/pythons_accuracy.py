#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What verdicts say of faults of the interpreter, for each version of CPython: a table. Run by hand (docs/lab/python.md).

    PITOT_LIBRARY=build/release/lib/libpitot_c.so PITOT_PYTHONS=/usr/bin/python3:/opt/3.14t/bin/python3 test/bindings/pythons_accuracy.py

Each fault strikes a small server of the standard library. The fault's own thread or function must be named, and its
mechanism. "sleeps itself", and a call of C without the interpreter's lock, must not be blamed on the interpreter. A cell has
the right verdicts, those that blame busy CPUs, and the others.
"""

import asyncio
import concurrent.futures
import gc
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "bindings", "python"))

NORMALS, STRIKES, PAUSE_S, SLOW_MS = 80, 8, 0.25, 60
HANDLERS = 4
NO_LOCK = not getattr(sys, "_is_gil_enabled", lambda: True)()

# By fault: what the first sentence says with a lock, and without; None: nothing of the interpreter.
EXPECTED = {
    "collection": ("garbage collection.*janitor", "garbage collection.*janitor"),
    "call of C": ("interpreter's lock.*reporter", None),
    "call of C during a collection": ("interpreter's lock.*reporter|garbage collection.*janitor", "only reporter ran|garbage collection.*janitor"),
    "all objects": ("interpreter's lock.*reporter", "stopped its threads"),
    "compilation": ("loading or compiling code.*_slow_kernel", "loading or compiling code.*_slow_kernel"),
    "step of a loop": ("for its turn.*report", "for its turn.*report"),
    "sleeps itself": (None, None),
}
NOT_OF_INTERPRETER = "interpreter|garbage|compil|turn"
BUSY = "^Request [^:]*: it waited [0-9.]+ m?s for a CPU"


class JITFunction:
    """As Triton's."""

    def __init__(self, fn):
        self.fn = fn

    def _do_compile(self, pause_s):
        until = time.monotonic() + pause_s
        while time.monotonic() < until:
            sum(range(100))


def _slow_kernel():
    pass


class Server:
    """Handlers of requests, and the faults beside them."""

    def __init__(self, fault):
        self.fault, self.is_over, self.struck = fault, False, threading.Event()
        self.served, self.strikes = 0, []
        self.requests = {}  # by id: begin and end
        self.reporter = concurrent.futures.ThreadPoolExecutor(1, "reporter")
        self.janitor = concurrent.futures.ThreadPoolExecutor(1, "janitor")
        concurrent.futures.wait([self.reporter.submit(int), self.janitor.submit(int)])
        self.numbers = [random.random() for _ in range(600_000)]
        self.heap = [[{}] for _ in range(600_000)]

    def handle(self):
        begin_ns = time.monotonic_ns()
        with pitot.Request("/work") as request:
            if self.struck.is_set() and self.fault in ("compilation", "sleeps itself"):
                self.struck.clear()
                if self.fault == "compilation":
                    JITFunction(_slow_kernel)._do_compile(0.2)
                else:
                    time.sleep(0.2)
            with pitot.Wait(pitot.WaitKind.IO, "backend"):
                time.sleep(0.005)
            with pitot.scope("model"):
                for _ in range(20):
                    sum(number * number for number in range(1_000))
        self.requests[request.id] = begin_ns, time.monotonic_ns()
        self.served += 1

    def serve(self):
        while not self.is_over:
            self.handle()

    def strike(self):
        done, begin_ns = [], time.monotonic_ns()
        if self.fault.startswith("call of C"):
            done.append(self.reporter.submit(sorted, self.numbers))
        if self.fault.endswith("collection"):
            time.sleep(0.02)
            done.append(self.janitor.submit(gc.collect))
        if self.fault == "all objects":
            done.append(self.reporter.submit(gc.get_objects))
        self.struck.set()
        concurrent.futures.wait(done)
        self.strikes.append((begin_ns, time.monotonic_ns() + (0 if done else 200_000_000)))

    def is_struck(self, request):
        """Whether a fault was there for half of the request."""
        begin_ns, end_ns = self.requests.get(request, (0, 1))
        return any(2 * (min(end_ns, to_ns) - max(begin_ns, from_ns)) > end_ns - begin_ns for from_ns, to_ns in self.strikes)

    def run_threads(self):
        threads = [threading.Thread(target=self.serve, name=f"handler-{number}") for number in range(HANDLERS)]
        for thread in threads:
            thread.start()
        while self.served < NORMALS:
            time.sleep(0.05)
        for _ in range(STRIKES):
            time.sleep(PAUSE_S)
            self.strike()
        time.sleep(PAUSE_S)
        self.is_over = True
        for thread in threads:
            thread.join()

    async def handle_in_task(self):
        while not self.is_over:
            begin_ns = time.monotonic_ns()
            with pitot.Request("/work") as request:
                await asyncio.sleep(0.005)
            self.requests[request.id] = begin_ns, time.monotonic_ns()
            self.served += 1

    async def run_loop(self):
        async def report():
            with pitot.Request("/report"):
                until = time.monotonic() + 0.2
                while time.monotonic() < until:
                    sum(range(100))

        tasks = [asyncio.create_task(self.handle_in_task()) for _ in range(HANDLERS)]
        while self.served < NORMALS:
            await asyncio.sleep(0.05)
        for _ in range(STRIKES):
            await asyncio.sleep(PAUSE_S)
            begin_ns = time.monotonic_ns()
            await asyncio.create_task(report())
            self.strikes.append((begin_ns, time.monotonic_ns()))
        await asyncio.sleep(PAUSE_S)
        self.is_over = True
        await asyncio.gather(*tasks)


def verdicts_on(fault, folder):
    """The openings of the verdicts on requests that the fault struck."""
    global pitot  # pylint: disable=global-statement
    import pitot
    sys.modules["triton.runtime.jit"] = types.SimpleNamespace(JITFunction=JITFunction)
    verdicts = []
    with pitot.start(folder, max_incidents_per_cause_and_hour=200, worker_cpu_percent=100) as recorder:
        assert recorder.status, recorder.status
        recorder.add_host()
        recorder.add_why(html=False, budget_ms=5000)
        recorder.on_verdict(lambda incident: verdicts.append((incident.first_request, incident.verdict)))
        server = Server(fault)
        gc.disable()
        recorder.add_latency_trigger("/work", above_ms=SLOW_MS)
        if fault == "step of a loop":
            asyncio.run(server.run_loop())
        else:
            server.run_threads()
        recorder.flush()
    return [" ".join(verdict.split())[:600] for request, verdict in verdicts if server.is_struck(request)]


def is_right(fault, verdict):
    expected = EXPECTED[fault][NO_LOCK]
    first = verdict.partition(" incident 0")[0]
    return re.search(NOT_OF_INTERPRETER, first) is None if expected is None else re.search(expected, first) is not None


def main():
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as folder:
            verdicts = verdicts_on(sys.argv[1], folder)
        wrong = [verdict for verdict in verdicts if not is_right(sys.argv[1], verdict)]
        others = [verdict for verdict in wrong if re.search(BUSY, verdict) is None]
        print(json.dumps({"cell": f"{len(verdicts) - len(wrong)}, {len(wrong) - len(others)}, {len(others)}", "others": others}))
        return
    import pythons_test
    pythons = pythons_test.find()
    pythons[pythons_test.version_of(sys.executable)] = sys.executable
    print("| CPython | " + " | ".join(EXPECTED) + " |")
    print("|---|" + "---|" * len(EXPECTED))
    for version, program in sorted(pythons.items(), key=lambda one: int(one[0].split()[0].split(".")[1])):
        cells = []
        for fault in EXPECTED:
            done = subprocess.run([program, os.path.abspath(__file__), fault], capture_output=True, text=True, check=False, timeout=300)
            result = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"cell": "failed", "others": [done.stderr[-2000:]]}
            cells.append(result["cell"])
            for text in result["others"]:
                print(version, fault, text, sep=": ", file=sys.stderr)
        print(f"| {version} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
