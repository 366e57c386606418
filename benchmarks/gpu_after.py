#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of CUPTI for a process: iterations of processes with different histories, in turn.

CUPTI leaves something behind for the life of a process, so no process can be compared with itself. Several are started, different
only in the steps below. They take turns, one iteration each, for as many rounds as asked. The cost of a process's steps is the median
over rounds of its time relative to that of the first process; `never again` is the noise. Two processes with the same steps differ,
too. With --starts above one, each process is started several times, and the table has the median, least and most of its starts. After
that come the thread's CPU time, page faults and switches of an iteration.

Sets of processes (--set):

  after      the lasting cost of recording
  depths     the cost of staying at a depth
  taking     the cost of each step of taking CUPTI
  records    the influences on the cost of records
  switching  the cost of operators and memory against an empty callback in the same process

--process adds a process by hand: "name: steps before CUDA is used | steps after 30 iterations | steps of one state ~ of another". A
process of several states takes them in turn in each round, in shuffled order. Its times are relative to those of its first state.

Steps:

  pitot       starts a recorder at depth scopes
  auto        sets that depth
  cupti       adds the collector; attach has CUPTI called at the start
  torch       adds LibTorch's collector (--torch); operators adds it without its memory
  depth=N     records at that depth from then on; to=N does so without iterations to settle
  incident    asks for an incident and works for 6 s
  stop        stops the recorder
  callback    is an empty RecordFunction callback (--callback); callback=0 removes it

At auto, an incident calls CUPTI and forecasts its cost. If that is too high, kernels are not recorded. All other steps are those of
benchmarks/cupti_alone.cc, without Pitot (--alone). A recorder's work runs in a batch, which the governor measures.

