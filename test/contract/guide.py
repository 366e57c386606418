#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the first program of docs/guide/instrument.md as it stands: guide.py COMPILER"""

import os
import sys

import common

GUIDE = os.path.join(common.ROOT, "docs", "guide", "instrument.md")


def main():
    compiler = sys.argv[1]
    with open(GUIDE, encoding="utf-8") as file:
        program = file.read().split("```cpp\n")[1].split("```")[0]
    if "MakeWhyJudge" not in program or "int main()" not in program:
        common.fail("the first program of the guide lacks main or the judge")
    common.must_run([compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                     f"-I{common.INCLUDE}", "-x", "c++", "-"], input=program)
    common.finish([], "the first program of the guide")


if __name__ == "__main__":
    main()
