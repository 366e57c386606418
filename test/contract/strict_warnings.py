#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every macro with a user's warnings as errors, optimised or not, disabled or not: strict_warnings.py COMPILER [SOURCE]"""

import itertools
import os
import sys

import common


def main():
    compiler = sys.argv[1]
    source = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "every_macro.cc")
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror"]
    variants = list(itertools.product(("c++17", "c++20"), ("-O0", "-O2", "-O3"), ("", "-DPITOT_DISABLED")))

    def check(variant):
        standard, level, disabled = variant
        command = [compiler, f"-std={standard}", level, *filter(None, [disabled]), *flags, f"-I{common.INCLUDE}", "-c", source,
                   "-o", os.devnull]
        status, output = common.run(command)
        return None if status == 0 else f"{' '.join(filter(None, variant))}:\n{output}"

    common.finish([wrong for wrong in common.in_parallel(check, variants) if wrong], f"{len(variants)} ways to compile")


if __name__ == "__main__":
    main()
