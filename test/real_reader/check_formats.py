#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares converted files, as programs by others read them, with a dump.

`pitot convert` makes the file; a reader from tools/readers opens it, and must find exactly the recorded rows. The formats are
pprof (`go tool pprof`), kineto-hta (Holistic Trace Analysis), kineto-tensorboard (PyTorch's plug-in), kineto-catapult (Catapult's
trace viewer), kineto-perfetto (Perfetto's importer of JSON), perfetto-protos (Perfetto's published messages), xspace (XProf), otlp
and otlp-profiles (OpenTelemetry's messages), otlp-collector (rotel, which forwards spans) and parquet (DuckDB, pandas and Arrow).
Exit: 0 equal, 1 different, 77 a reader is not installed.
"""

import argparse
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/perfetto_reader"))
import rotel  # noqa: E402
from check_incident import Differences, expected_rows  # noqa: E402


class ReaderMissing(Exception):
    pass


class Files:
    """The dump's rows, and its conversions."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.rows = expected_rows(args.expected_rows, args.dump)

    def convert(self, to, name, *options):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([self.args.pitot, "convert", self.args.dump, "--to", to, "-o", path, *options], check=True,
                       capture_output=True)
        return path

    def top(self, by):
        out = subprocess.run([self.args.pitot, "top", "--by", by, "--json", self.args.dump], capture_output=True, text=True)
        return json.loads(out.stdout)

    def program(self, reader, name):
        path = self.args.readers / reader / "bin" / name
        if not path.exists():
            raise ReaderMissing(f"{reader} is not installed: run tools/readers {reader}")
        return path

    def ask(self, script, path, *options, reader=None):
        """The answer of a program in this folder that uses the reader, by default of the same name."""
        reader, script = reader or script, pathlib.Path(__file__).parent / f"read_{script}.py"
        out = subprocess.run([self.program(reader, "python"), script, path, *options], check=True, capture_output=True, text=True,
                             cwd=self.folder)
        return json.loads(out.stdout.splitlines()[-1])

    def work(self):
        """Kernels, copies and sets by their names in PyTorch's profiler: number and microseconds."""
        sums = collections.defaultdict(lambda: [0, 0.0])
        for _, _, _, duration, shown, *_ in self.rows["gpu"]:
            name = kineto_name(shown)
            if name is not None:
                sums[name][0] += 1
                sums[name][1] += int(duration) / 1000
        return {(name, count, round(us, 3)) for name, (count, us) in sums.items()}


def kineto_name(shown):
    if shown.startswith("memcpy "):
        kind, comma, places = shown.removeprefix("memcpy ").rpartition(", ")
        origin, _, target = places.partition(" to ")
        letters = ["D" if place == "device" else "H" for place in (origin, target)]
        return f"Memcpy {kind if comma else 'to'.join(letters)} ({origin.capitalize()} -> {target.capitalize()})"
    if shown.startswith("memset "):
        return f"Memset ({shown.removeprefix('memset ').capitalize()})"
    return None if re.fullmatch(r"graph \d+", shown) else shown


def triples(rows):
    return {(name, count, round(us, 3)) for name, count, us in rows}


def check_pprof(files, differences):
    go, path = files.program("go", "go"), files.convert("pprof", "profile.pb.gz", "--compress")

    def top(sample):
        out = subprocess.run([go, "tool", "pprof", "-top", "-unit=ns", "-nodecount=1000000", "-nodefraction=0",
                              f"-sample_index={sample}", path], check=True, capture_output=True, text=True).stdout
        rows = re.findall(r"^ *(\d+)(?:ns)? +[\d.e+-]+% +[\d.e+-]+% +(\d+)(?:ns)? +[\d.e+-]+% +(.*)$", out, re.M)
        total = int(re.search(r"Total samples = (\d+)(?:ns)?", out).group(1)) if "Total samples" in out else 0
        return total, {name: (int(flat), int(cum)) for flat, cum, name in rows}

    scopes, kernels, requests = files.top("scope"), files.top("kernel"), files.top("request")
    total, found = top("host")
    differences.compare("host time by scope", {(r["name"], r["self_cpu_ns"], r["cpu_total_ns"]) for r in scopes["rows"]
                                               if r["cpu_total_ns"]}, {(name, *ns) for name, ns in found.items()})
    differences.compare("host time", [scopes["totals"]["self_cpu_ns"]], [total])
    differences.compare("waits", [scopes["totals"]["self_wait_ns"]], [top("wait")[0]])
    total, found = top("gpu")
    differences.compare("GPU time by kernel", {(r["name"], r["self_gpu_ns"]) for r in kernels["rows"]},
                        {(name, flat) for name, (flat, _) in found.items() if flat})
    differences.compare("GPU time by scope", {(r["name"], r["gpu_total_ns"]) for r in scopes["rows"] if r["gpu_total_ns"]},
                        {(name, cum) for name, (flat, cum) in found.items() if not flat})
    differences.compare("GPU time", [kernels["totals"]["self_gpu_ns"]], [total])
    total, found = top("request_gpu")
    differences.compare("GPU time by request", {(r["name"], r["self_gpu_ns"]) for r in requests["rows"] if r["self_gpu_ns"]},
                        {(name, flat) for name, (flat, _) in found.items() if flat})
    differences.compare("GPU time of requests", [requests["totals"]["self_gpu_ns"]], [total])
    tags = subprocess.run([go, "tool", "pprof", "-tags", "-sample_index=host", path], check=True, capture_output=True,
                          text=True).stdout
    threads = re.findall(r"\(.*%\): (.*)", tags.partition(" thread: ")[2].partition("\n\n")[0])
    busy = {tid for tid, *_ in files.rows["slice"]}
    differences.compare("threads", {name for tid, name in files.rows["thread"] if tid in busy}, threads)


def check_hta(files, differences):
    path = files.convert("kineto", "trace.json")
    found = files.ask("hta", path)
    differences.compare("work of GPUs", files.work(), triples(found["work"]))
    differences.compare("launches", {(call, int(delay)) for call, delay in delays(files)},
                        {(call, round(delay * 1000)) for call, delay in found["delays"]})
    # HTA would take whole graphs for kernels.
    if files.work() and not any(kineto_name(row[4]) is None for row in files.rows["gpu"]):
        out = subprocess.run([files.args.pitot, "analyze", "--compat", "hta", "--only", "a01", "--json", files.args.dump],
                             capture_output=True, text=True)
        measures = json.loads(out.stdout)["analyzers"][0]["measures"]
        differences.compare("temporal breakdown", {(m["name"].removesuffix("_time"), m["value"]) for m in measures
                                                   if m["subject"] == "all"},
                            {(name, us * 1000) for name, us in files.ask("hta", path, "--breakdown").items()})


def delays(files):
    """Calls with one piece of work: their number, and the time from the call's end to the work's begin."""
    ends = {(name, ts): int(ts) + max(int(dur), 0) for _, ts, dur, name, _ in files.rows["call"]}
    numbers = {(name, ts): i + 1 for i, (_, ts, _, name, _) in enumerate(files.rows["call"])}
    single = collections.Counter((name, ts) for name, ts, _, _ in files.rows["launch"])
    for name, ts, _, begin in files.rows["launch"]:
        if name == "cudaLaunchKernel" and single[(name, ts)] == 1:
            yield numbers[(name, ts)], max(int(begin) - ends[(name, ts)], 0)


def merged_by_tensorboard(files):
    """Names of operators that it leaves out: the only one directly inside of one with the same name."""
    names, merged, stack = {row["name"] for row in files.top("op")["rows"]}, [], []

    def close(depth):
        while len(stack) > depth:
            name, inside = stack.pop()
            if name in names and inside == [name]:
                merged.append(name)

    threads = collections.defaultdict(list)
    for tid, ts, _, depth, name in files.rows["slice"]:
        threads[tid].append((int(ts), int(depth), name))
    for slices in threads.values():
        for _, depth, name in sorted(slices, key=lambda row: row[:2]):
            close(depth)
            if stack:
                stack[-1][1].append(name)
            stack.append((name, []))
        close(0)
    return collections.Counter(merged)


def check_tensorboard(files, differences):
    found = files.ask("tensorboard", files.convert("kineto", "host_1.1700000000000.pt.trace.json.gz", "--compress"))
    kernels = {row for row in files.work() if not row[0].startswith("Mem")}
    differences.compare("kernels", {(name, count, round(us)) for name, count, us in kernels},
                        {(name, count, round(us)) for name, count, us in found["kernels"]})
    # Those that began before the window are in the file, too.
    names = {row["name"] for row in files.top("op")["rows"]}
    operators = collections.Counter(name for *_, name in files.rows["slice"] if name in names) - merged_by_tensorboard(files)
    differences.compare("operators", operators.items(), [tuple(row) for row in found["operators"]])
    views = {"Overview", "Operator", "Trace"} | ({"Kernel"} if kernels else set())
    differences.compare("views", views, set(found["views"]) - {"Memory"})


def check_catapult(files, differences):
    node = shutil.which("node")
    pages = list(files.args.readers.glob("tensorboard/lib/*/site-packages/torch_tb_profiler/static/trace_viewer_full.html"))
    if node is None or not pages:
        raise ReaderMissing("Catapult's viewer is not installed: run tools/readers tensorboard, and install nodejs")
    script, path = pathlib.Path(__file__).parent / "read_catapult.js", files.convert("kineto", "trace.json")
    out = subprocess.run([node, script, pages[0], path], check=True, capture_output=True, text=True)
    found = json.loads(out.stdout)
    sums = collections.defaultdict(lambda: [0, 0.0])
    for category, name, us in found["slices"]:
        if category in ("kernel", "gpu_memcpy", "gpu_memset"):
            sums[name][0] += 1
            sums[name][1] += us
    differences.compare("work of GPUs", files.work(), triples((name, *sum_) for name, sum_ in sums.items()))
    # The viewer draws the first arrow of a launch, and warns of the others: a graph's launch has one for each kernel.
    first = {}
    for call, ts, _, at in files.rows["caused"]:
        first[(call, ts)] = min(first.get((call, ts), int(at)), int(at))
    differences.compare("arrows", [(call, at - int(ts)) for (call, ts), at in first.items()],
                        [(call, round(us * 1000)) for call, us in found["flows"]])
    differences.compare("warnings", ["flow_slice_ordering_error"] * (len(files.rows["caused"]) - len(first)), found["warnings"])


def check_perfetto(files, differences):
    if not (ROOT / "build/perfetto-venv").exists():
        raise ReaderMissing("Perfetto is not installed: run tools/perfetto_reader/perfetto_wheel.py")
    from perfetto_query import PerfettoReader
    with PerfettoReader(files.convert("kineto", "trace.json")) as reader:
        problems = [row for row in reader.stats() if "json" in row[0]]
        print(f"import problems: {problems or 'none'}")
        differences.count += bool(problems)
        found = reader.query("select name, count(), sum(dur) from slice where category in ('kernel', 'gpu_memcpy', 'gpu_memset') "
                             "group by name")
        differences.compare("work of GPUs", files.work(), {(name, count, round(ns / 1000, 3)) for name, count, ns in found})
        arrows = reader.query("""select out.name, work.ts - out.ts from flow join slice out on slice_out = out.id
            join slice work on slice_in = work.id""")
        differences.compare("arrows", [(call, int(at) - int(ts)) for call, ts, _, at in files.rows["caused"]],
                            [tuple(row) for row in arrows])


def check_perfetto_protos(files, differences):
    found = files.ask("perfetto_protos", files.convert("perfetto", "dump.pftrace"), reader="perfetto")
    differences.compare("unknown fields and types", [], found["unknown"])
    differences.compare("events without a track", [0], [found["without_track"]])
    differences.compare("counter samples", [len(files.rows["counter"]) + len(files.rows["sample"])],
                        [found["events"].get("counter", 0)])


def check_xspace(files, differences):
    found = files.ask("xprof", files.convert("xspace", "plugins/profile/run/host.xplane.pb"))
    kernels = {row for row in files.work() if not row[0].startswith("Mem")}
    differences.compare("kernels", kernels, triples(found["kernels"]))
    differences.compare("work on lines", collections.Counter((gpu.split()[1], stream.split()[1])
                                                             for gpu, stream, *_ in files.rows["gpu"]).items(),
                        [((gpu, stream), count) for gpu, stream, count in found["lines"]])
    differences.compare("steps", [len(files.rows["batch"])], [found["steps"]])


def check_otlp(files, differences):
    compare_spans(files, differences, files.convert("otlp", "trace.otlp.pb"))


def check_collector(files, differences):
    agents = list(files.args.readers.glob("rotel/lib/*/site-packages/rotel/rotel-agent"))
    if not agents:
        raise ReaderMissing("rotel is not installed: run tools/readers rotel")
    path = files.convert("otlp", "trace.otlp.pb")
    status, body = rotel.forwarded(agents[0], path.read_bytes())
    differences.compare("answers", [200], [status])
    path.write_bytes(body)
    compare_spans(files, differences, path)


def check_profiles(files, differences):
    found = files.ask("otlp_profiles", files.convert("otlp-profiles", "dump.otlp-profiles.pb"), reader="otlp")
    scopes, kernels, requests = files.top("scope"), files.top("kernel"), files.top("request")
    differences.compare("unknown fields", [], found["unknown"])
    differences.compare("host time by scope", {(r["name"], r["self_cpu_ns"]) for r in scopes["rows"] if r["self_cpu_ns"]},
                        {tuple(row) for row in found["flat"]["host"]})
    differences.compare("waits", [scopes["totals"]["self_wait_ns"]], [sum(ns for _, ns in found["flat"]["wait"])])
    differences.compare("GPU time by kernel", {(r["name"], r["self_gpu_ns"]) for r in kernels["rows"]},
                        {tuple(row) for row in found["flat"]["gpu"]})
    differences.compare("GPU time by request", {(r["name"], r["self_gpu_ns"]) for r in requests["rows"] if r["self_gpu_ns"]},
                        {tuple(row) for row in found["flat"]["request_gpu"]})
    differences.compare("frames of CUDA's type", {r["name"] for r in kernels["rows"]}, set(found["cuda"]))


def compare_spans(files, differences, path):
    found = files.ask("otlp", path)
    differences.compare("unknown fields", [], found["unknown"])
    # Spans have Unix time, and the rows the time since the machine's start.
    origin = int(files.rows["clock"][0][0])
    differences.compare("requests", [(route, id_, int(ts) + origin, int(dur))
                                     for route, ts, dur, id_, _ in files.rows["request"] if int(dur) >= 0],
                        [tuple(row) for row in found["requests"]])
    differences.compare("stages", [(id_, name, int(ts) + origin, int(dur))
                                   for id_, ts, dur, name in files.rows["stage"] if int(dur) >= 0],
                        [tuple(row) for row in found["stages"]])
    differences.compare("batches", [(int(ts) + origin, int(dur), int(n))
                                    for _, ts, dur, n in files.rows["batch"] if int(dur) >= 0],
                        [tuple(row) for row in found["batches"]])
    differences.compare("links of batches", [len(files.rows["joined"]) + len(files.rows["arrow"])], [found["links"]])


def check_parquet(files, differences):
    folder = files.convert("parquet", "tables")
    compare_tables(files, differences, files.ask("duckdb", folder))
    compare_tables(files, differences, files.ask("duckdb", files.convert("parquet", "packed", "--compress")))
    program = files.program("duckdb", "duckdb")
    # The documented questions, which may have no answer.
    for question in re.findall(r"```sql\n(.*?)```", (ROOT / "docs/reference/query.md").read_text(), re.S):
        answer = subprocess.run([files.args.pitot, "query", files.args.dump, question, "--duckdb", program], capture_output=True)
        differences.compare("questions", [True], [answer.returncode in (0, 1)])
    # The same sums through `pitot query`.
    query = "select coalesce(host_id, id) || ' ' || route, gpu_ns from requests where gpu_ns > 0"
    out = subprocess.run([files.args.pitot, "query", files.args.dump, query, "--json", "--duckdb", program],
                         capture_output=True, text=True)
    differences.compare("requests of a query", requests_of(files), [tuple(row.values()) for row in json.loads(out.stdout)])


def requests_of(files):
    return {(row["name"], row["self_gpu_ns"]) for row in files.top("request")["rows"]
            if row["self_gpu_ns"] and row["name"] != "(no request)"}


def compare_tables(files, differences, found):
    def rows(name):
        return [tuple(row) for row in found[name]]

    differences.compare("tables that Arrow reads otherwise", [], found["different"])
    kernels = {(row["name"], row["self_gpu_ns"]) for row in files.top("kernel")["rows"]}
    differences.compare("GPU time by kernel, DuckDB", kernels, rows("kernels"))
    differences.compare("GPU time by kernel, pandas", kernels, rows("kernels_pandas"))
    differences.compare("host time by scope", {(row["name"], row["self_cpu_ns"]) for row in files.top("scope")["rows"]
                                               if row["self_cpu_ns"]}, rows("scopes"))
    differences.compare("GPU time by request", requests_of(files), rows("requests"))
    differences.compare("GPU work", [(int(ts), int(dur), int(size), int(graph), path) for _, _, ts, dur, _, size, graph, path, _
                                     in files.rows["gpu"]], rows("work"))
    differences.compare("calls", [(int(tid), int(ts), int(dur), name) for tid, ts, dur, name, _ in files.rows["call"]],
                        rows("calls"))
    differences.compare("launches", [(name, int(ts), int(begin)) for name, ts, _, begin in files.rows["caused"]], rows("caused"))
    differences.compare("stages", [(id_, int(ts), int(dur), name) for id_, ts, dur, name in files.rows["stage"]], rows("stages"))
    differences.compare("samples", [(int(ts), name, float(value)) for ts, name, value, *_ in files.rows["sample"]],
                        rows("samples"))
    differences.compare("UTC", [(0,)] * len(files.rows["request"]), rows("utc"))


CHECKS = {"pprof": check_pprof, "kineto-hta": check_hta, "kineto-tensorboard": check_tensorboard,
          "kineto-catapult": check_catapult, "kineto-perfetto": check_perfetto,
          "perfetto-protos": check_perfetto_protos, "xspace": check_xspace, "otlp": check_otlp,
          "otlp-profiles": check_profiles, "otlp-collector": check_collector, "parquet": check_parquet}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", type=pathlib.Path)
    parser.add_argument("--format", action="append", choices=CHECKS, help="by default all")
    parser.add_argument("--pitot", type=pathlib.Path, default=ROOT / "build/release/bin/pitot")
    parser.add_argument("--expected-rows", type=pathlib.Path, default=ROOT / "build/release/bin/pitot_expected_rows")
    parser.add_argument("--readers", type=pathlib.Path, default=ROOT / "build/readers", help="as tools/readers installs them")
    args = parser.parse_args()
    args.readers, args.pitot, args.dump = args.readers.resolve(), args.pitot.resolve(), args.dump.resolve()
    different = missing = 0
    for name in args.format or CHECKS:
        print(f"-- {name}")
        with tempfile.TemporaryDirectory() as folder:
            differences = Differences()
            try:
                CHECKS[name](Files(args, pathlib.Path(folder)), differences)
            except ReaderMissing as problem:
                print(problem)
                missing += 1
            different += differences.count
    print("equal" if different == 0 else f"{different} kinds of rows differ")
    return 1 if different else 77 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
