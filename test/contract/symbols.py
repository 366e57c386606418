#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the libraries' imports and exports, and the code they run at load and exit: symbols.py archive|shared FILE...

imports   No function that ends the process or prints. `std::terminate` and `__cxa_*` are allowed: every noexcept function
          refers to them if it calls one that may throw. So are `std::__throw_*`: libstdc++'s containers refer to them, and
          their exceptions are caught at the library's border, because the host always survives.
          Only pitot::nvtx may set a variable of the environment, for capturing. pitot::cupti and pitot::cuda_events may
          register a function that lets go of the driver before the process ends.
exports   Only pitot::v1, pitot_process and, from pitot::nvtx, the functions that NVTX looks up. In an archive,
          instantiations of libstdc++'s templates are visible (weak); the shared libraries' version script hides them, too.
          Symbols that the shared libraries take from each other are exported with the version PITOT_PRIVATE.
          libpitot_analyze.so exports nothing but what its public headers mark with PITOT_EXPORT.
at load   Nothing: constructors do not run when the program is loaded, nor destructors when it exits.
"""

import glob
import os
import re
import sys

import common

# kill() is allowed: with signal 0 it asks whether a process lives.
FORBIDDEN = re.compile(
    r"^(abort|_?exit|_Exit|quick_exit|at_quick_exit|atexit|__cxa_atexit|__assert_fail|__assert_perror_fail|raise|"
    r"system|setenv|putenv|unsetenv|signal|sigaction|"
    r"(__)?v?f?printf(_chk)?|v?dprintf|__v?dprintf_chk|f?puts(_unlocked)?|f?putc(har)?(_unlocked)?|fwrite|perror|psignal|"
    r"syslog|stdout|stderr|"
    r"std::(cout|cerr|clog|wcout|wcerr|ios_base::Init::.*|__glibcxx_assert_fail.*|__ioinit)|"
    r"std::(basic_ostream|ostream|basic_ofstream|basic_filebuf|basic_fstream|basic_istream|istream|basic_ostringstream|"
    r"__cxx11::basic_o?stringstream)\b.*)$")
EXPORTED = re.compile(r"^(vtable for |typeinfo for |typeinfo name for )?(pitot::v1::((analyze|detail|model)::.*|[A-Z].*|[a-z]\w*\(.*|operator.*|g_\w+|t_\w+|k[A-Z].*)|pitot_process|pitot_opencl_layer|InitializeInjectionNvtx(2|Extension))$")
# An instance of a template begins with its return type.
PRIVATE = re.compile(r"^(vtable for |typeinfo for |typeinfo name for |[\w:*& ]+[ (]&?)?pitot::\w+::.*@@PITOT_PRIVATE$")
AT_LOAD = re.compile(r"^\.(preinit_array|init_array|ctors|fini_array|dtors|init|fini)\b")


# Imports that one library may have and the others may not; its code gives the reason.
ALLOWED = {"pitot_nvtx": {"setenv"}, "pitot_cupti": {"atexit"}, "pitot_cuda_events": {"atexit"}}


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
        match = re.match(r"\s+\d+: [0-9a-f]+\s+\S+\s+(\w+)\s+(GLOBAL|WEAK|UNIQUE)\s+(\w+)\s+(\S+) (.*)$", line)
        if not match or match[4] == "UND":
            continue
        symbols += 1
        defined.add(match[5])
        name = re.sub(r"\s+\[\w+\]$", "", match[5])
        if match[2] == "GLOBAL" and match[3] == "DEFAULT" and not EXPORTED.match(name):
            failures.append(f"{path}({member}) exports {name}")
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


def declared(folder):
    """Names of the functions and classes that the public headers of a folder export."""
    names = set()
    for path in glob.glob(os.path.join(common.ROOT, "include", "pitot", folder, "*.h")):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"//.*", "", file.read())
        names |= set(re.findall(r"(?:class|struct)\s+PITOT_EXPORT\s+(\w+)", text))
        names |= set(re.findall(r"PITOT_EXPORT\s+[^;{(]*?\b(\w+)\s*\(", text))
    return names


def internal(path, names):
    """Exported names of pitot::v1 that no public header of its part declares."""
    if "libpitot_analyze" not in path:
        return []
    public = declared("analyze") | declared("extend")
    qualified = re.compile(r"pitot::v1::((?:\w+::)*\w+)")  # a class, or a member that is exported alone
    return [name for name in names if (found := qualified.search(name)) and not public & set(found.group(1).split("::"))]


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
