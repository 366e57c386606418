#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every public header alone, as C++ or as C: headers.py COMPILER STANDARD [INCLUDE_ROOT]"""

import os
import sys

import common


def check(compiler, standard, header, include):
    # Twice, so that a header without a guard fails, too.
    source = f'#include "{header}"\n#include "{header}"\n'
    command = [compiler, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror",
               f"-I{include}", "-x", "c++" if "++" in standard else "c", "-"]
    status, output = common.run(command, input=source)
    return None if status == 0 else f"{header} does not compile alone with {compiler} -std={standard}:\n{output}"


def main():
    compiler, standard = sys.argv[1:3]
    if len(sys.argv) > 3:
        common.INCLUDE = os.path.abspath(sys.argv[3])
    headers = common.public_headers()
    results = common.in_parallel(lambda header: check(compiler, standard, header, common.INCLUDE), headers)
    common.finish([result for result in results if result], f"{len(headers)} headers" if headers else "")


if __name__ == "__main__":
    main()
