#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the ABI of pitot/c.h with the approved one: abi.py LIBRARY HEADER C_COMPILER GOLDEN

The golden file holds the library's version, its exported symbols, its declarations (types without parameters' names),
its constants, and the fields of its structs as a C compiler lays them out. A released ABI may only grow: a
changed or removed line needs a new PITOT_ABI. PITOT_APPROVE=1 (tools/approve bindings) rewrites the file. The imports of
the library are checked as for the C++ libraries.
"""

import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "contract"))
import common  # noqa: E402
import symbols  # noqa: E402


def exported(library):
    lines = common.must_run(["nm", "-D", "--defined-only", library]).splitlines()
    names = [re.match(r"[0-9a-f]+ (\w) (.*)$", line) for line in lines]
    return sorted(name[2] for name in names if name[1] != "A")  # absolute: the name of a version


def spelled(tokens):
    """The tokens as people write them: const char* name(uint32_t, char[56])."""
    return re.sub(r" (?=[*(),\[\]])|(?<=[(\[]) |(?<=\( \*) ", "", " ".join(tokens))


def declarations(header, compiler):
    """Functions and typedefs (without the fields of structs and enums), as the preprocessor leaves them."""
    lines, is_ours = [], False
    for line in common.must_run([compiler, "-E", "-std=c11", "-x", "c", os.path.abspath(header)]).splitlines():
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            is_ours = marker[1] == os.path.abspath(header)
        elif is_ours:
            lines.append(line)
    text = re.sub(r'__attribute__\(\(visibility\("default"\)\)\)', "", " ".join(lines))
    text = re.sub(r"\{.*?\}", "", text)
    found = []
    for statement in text.split(";"):
        tokens = re.findall(r"\w+|[^\w\s]", statement)
        if not tokens or tokens == ["enum"]:
            continue
        kind = "typedef" if tokens[0] == "typedef" else "function"
        if kind == "typedef":
            tokens = tokens[1:]
        if tokens[-1] == ")":  # the last parentheses are the parameters'
            begin = len(tokens) - 1 - tokens[::-1].index("(")
            parameters = " ".join(tokens[begin + 1:-1]).split(" , ")
            types = [re.sub(r"^(.*\S) \w+( \[.*)?$", r"\1\2", parameter) for parameter in parameters]
            tokens = tokens[:begin + 1] + " , ".join(types).split() + [")"]
        found.append(f"{kind} {spelled(tokens)}")
    return sorted(found)


def layout(header, compiler):
    """Constants and structs as printed by a C program generated from the header."""
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"//.*", "", file.read())
    say = [f'printf("constant {name} %d\\n", (int){name});' for name in
           re.findall(r"\b(PITOT_[A-Z_]+) = ", text) + re.findall(r"#define (PITOT_ABI\w*)", text)]
    for name, fields in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, re.S):
        say.append(f'printf("struct {name} %zu\\n", sizeof(struct {name}));')
        for kind, field, extent in re.findall(r"(\w[\w* ]*[ *])(\w+)(\[\d+\])?;", fields):
            say.append(f'printf("field {name}.{field} %zu %zu {kind.strip()}{extent}\\n", offsetof(struct {name}, {field}), '
                       f'sizeof ((struct {name}*)0)->{field});')
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w", encoding="utf-8") as file:
            file.write(f'#include "{os.path.abspath(header)}"\n#include <stdio.h>\nint main(void) {{\n' + "\n".join(say) + "\n}\n")
        common.must_run([compiler, "-std=c11", source, "-o", program])
        return common.must_run([program]).splitlines()


def main():
    library, header, compiler, golden = sys.argv[1:5]
    failures = []
    dynamic = common.must_run(["readelf", "-dW", library])
    soname = re.search(r"SONAME.*\[(.*)\]", dynamic)
    names = exported(library)
    # If the C++ libraries are shared, they export these symbols, not this one.
    functions = [name for name in names if not name.startswith(("pitot_process", "InitializeInjectionNvtx"))]
    found = [f"soname {soname[1] if soname else None}"] + [f"export {name}" for name in functions]
    declared = declarations(header, compiler)
    found += declared + layout(header, compiler)

    declared_names = {re.search(r"\w+(?=\()", line)[0] for line in declared if line.startswith("function")}
    if declared_names != {name.split("@")[0] for name in functions}:
        failures.append(f"exported but not declared, or the reverse: "
                        f"{declared_names ^ {name.split('@')[0] for name in functions}}")
    if "pitot_process" not in " ".join(names) and "libpitot_trace" not in dynamic:
        failures.append("pitot_process is not exported: another copy of the library in the process would not find this one")
    if "NODELETE" not in dynamic:
        failures.append("could be unloaded under the threads that hold pointers into it (-z nodelete)")
    failures += [f"imports {name}" for name in sorted(symbols.imports(library, True))
                 if symbols.FORBIDDEN.match(name)
                 # In every shared object's start files; and imported by pitot::nvtx for capturing, by pitot::core for ends.
                 and name not in ("__cxa_atexit", "setenv", "sigaction", "on_exit")]

    if os.environ.get("PITOT_APPROVE"):
        with open(golden, "w", encoding="utf-8") as file:
            file.write("\n".join(found) + "\n")
    with open(golden, encoding="utf-8") as file:
        approved = file.read().splitlines()
    failures += [f"approved, but gone or changed: {line}" for line in approved if line not in found]
    failures += [f"new, but not approved (tools/approve bindings): {line}" for line in found if line not in approved]
    common.finish(failures, f"{len(functions)} functions, {len(found)} lines")


if __name__ == "__main__":
    main()
