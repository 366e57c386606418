#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests of the interpreter's evidence with each other version of CPython on this machine.

Environment: PITOT_LIBRARY; PITOT_PYTHONS (programs with ":" between them; unset: those in PATH, "": none). Without another
version the test is skipped.
"""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = ("interpreter_test.py", "compile_test.py")
NAMES = [f"python3.{minor}{threads}" for minor in range(9, 17) for threads in ("", "t")]
WHICH = """import sys, ctypes
if sys.implementation.name != "cpython" or sys.version_info < (3, 9): sys.exit("not CPython 3.9 or later")
is_locked = getattr(sys, "_is_gil_enabled", lambda: True)()
print("%d.%d%s" % (*sys.version_info[:2], "" if is_locked else " free-threaded"))"""
MOST_S = 250


def version_of(program):
    """Its version, like "3.14 free-threaded"; "" if it cannot run the tests."""
    try:
        done = subprocess.run([program, "-c", WHICH], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def find():
    """Programs by version, each version once, without that of this program."""
    asked = os.environ.get("PITOT_PYTHONS")
    programs = [shutil.which(name) for name in NAMES] if asked is None else asked.split(":")
    own, found = version_of(sys.executable), {}
    for program in filter(None, programs):
        version = version_of(program)
        if asked is not None and not version:
            raise AssertionError(f"PITOT_PYTHONS names {program}, which is not CPython 3.9 or later with ctypes")
        if version and version != own:
            found.setdefault(version, program)
    return found


def run(program, script):
    """The end of its output if it fails; otherwise ""."""
    try:
        done = subprocess.run([program, os.path.join(HERE, script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=MOST_S, errors="replace")
    except subprocess.TimeoutExpired as expired:
        return f"{expired}"
    return "" if done.returncode == 0 else f"{program} {script}: status {done.returncode}\n{done.stdout[-4000:]}"


class Pythons(unittest.TestCase):
    def test_each_interpreter_passes(self):
        found = find()
        if not found:
            self.skipTest("no other CPython was found; PITOT_PYTHONS names some")
        print("CPython", ", ".join(sorted(found)), file=sys.stderr)
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            failures = list(pool.map(run, *zip(*((program, script) for program in found.values() for script in SCRIPTS))))
        self.assertEqual("".join(failures), "")


if __name__ == "__main__":
    unittest.main()
