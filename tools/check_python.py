#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every Python file of the repository parses and hides no module of the standard library.

usage: tools/check_python.py [--root FOLDER]

Python looks for modules in the folder of the script it runs before it looks among its own: a file named select.py breaks every
script beside it that imports `subprocess`, which needs the real one. Reads what git does not ignore under the root. Ends with 0,
or with 1 and one line per offence.
"""

import argparse
import ast
import os
import subprocess
import sys


def files_of(root):
    """Paths from the root: those that are tracked, and those that are not but not ignored either."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.py"],
                            check=True, capture_output=True, text=True).stdout
    return sorted(path for path in set(listed.split("\0")) if path and os.path.isfile(os.path.join(root, path)))


def module_of(path):
    """The name under which a file is imported: a package's is its folder's."""
    name = os.path.splitext(os.path.basename(path))[0]
    return os.path.basename(os.path.dirname(path)) if name == "__init__" else name


def offences(root, path):
    try:
        with open(os.path.join(root, path), "rb") as file:
            ast.parse(file.read(), path)
    except (SyntaxError, ValueError) as error:
        yield f"{path}:{getattr(error, 'lineno', None) or 1}: {error}"
    if module_of(path) in sys.stdlib_module_names:
        yield f"{path}:1: hides Python's own module {module_of(path)} from the scripts beside it: rename it"


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
