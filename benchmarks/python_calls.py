#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a step of an engine pays for its calls of the Python package: through ctypes, and in C.

usage: benchmarks/python_calls.py [--samples N] [--members N,N] [--leak STEPS]

A step has four scopes, a batch, a counter and a wait, and joins and marks each of its members. Arms take turns, in an order
drawn anew each round:
  empty    a function without calls: what the measurement costs
  floor    as many calls of C that do nothing of Pitot's
  ctypes   the calls one by one, through ctypes
  native   the same, in C
  step     in C, with begin_step and end_step for batch, joins and marks
Before each of them: the same step (hot); a copy of 8 MiB (evicted); that, and other code of C (cold). "request" is a request
with a batch that it joins, and a scope. Medians in us, and in brackets their ratio to ctypes, both without the empty arm.

Needs the package with its extension: PYTHONPATH=build/release/bindings/python.
"""

import argparse
import json
import random
import resource
import statistics
import sys
import tempfile
import threading
import time
import timeit

import pitot
from pitot import _loops, _record, _request

if not pitot.is_native:
    sys.exit("python_calls.py needs the package with its extension: PYTHONPATH=build/release/bindings/python")
from pitot import _native  # noqa: E402

OTHER = {str(i): [i, str(i) * 3, {"a": i}] for i in range(3000)}
DATA = bytearray(8 << 20)


def copy_data():
    bytes(DATA)


def run_other_code():
    json.loads(json.dumps(OTHER))
    bytes(DATA)


BEFORE = {"hot": None, "evicted": copy_data, "cold": run_other_code}  # None: the arm itself


class Form:
    def __init__(self, name, record, request):
        self.name, self.record, self.request = name, record, request


FORMS = [Form("ctypes", _record, _request), Form("native", _native, _native)]


def step_of(form, members):
    """A step of single calls, and the requests that are in it."""
    record, request = form.record, form.request
    schedule, execute, sample, update = (record.scope(name) for name in ("schedule", "execute", "sample", "update"))
    requests = [request.Request("/m") for _ in range(members)]
    tokens = [it.token for it in requests]
    Batch, Wait, counter, device = request.Batch, record.Wait, record.counter, pitot.WaitKind.DEVICE

    def step():
        with schedule:
            pass
        batch = Batch("slots")
        for token in tokens:
            batch.join(token)
        counter("running", 1.0)
        with execute:
            pass
        with sample:
            pass
        with Wait(device, "device"):
            pass
        batch.finish()
        with update:
            pass
        for it in requests:
            it.emit(1)

    return step, requests


def packed_step(members):
    schedule, execute, sample, update = (_native.scope(name) for name in ("schedule", "execute", "sample", "update"))
    requests = [_native.Request("/m") for _ in range(members)]
    begin_step, Wait, counter, device = _native.Batch.begin_step, _native.Wait, _native.counter, pitot.WaitKind.DEVICE

    def step():
        with schedule:
            pass
        batch = begin_step("slots", requests)
        counter("running", 1.0)
        with execute:
            pass
        with sample:
            pass
        with Wait(device, "device"):
            pass
        batch.end_step(requests)
        with update:
            pass

    return step, requests


def floor_step(members):
    lock, number = threading.RLock(), 1
    numbers = [number] * members

    def step():
        with lock:
            pass
        batch = complex(1)
        for one in numbers:
            one.bit_length()
        max(1.0, 2.0)
        with lock:
            pass
        with lock:
            pass
        with lock:
            pass
        batch.conjugate()
        with lock:
            pass
        for one in numbers:
            one.bit_length()

    return step, []


def request_of(form):
    record, request = form.record, form.request
    scope, Request, Batch = record.scope, request.Request, request.Batch

    def serve():
        with Request("/m") as it, Batch("slots") as batch:
            batch.join(it.token)
            with scope("work"):
                pass

    return serve


def nothing():
    pass


def measure(arms, samples, before):
    """Medians in us, by arm."""
    times = {name: [] for name in arms}
    order = list(arms)
    for _ in range(samples):
        random.shuffle(order)
        for name in order:
            run = arms[name]
            (before or run)()
            began = time.perf_counter_ns()
            run()
            times[name].append(time.perf_counter_ns() - began)
    return {name: statistics.median(each) / 1000 for name, each in times.items()}


def show(what, medians):
    empty = medians.pop("empty")
    base = medians["ctypes"] - empty
    print(f"{what:28} empty {empty:5.2f}" + "".join(f"  {name} {us - empty:6.2f} ({(us - empty) / base:.2f})" for name, us in medians.items()),
          flush=True)


def measure_steps(state, options):
    for members in options.members:
        made = {"empty": (nothing, []), "floor": floor_step(members), **{form.name: step_of(form, members) for form in FORMS},
                "step": packed_step(members)}
        for temperature, before in BEFORE.items():
            show(f"{state}, {members} members, {temperature}",
                 measure({name: step for name, (step, _) in made.items()}, options.samples, before))
        for _, requests in made.values():
            for request in requests:
                request.finish()
    for temperature, before in BEFORE.items():
        arms = {"empty": nothing, **{form.name: request_of(form) for form in FORMS}}
        show(f"{state}, request, {temperature}", measure(arms, options.samples, before))


def measure_calls(state):
    """Each call alone in a loop: the best of 15, in ns."""
    request = _native.Request("/m")
    token, scope, step = request.token, _native.scope("work"), _native.Batch("slots")
    calls = {"with scope": "with scope: pass", "scope(name)": "of('work')", "counter": "counter('depth', 1.0)", "instant": "instant('moment')",
             "now": "now()", "Wait": "Wait(7, 'device')", "Request": "Request('/m')", "stage": "request.stage('x')",
             "emit": "request.emit()", "token": "request.token", "enqueue": "request.enqueue('x')", "token.emit": "token.emit()",
             "Batch": "Batch('slots')", "join": "step.join(token)", "emit_many([])": "emit_many(none)", "begin_step": "begin(('slots'), none)",
             "end_step": "step.end_step()"}
    names = {"scope": scope, "of": _native.scope, "counter": _native.counter, "instant": _native.instant, "now": _native.now,
             "Wait": _native.Wait, "Request": _native.Request, "request": request, "token": token, "Batch": _native.Batch, "step": step,
             "emit_many": _native.emit_many, "begin": _native.Batch.begin_step, "none": ()}
    best = {name: min(timeit.Timer(code, globals=names).repeat(15, 5000)) / 5000 * 1e9 for name, code in calls.items()}
    empty = min(timeit.Timer("one.bit_length()", globals={"one": 1}).repeat(15, 5000)) / 5000 * 1e9
    print(f"{state}, ns: empty call {empty:.0f}; " + ", ".join(f"{name} {ns:.0f}" for name, ns in best.items()), flush=True)


def look_for_leaks(steps):
    """Resident memory before and after many steps."""
    run, requests = packed_step(8)
    single, others = step_of(FORMS[1], 8)
    sizes = []
    for part in range(10):
        for _ in range(steps // 20):
            run()
            single()
            _native.Request("/m").finish()
        sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    print(f"{steps} steps: {', '.join(map(str, sizes))} KiB at most")
    for request in requests + others:
        request.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--members", type=lambda text: [int(part) for part in text.split(",")], default=[0, 8, 64])
    parser.add_argument("--leak", type=int, default=0)
    options = parser.parse_args()
    measure_calls("off")
    measure_steps("off", options)
    with tempfile.TemporaryDirectory() as folder:
        recorder = pitot.start(folder)
        _request.set_enter(_loops.enter)
        measure_calls("on")
        measure_steps("on", options)
        if options.leak:
            look_for_leaks(options.leak)
        recorder.stop()


if __name__ == "__main__":
    main()
