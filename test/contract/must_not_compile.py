#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong uses of the macros, each with a right one: must_not_compile.py COMPILER [FOLDER [FLAG]...]

Each file compiles as it is (the good twin), and must not compile with -DBAD. The compiler's message must contain at least
one of the `// expect: TEXT` lines (compilers word messages differently).
"""

import os
import re
import sys

import common


def check(compiler, path, flags):
    name = os.path.basename(path)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    expected = re.findall(r"^// expect: (.*)$", text, re.M)
    if "#ifdef BAD" not in text or not expected:
        return [f"{name}: needs an #ifdef BAD and an `// expect:` line"]
    failures = []
    for standard in ("c++17", "c++20"):
        command = [compiler, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{common.INCLUDE}", *flags, path]
        status, output = common.run(command)
        if status != 0:
            failures.append(f"{name}: the good twin does not compile at {standard}:\n{output}")
        status, output = common.run(command + ["-DBAD"])
        if status == 0:
            failures.append(f"{name}: the bad twin compiles at {standard}")
        elif not any(message in output for message in expected):
            failures.append(f"{name}: at {standard} the message has none of {expected}:\n{output}")
    return failures


def main():
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "must_not_compile")
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".cc"))
    results = common.in_parallel(lambda path: check(sys.argv[1], path, sys.argv[3:]), paths)
    common.finish([failure for found in results for failure in found], f"{len(paths)} pairs" if paths else "")


if __name__ == "__main__":
    main()
