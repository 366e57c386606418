#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names the tests of the folders with changed code, for the sanitizers.

usage: tools/affected.py BUILD_FOLDER (--since COMMIT | --all) --print folders|targets|tests|paths

test/ mirrors lib/, so a change in lib/trace or include/pitot/trace.h affects test/trace. FURTHER lists more folders with tests
of a part. A change of the build or of common test code affects all folders. A change of comments affects none. BUILD_FOLDER
must be configured: test/CMakeLists.txt writes the list test_folders.txt into it. The targets include the programs of the build
folder that a test has in its command or environment (samples.hello runs bin/hello).
"""

import argparse
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Parts without a folder of their own in test/, and parts also tested by other folders.
FURTHER = {
    "base": {"trace", "session", "report"},
    "snapshot": {"trace", "session", "assemble"},
    "trace": {"session"},
    "assemble": {"simulator"},
    "model": {"analyze"},
    "serialize": {"report"},
    "read": {"serialize", "fuzz"},
    "recorder": {"session"},
}
CONTROL = {"recorder", "options", "stats", "hooks", "status"}  # headers of include/pitot/ that test/session tests
EVERYTHING = re.compile(r"CMakeLists\.txt|CMakePresets\.json|cmake/.*|lib/CMakeLists\.txt|test/CMakeLists\.txt|test/[^/]+\.(h|cc)|"
                        r"test/fakes/.*|tools/(affected\.py|steps\.bash)")
CODE = (".h", ".cc", ".c", ".cu")


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout


def tokens(text):
    """The code without comments and white space."""
    done = subprocess.run(["g++", "-fpreprocessed", "-dD", "-E", "-P", "-x", "c++", "-"], input=text, capture_output=True,
                          text=True, check=False)
    return "".join(done.stdout.split())


def is_same_code(commit, path):
    """Whether a file differs from the commit only in comments."""
    before = subprocess.run(["git", "-C", ROOT, "show", f"{commit}:{path}"], capture_output=True, text=True, check=False)
    full = os.path.join(ROOT, path)
    if before.returncode != 0 or not os.path.exists(full):
        return False
    with open(full, encoding="utf-8") as file:
        return tokens(before.stdout) == tokens(file.read())


def part_of(path):
    """A file's part of the library, by the name of its folder in lib/ or test/; None if it has none."""
    parts = path.split("/")
    if parts[:2] == ["include", "pitot"]:
        if len(parts) == 3:
            return "recorder" if os.path.splitext(parts[2])[0] in CONTROL else "trace"
        parts = parts[1:]  # pitot/collect/cupti.h
        return f"collect/{os.path.splitext(parts[2])[0]}" if parts[1] == "collect" else parts[1]
    if parts[0] in ("lib", "test") and len(parts) > 2:
        return "/".join(parts[1:3]) if parts[1] == "collect" and len(parts) > 3 else parts[1]
    return "bindings" if parts[0] == "bindings" else None


def folders_of(paths):
    """The affected folders of test/; None for all of them."""
    folders = set()
    for path in paths:
        if EVERYTHING.fullmatch(path):
            return None
        part = part_of(path)
        if part is not None:
            folders |= {part} | FURTHER.get(part, set())
            if part == "extend":
                folders |= {"session", "analyze", "trigger"}
    return folders


def changed(commit):
    paths = git("diff", "--name-only", commit).split("\n") + git("ls-files", "--others", "--exclude-standard").split("\n")
    return [path for path in paths if path and not (path.endswith(CODE) and is_same_code(commit, path))]


def read_tests(build):
    """folder -> (targets, tests)."""
    with open(os.path.join(build, "test_folders.txt"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("|") for line in file if line.strip()]
    return {folder: (targets.split(), tests.split()) for folder, targets, tests in rows}


def started_programs(build, tests):
    """The programs of the build folder in the commands and environments of the tests, as ninja names them."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    inside = os.path.realpath(build) + "/bin/"
    found = set()
    for test in json.loads(listed.stdout)["tests"]:
        if test["name"] not in tests:
            continue
        environments = [p["value"] for p in test["properties"] if p["name"] == "ENVIRONMENT"]
        values = [value.split("=", 1)[-1] for environment in environments for value in environment]
        found |= {"bin/" + v[len(inside):] for v in test.get("command", []) + values if v.startswith(inside)}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--since", metavar="COMMIT")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--print", choices=["folders", "targets", "tests", "paths"], required=True,
                        help="paths: the files themselves")
    options = parser.parse_args()
    if options.all == bool(options.since):
        parser.error("either --since COMMIT or --all")
    if options.print == "paths":
        print("\n".join(git("ls-files").split("\n") if options.all else changed(options.since)))
        return 0
    try:
        tests = read_tests(options.build)
    except (OSError, ValueError) as error:
        print(f"affected: {error}; configure {options.build} first", file=sys.stderr)
        return 1
    wanted = None if options.all else folders_of(changed(options.since))
    found = {folder: row for folder, row in tests.items() if wanted is None or folder in wanted}
    if options.print == "folders":
        names = sorted(found)
    else:
        names = {name for row in found.values() for name in row[options.print == "tests"]}
        if options.print == "targets":
            names |= started_programs(options.build, {test for _, tests in found.values() for test in tests})
        names = sorted(names)
    if names:
        print("\n".join(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