Needs a GPU, PyTorch with CUDA and the Python package pitot (PYTHONPATH=bindings/python, PITOT_LIBRARY).
"""

import argparse
import contextlib
import ctypes
import functools
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

# Attributes by CUPTI's numbers: the first is a size_t, the others are bytes.
DEVICE_BUFFER, PREALLOCATED, ZEROED, PINNED, PER_THREAD = ((n << 32) for n in (0, 6, 5, 8, 9))
OURS = f"attribute_flag={ZEROED + 1} attribute_flag={PER_THREAD + 1}"
KINDS = "enable=10 enable=1 enable=2"
FORECAST_S = 6  # of work after the first incident
SETS = {
    "after": {"never": "", "never again": "", "added, not called": "pitot cupti", "added": "pitot attach",
              "stepped down": "pitot attach | depth=2 depth=0", "stopped": "pitot attach | depth=2 depth=0 stop",
              "auto": "pitot auto attach", "auto, after an incident": "pitot auto attach | incident"},
    "depths": {"never": "", "never again": "", "auto": "pitot auto attach", "auto, memory watched": "pitot auto attach torch",
               "auto, after an incident": "pitot auto attach | incident",
               "auto, attached late, after an incident": "pitot auto cupti | incident",
               "kernels, attached late": "pitot cupti | depth=2", "kernels, attached at start": "pitot attach | depth=2",
               "kernels, memory watched": "pitot attach torch | depth=2",
               "ops, memory not watched": "pitot attach operators | depth=3", "ops": "pitot attach torch | depth=3",
               "callback and CUPTI alone": f"{OURS} register {KINDS} | callback"},
    "switching": {f"{what} watched": f"pitot attach {word} | depth=3 | to=2 callback=0 ~ to=2 callback ~ to=3 callback=0"
                  for what, word in (("memory", "torch"), ("no memory", "operators"))},
    "taking": {"never": "", "never again": "", "recorder": "pitot", "loaded": "load", "attributes": OURS,
               "thread ids": "thread_ids", "subscribed": "subscribe", "subscribed and back": "subscribe unsubscribe",
               "registered": "register", "registered late": "| register",
               "calls": "register records_of_calls=1 | records_of_calls=0",
               "all by hand": f"subscribe unsubscribe {OURS} thread_ids register records_of_calls=1 | records_of_calls=0",
               "whole kinds of calls": "| register enable=5 enable=4 records_of_others=0 disable=5 disable=4",
               "strides": "strides", "added, not called": "pitot cupti", "added": "pitot attach", "added late": "| pitot attach"},
    "records": {"never": "", "never again": "", "kernels": "| register enable=10", "and copies, sets": f"| register {KINDS}",
                "and overhead, jit": f"| register {KINDS} enable=17 enable=52",
                "before CUDA": f"register {KINDS}",
                "one buffer for all threads": f"attribute_flag={PER_THREAD} register | {KINDS}",
                "zeroed by us": f"attribute_flag={ZEROED + 1} register | {KINDS}",
                "pinned": f"attribute_flag={PINNED + 1} register | {KINDS}",
                "device buffers of 16 MiB": f"attribute_size={DEVICE_BUFFER + (16 << 20)} register | {KINDS}",
                "buffers of 4 MiB": f"load={4 << 20} register | {KINDS}",
                "and callbacks": f"subscribe register | callbacks=1 {KINDS}",
                "and records of calls": f"register records_of_calls=1 | {KINDS}",
                "and whole kinds of calls": f"| register {KINDS} enable=5 enable=4 records_of_others=0",
                "Pitot at kernels": "pitot attach | depth=2"},
}


class Steps:
    """Takes the steps of one process."""

    def __init__(self, options, folder):
        self.alone = ctypes.CDLL(options.alone) if options.alone else None
        if self.alone:
            self.alone.pitot_cupti_do.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
        self.callback = ctypes.CDLL(options.callback) if options.callback else None
        self.folder = folder
        self.recorder = None

    @staticmethod
    def work(iterate, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            iterate()

    @staticmethod
    def check(status):
        if not status:
            sys.exit(f"gpu_after: {status.message}")

    def take(self, steps, iterate):
        for step in steps.split():
            word, _, number = step.partition("=")
            if word == "pitot":
                import pitot
                self.recorder = pitot.start(self.folder, depth=pitot.Depth.SCOPES)
            elif word == "auto":
                import pitot
                self.check(self.recorder.set_depth(pitot.Depth.AUTO))
            elif word in ("cupti", "attach"):
                self.check(self.recorder.add_cupti(
                    attach=pitot.CuptiAttach.AT_START if word == "attach" else pitot.CuptiAttach.WHEN_ASKED))
            elif word in ("torch", "operators"):
                self.check(self.recorder.add_torch(memory=word == "torch"))
            elif word in ("depth", "to"):
                import pitot
                self.check(self.recorder.set_depth(pitot.Depth(int(number))))
                if word == "depth":
                    self.work(iterate, 0.5)
            elif word == "incident":
                self.check(self.recorder.trigger("the first"))
                self.check(self.recorder.flush())
                self.work(iterate, FORECAST_S)
            elif word == "callback":
                self.callback.pitot_callback_alone(int(number or 1))
            elif word == "stop":
                self.recorder.stop()
            elif not self.alone:
                sys.exit(f"gpu_after: the step {step} needs --alone")
            elif error := self.alone.pitot_cupti_do(word.encode(), int(number or 0)):
                sys.exit(f"gpu_after: {step}: CUPTI failed with {error}")


def serve(steps, options):
    """In a process of its own: takes the steps, then times an iteration in the state of each number it reads."""
    import torch  # CUPTI comes with it

    def iterate():
        torch.cuda.synchronize()
        before, cpu, begin = resource.getrusage(resource.RUSAGE_THREAD), time.thread_time(), time.perf_counter()
        with batch():
            function()
            torch.cuda.synchronize()
        took, cpu, after = time.perf_counter() - begin, time.thread_time() - cpu, resource.getrusage(resource.RUSAGE_THREAD)
        return (took, cpu, after.ru_minflt - before.ru_minflt,
                after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw)

    before, after, states = parts(steps)
    folder = tempfile.TemporaryDirectory()
    process = Steps(options, folder.name)
    process.take(before, None)
    batch = contextlib.nullcontext
    if process.recorder:
        import pitot
        batch = functools.partial(pitot.Batch, "model")
    import gpu_overhead
    with torch.inference_mode():
        function = gpu_overhead.workloads(options.workload)[options.workload]
        for _ in range(30):
            iterate()
        process.take(after, iterate)
        for _ in range(10):
            iterate()
        print("ready", flush=True)
        for line in sys.stdin:
            process.take(states[int(line)], iterate)
            iterate()  # the caches belong to another process
            print(*iterate(), flush=True)
    folder.cleanup()


def interval(values, rounds=1000):
    """The 95 % bootstrap interval of the median."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(rounds))
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds)]


