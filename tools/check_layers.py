#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that tools/layers.txt allows every #include in include/, lib/ and bindings/, and that a room of lib/analyze defines
nothing in the namespace of another, which no include shows.

usage: tools/check_layers.py [--rules FILE] [--root FOLDER] [--list]

Exits with 0 if every include is allowed. Otherwise exits with 1 and prints one line per offence (file:line: the include, and
the allowed ones). Exits with 2 if the rules themselves are wrong.
"""

import argparse
import os
import re
import sys

# Headers that every layer may include: C++'s headers (without a dot), and these of C and the system.
C_HEADERS = set("""assert ctype cpuid cxxabi dirent dlfcn elf endian errno execinfo fcntl fenv float ftw getopt inttypes limits link
locale malloc math poll pthread pwd sched semaphore setjmp signal spawn stdalign stdarg stdbool stddef stdint stdio stdlib string strings
termios time ucontext unistd unwind x86intrin immintrin arm_acle nmmintrin""".split())
SYSTEM_FOLDERS = ("sys/", "linux/", "asm/", "netinet/", "arpa/", "bits/")
ROOM = re.compile(r"^namespace pitot::(\w+)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


class RulesError(Exception):
    pass


class Rules:
    """The table: the allowed includes of each layer, and the third-party headers behind each @name."""

    def __init__(self, path):
        self.allowed = {}   # layer -> set of layers and @names
        self.outside = {}   # @name -> header prefixes, or suffixes written *.pb.h
        self.forbidden = {}  # layer -> set of std headers refused
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                line = line.split("#")[0].strip()
                if not line:
                    continue
                try:
                    if line.startswith("@"):
                        name, patterns = line.split("=")
                        self.outside[name.strip()] = patterns.split()
                    else:
                        layer, names = line.split(":")
                        if layer.strip() in self.allowed:
                            raise RulesError(f"{path}:{number}: {layer.strip()} has a line already: merge them")
                        words = names.split()
                        self.forbidden[layer.strip()] = {word[2:-1] for word in words if word.startswith("!<")}
                        self.allowed[layer.strip()] = {word for word in words if not word.startswith("!<")}
                except ValueError:
                    raise RulesError(f"{path}:{number}: the line is neither 'layer: names' nor '@name = headers'") from None
        for layer, names in self.allowed.items():
            for name in names:
                if name not in (self.outside if name.startswith("@") else self.allowed):
                    raise RulesError(f"{layer} may include {name}, but {name} is not in the table")
        self._refuse_cycles()

    def _refuse_cycles(self):
        done, path = set(), []

        def visit(layer):
            if layer in path:
                raise RulesError("a cycle: " + " -> ".join(path[path.index(layer):] + [layer]))
            if layer in done:
                return
            path.append(layer)
            for name in sorted(self.allowed[layer]):
                if not name.startswith("@"):
                    visit(name)
            path.pop()
            done.add(layer)

        for layer in sorted(self.allowed):
            visit(layer)

    def layer_of(self, path):
        """The layer of a file: the longest layer at the begin of its path. include/pitot/a/b.h is pitot/a, lib/c/d.cc is lib/c."""
        if path.startswith("include/"):
            path = path[len("include/"):]
        path = os.path.splitext(path)[0]
        while path:
            if path in self.allowed:
                return path
            path = os.path.dirname(path)
        return None

    def outside_of(self, header):
        for name, patterns in self.outside.items():
            for pattern in patterns:
                if header.endswith(pattern[1:]) if pattern.startswith("*") else header.startswith(pattern):
                    return name
        return None


def is_std(header):
    if header.startswith(SYSTEM_FOLDERS):
        return True
    return header[:-2] in C_HEADERS if header.endswith(".h") else re.fullmatch(r"[a-z_0-9]+", header) is not None


def sources(root):
    for top in ("include", "lib", "bindings"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith((".h", ".cc", ".inc")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def target_of(root, path, quote, header):
    """The repository's file for an include, or None for a file from outside."""
    if quote == "<" and not header.startswith("pitot/"):
        return None
    for folder in ("include", "lib", "bindings/c/include", os.path.dirname(path)):
        place = os.path.join(folder, header)
        if os.path.exists(os.path.join(root, place)):
            return os.path.normpath(place)
    return None


def check_file(root, rules, path):
    layer = rules.layer_of(path)
    if layer is None:
        return [f"{path}:1: it belongs to no layer of tools/layers.txt: add a line for it"]
    allowed = rules.allowed[layer]
    offences = []

    def refuse(number, what):
        offences.append(f"{path}:{number}: {what}; {layer} may include: {' '.join(sorted(allowed)) or 'nothing of ours'}")

    folder = os.path.dirname(path)
    with open(os.path.join(root, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            room = ROOM.match(line)
            if room and os.path.dirname(folder) == "lib/analyze" and room[1] != os.path.basename(folder) and \
                    os.path.isdir(os.path.join(root, "lib/analyze", room[1])):
                offences.append(f"{path}:{number}: it opens the namespace of lib/analyze/{room[1]}: move that part there")
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, header = match.groups()
            outside = rules.outside_of(header)
            target = None if outside else target_of(root, path, quote, header)
            if outside:
                if outside not in allowed:
                    refuse(number, f"{header} is {outside}")
            elif target:
                other = rules.layer_of(target)
                if other != layer and other not in allowed:
                    refuse(number, f"{header} is of layer {other}")
            elif quote == "<" and is_std(header):
                if header in rules.forbidden[layer]:
                    refuse(number, f"<{header}> is refused here")
            else:
                refuse(number, f"{header} is neither ours, nor std, nor from a third party in the table")
    return offences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--rules", default=os.path.join(here, "layers.txt"))
    parser.add_argument("--root", default=os.path.dirname(here))
    parser.add_argument("--list", action="store_true", help="print each file's layer")
    arguments = parser.parse_args()
    try:
        rules = Rules(arguments.rules)
    except (OSError, RulesError) as error:
        print(f"check_layers: {error}", file=sys.stderr)
        return 2
    files = list(sources(arguments.root))
    if arguments.list:
        for path in files:
            print(f"{path}: {rules.layer_of(path)}")
    offences = [offence for path in files for offence in check_file(arguments.root, rules, path)]
    used = {rules.layer_of(path) for path in files}
    offences += [f"{arguments.rules}: no file belongs to layer {layer}: remove its line"
                 for layer in rules.allowed if files and layer not in used]
    for offence in offences:
        print(offence)
    if not files:
        print("check_layers: no file found under include/, lib/ and bindings/", file=sys.stderr)
        return 2
    if not offences:
        print(f"ok: {len(files)} files, {len(rules.allowed)} layers")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
