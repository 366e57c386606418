# SPDX-License-Identifier: Apache-2.0
"""Shared by the contract checks: running programs and failing with a reason."""

import concurrent.futures
import os
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INCLUDE = os.path.join(ROOT, "include")


def run(command, **options):
    """Runs a program; returns its exit status and its output, including stderr."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          **options)
    return done.returncode, done.stdout


def must_run(command, **options):
    """Runs a program that must succeed; returns its output."""
    status, output = run(command, **options)
    if status != 0:
        fail(f"status {status} from: {shlex.join(map(str, command))}\n{output}")
    return output


def fail(message):
    print("FAILED:", message)
    sys.exit(1)


def finish(failures, checked):
    """Ends the check: status 0 with a line about the checked items, or 1 with every failure."""
    for failure in failures:
        print("FAILED:", failure)
    if not checked:
        fail("nothing was checked")
    if failures:
        sys.exit(1)
    print("ok:", checked)
    sys.exit(0)


def public_headers():
    """Every public header, as written in an #include."""
    headers = []
    for folder, _, files in os.walk(os.path.join(INCLUDE, "pitot")):
        headers += [os.path.relpath(os.path.join(folder, name), INCLUDE) for name in files if name.endswith(".h")]
    return sorted(headers)


def in_parallel(function, items):
    """The results of function(item), in the order of the items, computed on all CPUs."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))
