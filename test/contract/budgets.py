#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of one #include, and the includes forbidden in public headers: budgets.py COMPILER [INCLUDE_ROOT]"""

import os
import re
import sys

import common

LINES = 300  # of `-E -P` at C++17
# extend/call.h is trace.h and a dozen lines.
BUDGETED = re.compile(r"pitot/(trace|status|options|extend/(?!call)\w+)\.h$")
# Each would bring tens of thousands of lines, a second runtime, or an unstable ABI into every file of a user.
FORBIDDEN = re.compile(
    r'^\s*#\s*include\s*[<"]('
    r"absl/|google/protobuf|[\w/]+\.pb\.h|cuda|cupti|nvtx|torch/|ATen/|c10/|iostream|ostream|istream|fstream|sstream|"
    r"atomic>|chrono>|functional>|filesystem>|regex>)")


def check(compiler, header, include):
    failures = []
    path = os.path.join(include, header)
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if FORBIDDEN.match(line):
                failures.append(f"{header}:{number}: a public header must not contain {line.strip()}")
    lines = None
    if BUDGETED.match(header):
        output = common.must_run([compiler, "-std=c++17", "-E", "-P", f"-I{include}", "-x", "c++", path])
        lines = len(output.splitlines())
        if lines > LINES:
            failures.append(f"{header} is {lines} lines preprocessed, more than {LINES}")
    return failures, (header, lines)


def main():
    include = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else common.INCLUDE
    common.INCLUDE = include
    results = common.in_parallel(lambda header: check(sys.argv[1], header, include), common.public_headers())
    for _, (header, lines) in results:
        if lines is not None:
            print(f"{lines:4} of {LINES} lines  {header}")
    failures = [failure for found, _ in results for failure in found]
    common.finish(failures, f"{len(results)} headers" if results else "")


if __name__ == "__main__":
    main()
