#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the libraries' imports and exports, and the code they run at load and exit: symbols.py archive|shared FILE...

imports   No function that ends the process or prints. `std::terminate` and `__cxa_*` are allowed: every noexcept function
          refers to them if it calls one that may throw. So are `std::__throw_*`: libstdc++'s containers refer to them, and
          their exceptions are caught at the library's border, because the host always survives.
          Only pitot::nvtx may set a variable of the environment, for capturing. pitot::cupti and pitot::cuda_events may
          register a function that lets go of the driver before the process ends. Only pitot::core may install handlers, for
          Options::handle_ends.
exports   Only pitot::v1, pitot_process and, from pitot::nvtx, the functions that NVTX looks up. In an archive,
          instantiations of libstdc++'s templates are visible (weak); the shared libraries' version script hides them, too.
          Symbols that the shared libraries take from each other are exported with the version PITOT_PRIVATE.
          libpitot_analyze.so exports nothing but what its public headers mark with PITOT_EXPORT. Its archive defines nothing
          else in pitot::v1::analyze, apart from members of public classes: the internals have namespaces of their own.
at load   Nothing: constructors do not run when the program is loaded, nor destructors when it exits.
"""

import glob
import os
import re
import sys

import common

# kill() is allowed: with signal 0 it asks whether a process lives.
FORBIDDEN = re.compile(
    r"^(abort|_?exit|_Exit|quick_exit|at_quick_exit|atexit|on_exit|__cxa_atexit|__assert_fail|__assert_perror_fail|raise|"
    r"system|setenv|putenv|unsetenv|signal|sigaction|"
    r"(__)?v?f?printf(_chk)?|v?dprintf|__v?dprintf_chk|f?puts(_unlocked)?|f?putc(har)?(_unlocked)?|fwrite|perror|psignal|"
    r"syslog|stdout|stderr|"
    r"std::(cout|cerr|clog|wcout|wcerr|ios_base::Init::.*|__glibcxx_assert_fail.*|__ioinit)|"
    r"std::(basic_ostream|ostream|basic_ofstream|basic_filebuf|basic_fstream|basic_istream|istream|basic_ostringstream|"
    r"__cxx11::basic_o?stringstream)\b.*)$")
EXPORTED = re.compile(r"^(vtable for |typeinfo for |typeinfo name for )?(pitot::v1::((analyze|detail|gpu|model)::.*|[A-Z].*|[a-z]\w*\(.*|operator.*|g_\w+|t_\w+|k[A-Z].*)|pitot_process|pitot_opencl_layer|InitializeInjectionNvtx(2|Extension))$")
# An instance of a template begins with its return type.
PRIVATE = re.compile(r"^(vtable for |typeinfo for |typeinfo name for |[\w:*& ]+[ (]&?)?pitot::\w+::.*@@PITOT_PRIVATE$")
# A line of readelf's table of symbols: type, binding, visibility, section, name.
DEFINED = re.compile(r"\s+\d+: [0-9a-f]+\s+\S+\s+(\w+)\s+(GLOBAL|WEAK|UNIQUE)\s+(\w+)\s+(\S+) (.*)$")
AT_LOAD = re.compile(r"^\.(preinit_array|init_array|ctors|fini_array|dtors|init|fini)\b")


# Imports that one library may have and the others may not; its code gives the reason.
ALLOWED = {"pitot_trace": {"sigaction"}, "pitot_core": {"sigaction", "on_exit"}, "pitot_nvtx": {"setenv"}, "pitot_counters": {"atexit"}, "pitot_cupti": {"atexit"}, "pitot_cuda_events": {"atexit"}}


def is_forbidden(path, name):
    return FORBIDDEN.match(name) and not any(library in path and name in names for library, names in ALLOWED.items())


def demangled(*command):
    return common.must_run(list(command)).splitlines()


def imports(path, dynamic):
    """The file's undefined symbols."""
    names = set()
    for line in demangled("nm", "-C", "--undefined-only", *(["-D"] if dynamic else []), path):
        match = re.match(r"\s+[Uw] (.*)$", line)
        if match:
            names.add(re.sub(r"@.*$", "", match[1]))
    return names


def archive(path):
    failures, symbols, member = [], 0, ""
    defined = set()
    for line in demangled("readelf", "-sWC", path):
        if line.startswith("File:"):
            member = re.sub(r".*\((.*)\)", r"\1", line)
        match = DEFINED.match(line)
        if not match or match[4] == "UND":
            continue
        symbols += 1
        defined.add(match[5])
        name = re.sub(r"\s+\[\w+\]$", "", match[5])
        if match[2] == "GLOBAL" and match[3] == "DEFAULT" and not EXPORTED.match(name):
            failures.append(f"{path}({member}) exports {name}")
    failures += [f"{path} defines an internal, {name}" for name in internal_of_archive(path)]
    for name in sorted(imports(path, False)):
        if is_forbidden(path, name):
            failures.append(f"{path} imports {name}")
    member = ""
    for line in demangled("readelf", "-SW", path):
        if line.startswith("File:"):
            member = re.sub(r".*\((.*)\)", r"\1", line)
        match = re.match(r"\s*\[\s*\d+\] (\S+)\s", line)
        if match and AT_LOAD.match(match[1]):
            failures.append(f"{path}({member}) has a section {match[1]}: it runs code when the program is loaded or exits")
    return failures, symbols


