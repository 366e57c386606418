#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the machine code of the macros: codegen.py disabled|off|on COMPILER OBJDUMP WORK_FOLDER [SOURCE]

disabled: with PITOT_DISABLED a function full of macros is the same, instruction by instruction, as one without macros.
off:      while recording is off, a macro is a load of the gate, a test and a branch. The path behind the branch calls only
          the user's own functions.
on:       a recording macro has as many instructions as before rings could lie in a black box (2026-11-29), cold paths included.
          For the compilers that were counted.
"""

import os
import platform
import re
import sys

import common

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
# Instructions without padding, of codegen_off.cc at 92b55431 with the flags below. A change must be wanted.
COUNTED = {'g++ 12': {'WithScope': 221, 'WithLeaf': 158, 'WithInstant': 59},
           'clang 14': {'WithScope': 224, 'WithLeaf': 166, 'WithInstant': 64}}


def compile_object(compiler, source, path, *flags):
    common.must_run([compiler, "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function",
                     "-Wno-undefined-internal", f"-I{common.INCLUDE}", "-c", source, "-o", path, *flags])
    return path


def functions(objdump, path):
    """{name: [(address, instruction, relocation or None)]}"""
    result, current = {}, None
    for line in common.must_run([objdump, "-dr", "-C", "--no-show-raw-insn", path]).splitlines():
        if match := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            current = result.setdefault(match[1], [])
        elif match := re.match(r"\s+[0-9a-f]+: R_\w+\s+(.*)$", line):
            address, instruction, _ = current[-1]
            current[-1] = (address, instruction, match[1])
        elif match := re.match(r"\s+([0-9a-f]+):\s+(.*\S)\s*$", line):
            current.append((int(match[1], 16), match[2], None))
    return result


def check_disabled(compiler, objdump, work, source):
    with_macros = compile_object(compiler, source, os.path.join(work, "disabled.o"))
    without = compile_object(compiler, source, os.path.join(work, "bare.o"), "-DBARE")
    listings = [["%x %s %s" % line for line in [(a, i, r or "") for a, i, r in functions(objdump, path)["Handle"]]]
                for path in (with_macros, without)]
    failures = []
    if listings[0] != listings[1]:
        failures.append("compiled out, the macros leave code:\n" + "\n".join(listings[0]) + "\ninstead of\n" + "\n".join(listings[1]))
    left = [line for line in common.must_run(["nm", "-C", with_macros]).splitlines() if re.search(r"pitot", line)]
    if left:
        failures.append("compiled out, the macros leave symbols:\n" + "\n".join(left))
    common.finish(failures, f"{len(listings[1])} instructions, the same with and without macros")


def off_path(code, tests_allowed):
    """The fault in a function's path while the gate is 0, or None."""
    index = {address: at for at, (address, _, _) in enumerate(code)}
    at, calls, branches, saw_gate = 0, [], 0, False
    for _ in range(10000):
        address, instruction, relocation = code[at]
        operation = instruction.split()[0]
        target = re.match(r"j\w+\s+([0-9a-f]+)", instruction)
        if relocation and "g_gate" in relocation:
            saw_gate = True
        if operation == "call":
            if branches == 0:
                return f"calls before the branch on the gate: {instruction} {relocation}"
            calls.append(relocation or instruction)
        elif operation.startswith("ret"):
            break
        elif operation == "jmp":
            if relocation:  # a tail call
                calls.append(relocation)
                break
            at = index[int(target[1], 16)]
            continue
        elif operation.startswith("j"):
            branches += 1
            before = code[at - 1][1].split()[0]
            if operation not in ("je", "jne") or before not in ("test", "cmp", "cmpl", "testl"):
                return f"not load, test, branch: {code[at - 1][1]}; {instruction}"
            if branches == 1 and not saw_gate:
                return f"branches before it has read the gate: {instruction}"
            if branches > 1 + tests_allowed:
                return f"branches again: {instruction}"
            if operation == "je":  # taken, because the gate is 0
                at = index[int(target[1], 16)]
                continue
        at += 1
    others = [call for call in calls if not call.startswith("Work(int)")]
    if others:
        return f"calls {others}"
    return None if branches else "no branch on the gate"


def check_off(compiler, objdump, work, source):
    path = compile_object(compiler, source, os.path.join(work, "off.o"))
    # clang keeps the destructor's test of the null ring on this path; g++ drops it.
    is_clang = "clang" in common.must_run([compiler, "--version"])
    code = functions(objdump, path)
    failures = []
    checked = []
    for name in sorted(code):
        if name.startswith("With") and "." not in name and "[clone" not in name:
            wrong = off_path(code[name], 1 if is_clang else 0)
            if wrong:
                listing = "\n".join("%x %s %s" % (a, i, r or "") for a, i, r in code[name])
                failures.append(f"{name}: {wrong}\n{listing}")
            checked.append(name)
    common.finish(failures, ", ".join(checked))


def count(code):
    """Instructions by function, with its cold path, without padding."""
    counts = {}
    for name, lines in code.items():
        real = [line for line in lines if not re.match(r"(cs |data16 )*(nop|xchg +%ax,%ax)", line[1])]
        whole = re.split(r"[. ]", name)[0]
        counts[whole] = counts.get(whole, 0) + len(real)
    return counts


def check_on(compiler, objdump, work, source):
    version = common.must_run([compiler, "--version"]).splitlines()[0]
    name = ("clang " if "clang" in version else "g++ ") + re.search(r"(\d+)\.\d+\.\d+", version)[1]
    counts = count(functions(objdump, compile_object(compiler, source, os.path.join(work, "on.o"))))
    if name not in COUNTED:
        print(f"skipped: {name} was not counted: {counts}")
        sys.exit(SKIPPED)
    failures = [f"{function}: {counts.get(function)} instructions, and {wanted} before"
                for function, wanted in COUNTED[name].items() if counts.get(function) != wanted]
    common.finish(failures, f"{name}: {counts}")


def main():
    what, compiler, objdump, work = sys.argv[1:5]
    if platform.machine() != "x86_64":
        print("skipped: reads x86-64 code")
        sys.exit(SKIPPED)
    os.makedirs(work, exist_ok=True)
    default = {"disabled": "codegen_disabled.cc", "off": "codegen_off.cc", "on": "codegen_off.cc"}[what]
    source = sys.argv[5] if len(sys.argv) > 5 else os.path.join(HERE, default)
    {"disabled": check_disabled, "off": check_off, "on": check_on}[what](compiler, objdump, work, source)


if __name__ == "__main__":
    main()
