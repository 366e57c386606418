#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every Python file of the repository parses, and hides no module of the standard library.

usage: tools/check_python.py [--root FOLDER]

Python searches the script's folder for modules before its own library. So a file named select.py breaks every script next to
it that imports `subprocess`, because `subprocess` needs the real select. Checks the files under the root that git does not
ignore. Exits with 0, or with 1 and one line per offence.
"""

import argparse
import ast
import os
import subprocess
import sys


def files_of(root):
    """Paths from the root: tracked files, and untracked files that are not ignored."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.py"],
                            check=True, capture_output=True, text=True).stdout
    return sorted(path for path in set(listed.split("\0")) if path and os.path.isfile(os.path.join(root, path)))


def module_of(path):
    """The name for importing a file; for a package, the name of its folder."""
    name = os.path.splitext(os.path.basename(path))[0]
    return os.path.basename(os.path.dirname(path)) if name == "__init__" else name


def offences(root, path):
    try:
        with open(os.path.join(root, path), "rb") as file:
            ast.parse(file.read(), path)
    except (SyntaxError, ValueError) as error:
        yield f"{path}:{getattr(error, 'lineno', None) or 1}: {error}"
    if module_of(path) in sys.stdlib_module_names:
        yield f"{path}:1: it hides Python's own module {module_of(path)} from the scripts next to it: rename it"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    root = parser.parse_args().root
    files = files_of(root)
    if not files:
        print(f"no Python file under {root}: nothing was checked")
        return 1
    found = [offence for path in files for offence in offences(root, path)]
    print("\n".join(found) if found else f"ok: {len(files)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