class Child:
    """A process that takes its steps; by state its times, and the other costs of its iterations."""

    def __init__(self, name, steps, command):
        self.name = name
        self.times = {state: [] for state in range(len(labels(name, steps)))}
        self.uses = {state: [] for state in self.times}
        self.process = subprocess.Popen([*command, f"--serve={steps}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def is_ready(self):
        if self.process.stdout.readline() == "ready\n":
            return True
        print(f"gpu_after: the process '{self.name}' did not start", file=sys.stderr)
        return False

    def iterate(self, state):
        self.process.stdin.write(f"{state}\n")
        self.process.stdin.flush()
        took, *use = map(float, self.process.stdout.readline().split())
        self.times[state].append(took)
        self.uses[state].append(use)

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def parts(steps):
    """The steps before CUDA is used, those after, and those of each state (at least one)."""
    before, after, states = (steps + "||").split("|")[:3]
    return before, after, [state.strip() for state in states.split("~")]


def labels(name, steps):
    """The names of a process's states."""
    return [f"{name}: {state}" if state else name for state in parts(steps)[2]]


def ratios(child, state, never):
    """By round: the ratio of states to the first, and of processes to those that never record."""
    return [own / other for own, other in zip(child.times[state], child.times[0] if len(child.times) > 1 else never)]


def summary(starts):
    """The median of the ratios; for one start also its 95 % bootstrap interval, for several the least and the most."""
    medians = [statistics.median(one) for one in starts]
    low, high = interval(starts[0]) if len(starts) == 1 else (min(medians), max(medians))
    return {"ratio": statistics.median(medians), "low": low, "high": high}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=SETS, default="after", help="the set of processes (default: %(default)s)")
    parser.add_argument("--process", action="append", default=[], metavar="NAME: STEPS", help="add a process")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this process of the set, and those that never record (repeat for more)")
    parser.add_argument("--alone", help="libpitot_cupti_alone.so")
    parser.add_argument("--torch", action="store_true", help="record LibTorch, too (the library is built with PITOT_C_WITH_TORCH)")
    parser.add_argument("--callback", help="libpitot_callback_alone.so")
    parser.add_argument("--starts", type=int, default=1, help="starts of each process (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=10000, help="rounds, at most (default: %(default)s)")
    parser.add_argument("--workload", default="resnet50 b1", help="a workload of gpu_overhead.py (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=500, help="stop after this many seconds, with the rounds made so far (default: %(default)s)")
    parser.add_argument("--json", help="write the medians to this file")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        return serve(options.serve, options)

    processes = {**SETS[options.set], **dict(map(str.strip, one.split(":", 1)) for one in options.process)}
    for step, given in (("torch", options.torch), ("operators", options.torch), ("callback", options.callback)):
        for name in [name for name, steps in processes.items() if step in steps.split() and not given]:
            processes.pop(name)
            print(f"gpu_after: '{name}' is left out: it needs --{'callback' if step == 'callback' else 'torch'}", file=sys.stderr)
    if options.only:
        processes = {name: steps for name, steps in processes.items() if name.startswith("never") or name in options.only}
    command = [sys.executable, os.path.abspath(__file__), "--workload", options.workload]
    command += ["--alone", options.alone] if options.alone else []
    command += ["--callback", options.callback] if options.callback else []
    children = [Child(name, steps, command) for name, steps in processes.items() for _ in range(options.starts)]
    try:
        ready = [child for child in children if child.is_ready()]
        baseline = [child for child in ready if child.name == next(iter(processes))]
        if not baseline or len(ready) < len(children) // 2:
            return 1
        turns = [(child, state) for child in ready for state in child.times]
        rng, end = random.Random(1), time.monotonic() + options.seconds
        rounds = 0
        while rounds < options.pairs and time.monotonic() < end:
            for child, state in rng.sample(turns, len(turns)):
                child.iterate(state)
            rounds += 1
    finally:
        for child in children:
            child.stop()
    never = [statistics.fmean(times) for times in zip(*(child.times[0] for child in baseline))]
    print(f"{options.workload}: {1e3 * statistics.median(never):.3f} ms, {rounds} rounds, {options.starts} starts of each")
    numbers = {}
    for name, steps in processes.items():
        for state, label in enumerate(labels(name, steps)):
            started = [child for child in ready if child.name == name]
            if started and label != baseline[0].name:
                cpu, faults, switches = map(statistics.fmean, zip(*(use for child in started for use in child.uses[state])))
                numbers[label] = {**summary([ratios(child, state, never) for child in started]), "cpu_ms": 1e3 * cpu, "faults": faults,
                                  "switches": switches}
                print("  {:<48} {ratio:.4f}  [{low:.4f}, {high:.4f}]  {cpu_ms:7.3f} ms  {faults:5.1f}  {switches:5.1f}".format(
                    label, **numbers[label]), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(numbers, out, indent=1)
    return 0 if len(ready) == len(children) else 1


if __name__ == "__main__":
    sys.exit(main())
