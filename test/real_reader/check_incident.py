#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares an incident's trace.pftrace with its dump.pitot through Perfetto's own trace processor.

SQL must give exactly the recorded threads, slices, instants, counters, requests, stages, batches, GPU work and arrows. The
import must report no error. An incident has a trace.pftrace with Options::perfetto_file, or by `pitot convert`. Exit: 0 equal, 1 different, 2 the comparison could not run.
"""

import argparse
import collections
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/perfetto_reader"))
from perfetto_query import PerfettoReader  # noqa: E402

THREAD_SLICES = """
select t.tid, s.ts, s.dur, s.depth, s.name from slice s join thread_track tt on s.track_id = tt.id join thread t using (utid)
where extract_arg(s.arg_set_id, 'debug.kind') is not 'CUDA call'"""
# A request's lane is below a track named after its route, a batch's lane below one named after its executor.
GROUPED = """
select p.name, s.ts, s.dur, s.depth, s.name, s.id, extract_arg(s.arg_set_id, 'debug.id'),
  extract_arg(s.arg_set_id, 'debug.outcome'), extract_arg(s.arg_set_id, 'debug.batch_id'),
  extract_arg(s.arg_set_id, 'debug.members'), extract_arg(s.arg_set_id, 'debug.request'), s.parent_id
from slice s join track t on s.track_id = t.id join track p on t.parent_id = p.id"""
# Calls are on their threads' tracks, or on tracks named after the thread, or on a track for unknown threads.
CALLS = """
select s.id, coalesce(t.tid, 0), s.ts, s.dur, s.name, extract_arg(s.arg_set_id, 'debug.waits_for'), track.name
from slice s join track on s.track_id = track.id left join thread_track tt on s.track_id = tt.id left join thread t using (utid)
where extract_arg(s.arg_set_id, 'debug.kind') = 'CUDA call'"""
# A stream is below its device's group, rows about recording below a group of their own.
BELOW_GPU = """
select s.id, p.name, t.name, s.ts, s.dur, s.depth, s.name, extract_arg(s.arg_set_id, 'debug.kernel'),
  coalesce(extract_arg(s.arg_set_id, 'debug.bytes'), 0), coalesce(extract_arg(s.arg_set_id, 'debug.graph'), 0),
  coalesce(extract_arg(s.arg_set_id, 'debug.scope_path'), '')
