#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the first programs of two guides as they stand, in the oldest C++ that a host may have: guide.py COMPILER"""

import os
import sys

import common

# Functions of the server: the program calls them without defining them.
SERVER = """
#include <pitot/options.h>
extern pitot::LogFunction LogOfServer;
void LoadModel();
void Serve();
"""
GUIDES = {"instrument.md": "", "gpu.md": SERVER}


def main():
    compiler = sys.argv[1]
    for name, before in GUIDES.items():
        with open(os.path.join(common.ROOT, "docs", "guide", name), encoding="utf-8") as file:
            program = file.read().split("```cpp\n")[1].split("```")[0].split("\n...\n")[0]
        if "MakeWhyJudge" not in program or "int main()" not in program:
            common.fail(f"the first program of {name} lacks main or the judge")
        common.must_run([compiler, "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                         f"-I{common.INCLUDE}", "-x", "c++", "-"], input=before + program)
    common.finish([], "the first programs of the guides")


if __name__ == "__main__":
    main()
