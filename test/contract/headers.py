#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every public header alone, as C++ or as C: headers.py COMPILER STANDARD [INCLUDE_ROOT]

For C++17 examples in comments must not need C++20, either.
"""

import os
import re
import sys

import common

DESIGNATED = re.compile(r"[{,]\s*\.\w+\s*=")


def check(compiler, standard, header, include):
    # Twice, so that a header without a guard fails, too.
    source = f'#include "{header}"\n#include "{header}"\n'
    command = [compiler, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror",
               f"-I{include}", "-x", "c++" if "++" in standard else "c", "-"]
    status, output = common.run(command, input=source)
    if status != 0:
        return f"{header} does not compile alone with {compiler} -std={standard}:\n{output}"
    return find_designated(header, include) if standard == "c++17" else None


def find_designated(header, include):
    with open(os.path.join(include, header), encoding="utf-8") as file:
        lines = [number for number, line in enumerate(file, 1) if DESIGNATED.search(line)]
    return f"{header}:{lines[0]}: names members in braces, which is C++20" if lines else None


def main():
    compiler, standard = sys.argv[1:3]
    if len(sys.argv) > 3:
        common.INCLUDE = os.path.abspath(sys.argv[3])
    headers = common.public_headers()
    results = common.in_parallel(lambda header: check(compiler, standard, header, common.INCLUDE), headers)
    common.finish([result for result in results if result], f"{len(headers)} headers" if headers else "")


if __name__ == "__main__":
    main()
