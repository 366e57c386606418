# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder have in common. Environment: PITOT_PROGRAM; PITOT_OUTSIDE_DATA, the folder of the data."""

import json
import os
import subprocess
import sys
import tarfile

SKIPPED = 77


def folder_of(name):
    """The path of a folder of the data. Ends the test as skipped if it is not there."""
    data = os.environ.get("PITOT_OUTSIDE_DATA", "")
    path = os.path.join(data, name)
    if not data or not os.path.isdir(path):
        print(f"skipped: PITOT_OUTSIDE_DATA names no folder with {name}/ in it")
        sys.exit(SKIPPED)
    return path


def unpack(path, work):
    """Unpacks an archive of incidents into `work`. The paths of their dumps, by time."""
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if member.isfile() and member.name.endswith("/dump.pitot")]
        archive.extractall(work, members)
    return sorted(os.path.join(work, member.name) for member in members)


def pitot(*arguments):
    """Runs the tool. Its `stdout`, `stderr` and `returncode`."""
    return subprocess.run([os.environ["PITOT_PROGRAM"], *arguments], capture_output=True, text=True, check=False)


def pitot_json(*arguments):
    """The tool's answer; {} if it has none."""
    done = pitot(*arguments, "--json")
    return json.loads(done.stdout) if done.stdout else {}


def tell(judged):
    """Prints (name, faults) of each input, failures one per line. Returns the exit code."""
    failures = [f"WRONG {name}: {fault}" for name, faults in judged for fault in faults]
    for line in failures:
        print(line)
    print(f"{len(judged)} inputs, {len(failures)} failures")
    return 1 if failures or not judged else 0
