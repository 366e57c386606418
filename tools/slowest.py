#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists the slowest parts of a build or of a run of the tests.

usage: tools/slowest.py compiled BUILD_FOLDER [--since SECONDS] [--count N]
       tools/slowest.py tested LOG [--count N]

`compiled` reads Ninja's log of a build folder: outputs made since that time (seconds since 1970; default: all), with their
total. `tested` reads the output of ctest. Seconds are wall time, and include waiting for a CPU.
"""

import argparse
import os
import re
import sys

TEST = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) \.*\**\s*[\w ]+?\s+([\d.]+) sec")


def compiled(folder, since):
    """(seconds, output) of each output of Ninja."""
    took = {}
    with open(os.path.join(folder, ".ninja_log"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                continue
            begin_ms, end_ms, made_ns, output, _ = line.rstrip("\n").split("\t")
            if int(made_ns) >= since * 10**9:
                took[output] = (int(end_ms) - int(begin_ms)) / 1000
    return [(seconds, short(output)) for output, seconds in took.items()]


def short(output):
    """lib/analyze/CMakeFiles/pitot_analyze.dir/blame/walk.cc.o: lib/analyze/blame/walk.cc"""
    found = re.fullmatch(r"(.*)/CMakeFiles/[^/]+\.dir/(.*)\.o", output)
    return f"{found.group(1)}/{found.group(2)}" if found else output


def tested(log):
    """(seconds, name) of each test."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return [(float(found.group(2)), found.group(1)) for found in map(TEST.match, file) if found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["compiled", "tested"])
    parser.add_argument("path")
    parser.add_argument("--since", type=float, default=0)
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    try:
        took = compiled(options.path, options.since) if options.what == "compiled" else tested(options.path)
    except OSError as error:
        print(f"slowest: {error}", file=sys.stderr)
        return 1
    took.sort(reverse=True)
    print(f"slowest of {len(took)} {options.what}, {sum(seconds for seconds, _ in took):.0f} s in all")
    for seconds, name in took[:options.count]:
        print(f"{seconds:7.1f} s  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
