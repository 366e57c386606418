#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens incidents in Perfetto's own interface, in a headless browser, and compares the page with their dumps.

The page must have a track with the recorded name for each thread, route, stream and counter, in the right group, with exactly
the recorded slices or samples. Exit: 0 equal, 1 different, 2 a dump cannot be converted, 77 the browser or the interface is
missing.
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/perfetto_reader"))
from check_incident import Differences, expected_rows  # noqa: E402
from perfetto_query import stop_cleanly_when_terminated  # noqa: E402
from perfetto_ui import PerfettoUi  # noqa: E402
from perfetto_wheel import EnvironmentProblem  # noqa: E402

TIME_LIMIT_S = 300
OPEN_ALL = {"expandAll": True, "expand": [], "pin": [], "select": None, "fromNs": None, "toNs": None}


def counted(pairs):
    """Rows (key..., count) for repeated keys."""
    return [(*key, n) for key, n in collections.Counter(pairs).items()]


def compare(rows, tracks, differences):
    [[name, pid]] = rows["process"]
    process = f"{name} {pid}"
    below = [(track["path"][1:], track) for track in tracks if track["path"][0] == process]
    differences.compare("tracks not on the page", [], [" / ".join(track["path"]) for track in tracks if not track["isOnPage"]])

    # Calls and marks of losses are also on these tracks; check_incident.py compares them.
    names = {tid: f"{thread} {tid}" for tid, thread in rows["thread"]}
    on_threads = [(names[tid], slice_name) for tid, _, _, _, slice_name in rows["slice"]]
    on_threads += [(names[tid], instant) for tid, _, instant in rows["instant"]]
    calls = {row[3] for row in rows["call"]}
    differences.compare(
        "slices of threads", [row for row in counted(on_threads) if row[1] not in calls],
        [(path[0], slice_name, n) for path, track in below if len(path) == 1 and path[0] in names.values()
         for slice_name, n in track["slices"].items() if slice_name not in calls and not slice_name.startswith("lost: ")])

    differences.compare(
        "requests", counted((f"requests {route}", route, f"{route} {id_[-4:]}") for route, _, _, id_, _ in rows["request"]),
        [(*path, slice_name, n) for path, track in below if len(path) == 2 and path[0] == f"requests {path[1]}"
         for slice_name, n in track["slices"].items() if slice_name.startswith(f"{path[1]} ")])

    batches = sum(n for path, track in below if path and path[0].startswith("batches ") for slice_name, n in track["slices"].items()
                  if slice_name == path[0].removeprefix("batches ") + " batch")
    differences.compare("batches", ["batch"] * len(rows["batch"]), ["batch"] * batches)

    differences.compare(
        "work of streams", counted((gpu, stream) for gpu, stream, *_ in rows["gpu"]),
        [(*path, sum(n for name, n in track["slices"].items() if not name.startswith("lost: ")))
         for path, track in below if len(path) == 2 and path[0].startswith("GPU ") and path[1].startswith("stream ")])

    streams = dict.fromkeys((gpu, stream) for gpu, stream, *_ in rows["gpu"])
    differences.compare("order of streams", enumerate(streams),
                        enumerate(tuple(path) for path, _ in below if tuple(path) in streams))

    # Groups of counters are for people: they begin with this word.
    differences.compare(
        "counters", counted([(name,) for _, name, _ in rows["counter"]]
                            + [(gpu, name) if gpu else (name,) for _, name, _, gpu, _ in rows["sample"]]),
        [(*[part for part in path if part.split()[0] != "counters"], track["samples"]) for path, track in below
         if track["samples"]])


def check(dumps, args):
    """Compares dumps with the page of one file: a trace, or an archive of traces of several processes."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "trace.pftrace" if len(dumps) == 1 else "all.tar")
        subprocess.run([args.pitot, "convert", *dumps, "--to", "perfetto", "-o", file], check=True, capture_output=True)
        with PerfettoUi(file, TIME_LIMIT_S) as ui:
            ui.evaluate("arrange", OPEN_ALL)
            ui.fit_height()
            tracks = ui.evaluate("shownTracks")
            if args.pictures:
                args.pictures.mkdir(parents=True, exist_ok=True)
                name = dumps[0].parent.name if len(dumps) == 1 else "archive"
                args.pictures.joinpath(f"{name}.png").write_bytes(ui.picture())
    differences = Differences()
    for dump in dumps:
        print(f"-- {dump}")
        compare(expected_rows(args.expected_rows, dump), tracks, differences)
    return differences.count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dumps", nargs="+", type=pathlib.Path, help="dumps of incidents")
    parser.add_argument("--pitot", type=pathlib.Path, default=ROOT / "build/release/bin/pitot")
    parser.add_argument("--expected-rows", type=pathlib.Path, default=ROOT / "build/release/bin/pitot_expected_rows",
                        help="the program built from expected_rows.cc")
    parser.add_argument("--together", action="store_true", help="in one archive; each dump is of another process")
    parser.add_argument("--pictures", type=pathlib.Path, metavar="FOLDER", help="keep a picture of each page")
    args = parser.parse_args()
    stop_cleanly_when_terminated()
    different = 0
    for dumps in [args.dumps] if args.together else [[dump] for dump in args.dumps]:
        try:
            different += check(dumps, args)
        except EnvironmentProblem as problem:
            print(f"skipped: {problem}")
            return 77
        except subprocess.CalledProcessError as error:
            print(f"{' '.join(map(str, error.cmd))}: {error.stderr}", file=sys.stderr)
            return 2
    print("equal" if different == 0 else f"{different} kinds of rows differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