def public_headers(folder):
    for path in sorted(glob.glob(os.path.join(common.ROOT, "include", "pitot", folder, "*.h"))):
        with open(path, encoding="utf-8") as file:
            yield re.sub(r"//.*", "", file.read())


def declared(folder):
    """Names of the functions and classes that the public headers of a folder export."""
    names = set()
    for text in public_headers(folder):
        names |= set(re.findall(r"(?:class|struct)\s+PITOT_EXPORT\s+(\w+)", text))
        names |= set(re.findall(r"PITOT_EXPORT\s+[^;{(]*?\b(\w+)\s*\(", text))
    return names


def outermost(folder):
    """The functions (and constants) and the classes that the public headers of a folder declare outside of classes."""
    functions, classes = set(), set()
    for text in public_headers(folder):
        functions |= set(re.findall(r"^(?:PITOT_EXPORT|inline)\s+[^;{(=]*?\b(\w+)\s*[({=]", text, re.M))
        classes |= set(re.findall(r"^(?:class|struct)(?:\s+PITOT_EXPORT)?\s+(\w+)[^;{]*{", text, re.M))
    return functions, classes


def internal(path, names):
    """Exported names of pitot::v1 that no public header of its part declares."""
    if "libpitot_analyze" not in path:
        return []
    public = declared("analyze") | declared("extend")
    qualified = re.compile(r"pitot::v1::((?:\w+::)*\w+)")  # a class, or a member that is exported alone
    return [name for name in names if (found := qualified.search(name)) and not public & set(found.group(1).split("::"))]


def scope(symbol):
    """The names that qualify a mangled symbol, and its own: ["pitot", "v1", "analyze", "Baseline", "Add"]."""
    prefix = re.match(r"_Z(?:T[VTISC]|GV|GR|Z)*NK?", symbol)
    names, at = [], prefix.end() if prefix else len(symbol)
    while length := re.match(r"[1-9]\d*", symbol[at:]):
        at += length.end()
        names.append(symbol[at:at + int(length[0])])
        at += int(length[0])
    return names


def internal_of_archive(path):
    """Symbols in pitot::v1::analyze that no public header declares. An internal overload of a public function is hidden."""
    if "libpitot_analyze" not in path:
        return []
    functions, classes = outermost("analyze")
    found = set()
    for line in common.must_run(["readelf", "-sW", path]).splitlines():
        match = DEFINED.match(line)
        name = scope(match[5]) if match and match[4] != "UND" else []
        if name[:3] != ["pitot", "v1", "analyze"] or len(name) < 4 or name[3] in classes:
            continue
        if name[3] not in functions or (match[2] == "GLOBAL" and match[3] != "DEFAULT"):
            found.add(match[5])
    return [demangled("c++filt", symbol)[0] for symbol in sorted(found)]


def shared(path):
    failures = []
    exported = [re.match(r"[0-9a-f]+ (\w) (.*)$", line) for line in demangled("nm", "-DC", "--defined-only", path)]
    # Absolute symbols are the names of the versions.
    names = [match[2] for match in exported if match and match[1] != "A"]
    failures += [f"{path} exports {name}" for name in names
                 if not EXPORTED.match(name.replace("@@PITOT_v1", "")) and not PRIVATE.match(name)]
    failures += [f"{path} exports an internal, {name}" for name in internal(path, names)]
    failures += [f"{path} imports {name}" for name in sorted(imports(path, True))
                 if is_forbidden(path, name) and name != "__cxa_atexit"]  # in every shared object's start files
    dynamic = "\n".join(demangled("readelf", "-dW", path))
    if "SONAME" not in dynamic:
        failures.append(f"{path} has no SONAME")
    if "NODELETE" not in dynamic:
        failures.append(f"{path} could be unloaded under the threads and the vendors that hold pointers into it (-z nodelete)")
    return failures, len(names)


def main():
    check = {"archive": archive, "shared": shared}[sys.argv[1]]
    failures, symbols = [], 0
    for path in sys.argv[2:]:
        found, count = check(path)
        failures += found
        symbols += count
        if not count:
            failures.append(f"{path} defines nothing")
    common.finish(failures, f"{len(sys.argv) - 2} files, {symbols} symbols" if sys.argv[2:] else "")


if __name__ == "__main__":
    main()