from slice s join track t on s.track_id = t.id join track p on t.parent_id = p.id
where p.name glob 'GPU *' and s.name not glob 'lost: *' and extract_arg(s.arg_set_id, 'debug.kind') is not 'CUDA wait'"""
# Calls with the stream or device they waited for, on a track next to it.
WAITS = """
select p.name, t.name, s.ts, s.dur, s.name from slice s join track t on s.track_id = t.id join track p on t.parent_id = p.id
where extract_arg(s.arg_set_id, 'debug.kind') = 'CUDA wait'"""
GPU_LOSSES = """
select t.name, s.ts, extract_arg(s.arg_set_id, 'debug.lost_to_ns'), substr(s.name, 7)
from slice s join track t on s.track_id = t.id left join track p on t.parent_id = p.id
where s.name glob 'lost: *' and (p.name glob 'GPU *' or t.name glob 'GPU *')"""
SLICES_BY_ID = "select s.id, s.ts, s.name from slice s join thread_track tt on s.track_id = tt.id"
ARROWS = "select slice_out, slice_in from flow"
# A counter of a device is below a group of counters, which is below the device's group.
COUNTERS = """
select c.ts, t.name, c.value, coalesce(g.name, ''), coalesce(k.unit, '')
from counter c join counter_track k on c.track_id = k.id join track t on c.track_id = t.id
left join track p on t.parent_id = p.id left join track g on p.parent_id = g.id"""
THREADS = "select tid, name from thread where upid is not null and tid != 0"


class Differences:
    def __init__(self):
        self.count = 0

    def compare(self, what, expected, found):
        expected, found = collections.Counter(expected), collections.Counter(found)
        print(f"{what:24} {sum(expected.values()):8,} recorded {sum(found.values()):8,} found", end="")
        missing, extra = expected - found, found - expected
        print("" if not missing and not extra else "   DIFFERENT")
        for title, rows in (("missing", missing), ("extra", extra)):
            for row in list(rows)[:5]:
                print(f"    {title}: {row}")
        self.count += bool(missing or extra)


def expected_rows(program, dump):
    rows = collections.defaultdict(list)
    output = subprocess.run([program, dump], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        kind, *fields = line.split("\t")
        rows[kind].append(fields)
    return rows


def check(incident, program):
    expected = expected_rows(program, incident / "dump.pitot")
    differences = Differences()
    with PerfettoReader(incident / "trace.pftrace") as reader:
        problems = reader.stats()
        print(f"import problems: {problems or 'none'}")
        differences.count += bool(problems)

        # Besides the recorded threads the reader may know the process's main thread, even if it recorded nothing.
        found_threads = {(tid, name) for tid, name in reader.query(THREADS)}
        recorded_threads = {(int(tid), name) for tid, name in expected["thread"]}
        differences.compare("threads", recorded_threads, found_threads & recorded_threads | {
            t for t in found_threads - recorded_threads if t[1] is not None and t[0] in {r[0] for r in recorded_threads}})

        slices = [tuple(row) for row in reader.query(THREAD_SLICES)]
        instants = {(int(tid), int(ts), name) for tid, ts, name in expected["instant"]}
        found_instants = {r for r in slices if r[2] == 0 and (r[0], r[1], r[4]) in instants}
        lost_marks = {r for r in slices if r[2] == 0 and r[4].startswith("lost: ")}
        differences.compare("instants", instants, {(r[0], r[1], r[4]) for r in found_instants})
        differences.compare(
            "slices of threads",
            [(int(tid), int(ts), int(dur), int(depth), name) for tid, ts, dur, depth, name in expected["slice"]],
            [r for r in slices if r not in found_instants and r not in lost_marks])
        differences.compare("counter samples", [(int(ts), name, float(value), "", "") for ts, name, value in expected["counter"]]
                            + [(int(ts), name, float(value), gpu, unit) for ts, name, value, gpu, unit in expected["sample"]],
                            [tuple(row) for row in reader.query(COUNTERS)])

        grouped = reader.query(GROUPED)
        requests = {row[5]: row for row in grouped if row[0].startswith("requests ") and row[6] is not None}
        differences.compare("requests",
                            [(f"requests {route}", int(ts), int(dur), id_, outcome or None)
                             for route, ts, dur, id_, outcome in expected["request"]],
                            [(r[0], r[1], r[2], r[6], r[7] if r[7] not in ("open", "unknown") else None)
                             for r in requests.values()])
        # A stage is in its request's slice, perhaps inside another one (a wait in a queue across stages).
        by_id = {row[5]: row for row in grouped}

        def request_of(row):
            while row is not None and row[5] not in requests:
                row = by_id.get(row[11])
            return requests[row[5]][6] if row is not None else None

        differences.compare(
            "stages", [(id_, int(ts), int(dur), name) for id_, ts, dur, name in expected["stage"]],
            [(request_of(r), r[1], r[2], r[4]) for r in grouped
             if r[0].startswith("requests ") and r[5] not in requests and r[3] > 0 and r[10] is None
             and r[4] != "tokens" and not r[4].startswith("trigger: ")])
        batches = {row[5]: row for row in grouped if row[8] is not None}
        differences.compare("batches", [(id_, int(ts), int(dur), int(n)) for id_, ts, dur, n in expected["batch"]],
                            [(r[8], r[1], r[2], r[9]) for r in batches.values()])

        # An arrow leads from a wait in a queue to the batch that took it (or to the mark of joining a running batch). It
        # may also lead to the first scope of the taking thread. Other arrows lead from a request to a batch it joined
        # without a queue, and from a batch to its first scope.
        def batch_of(row):
            while row is not None and row[5] not in batches:
                row = by_id.get(row[11])
            return batches[row[5]][8] if row is not None else None

        calls, by_call = reader.query(CALLS), {}
        for id_, tid, ts, dur, name, waits_for, track in calls:
            by_call[id_] = (name, ts)
        # A call that does not nest in its thread's scopes is on a track next to them, without a thread id.
        tids = {name: tid for tid, name in recorded_threads}
        differences.compare(
            "calls", [(int(tid), int(ts), int(dur), name, stream or None) for tid, ts, dur, name, stream in expected["call"]],
            [(tid or tids.get((track or "").removesuffix(" (CUDA calls)"), 0), ts, dur, name, waits_for)
             for _, tid, ts, dur, name, waits_for, track in calls])
        differences.compare(
            "waits", [(gpu, track, int(ts), int(dur), name) for gpu, track, ts, dur, name in expected["wait"]], reader.query(WAITS))
        below_gpu = reader.query(BELOW_GPU)
        on_stream = {row[0]: (row[2], row[3]) for row in below_gpu if row[1] != "GPU recording"}
        # Names with very many references to their own parts stay as compiled.
        written_out = {row[8]: row[4] for row in expected["gpu"]}
        differences.compare(
            "work of streams", [(gpu, stream, int(ts), int(dur), 0, name, int(size), int(graph), path)
                                for gpu, stream, ts, dur, name, size, graph, path, _ in expected["gpu"]],
            [(*row[1:6], written_out.get(row[7], row[7]) or row[6], *row[8:]) for row in below_gpu if row[1] != "GPU recording"])
        differences.compare(
            "recording of GPUs", [(track, int(ts), int(dur), 0, name) for track, ts, dur, name in expected["recording"]],
            [row[2:7] for row in below_gpu if row[1] == "GPU recording"])
        differences.compare("losses of GPUs", [(track, int(ts), int(to), why) for track, ts, to, why in expected["gpu_loss"]],
                            [tuple(row) for row in reader.query(GPU_LOSSES)])

        on_thread = {row[0]: row[1:] for row in reader.query(SLICES_BY_ID)}
        found = collections.defaultdict(list)
        for out, into in reader.query(ARROWS):
            source, target, scope = by_id.get(out), by_id.get(into), on_thread.get(into)
            if out in by_call and into in on_stream:
                found["call to stream"].append((*by_call[out], *on_stream[into]))
            elif source is not None and source[4].startswith("queued ") and target is not None:
                found["queue to batch"].append((source[10], batch_of(target), source[1]))
            elif source is not None and source[4].startswith("queued ") and scope is not None:
                found["queue to scope"].append((source[10], source[1], scope[0]))
            elif source is not None and source[5] in batches and scope is not None:
                found["batch to scope"].append((source[8], scope[0], scope[1]))
            elif source is not None and source[5] in requests and target is not None:
                found["request to batch"].append((source[6], batch_of(target)))
            else:
                found["none of these"].append((out, into))
        for what, arrows in (
                ("queue to batch", [(r, b, int(ts)) for r, b, ts in expected["arrow"]]),
                ("queue to scope", [(r, int(ts), int(to)) for r, ts, to in expected["adopted"]]),
                ("request to batch", [tuple(row) for row in expected["joined"]]),
                ("batch to scope", [(b, int(ts), name) for b, ts, name in expected["to_scope"]]),
                ("call to stream", [(name, int(ts), stream, int(at)) for name, ts, stream, at in expected["launch"]]),
                ("none of these", [])):
            differences.compare("arrows " + what, arrows, found[what])
    return differences.count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("incidents", nargs="+", type=pathlib.Path, help="incident directories")
    parser.add_argument("--expected-rows", type=pathlib.Path, default=ROOT / "build/release/bin/pitot_expected_rows",
                        help="the program built from expected_rows.cc")
    args = parser.parse_args()
    if not args.expected_rows.exists():
        print(f"{args.expected_rows} does not exist: build the release preset", file=sys.stderr)
        return 2
    different = 0
    for incident in args.incidents:
        print(f"-- {incident.name}")
        different += check(incident, args.expected_rows)
    print("equal" if different == 0 else f"{different} kinds of rows differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
