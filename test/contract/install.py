#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Uses the package as a user does: install.py package|shared|options --build FOLDER --work FOLDER --cmake CMAKE --compiler CXX

package  Installs the build, moves the tree elsewhere, and builds and runs programs on it. They use find_package with
         COMPONENTS trace, core, analyze, the collectors, c and (if built) torch; pkg-config; and a missing component.
         Checks that the collectors which docs/guide adds are in a program that was built.
shared   Takes the sources by add_subdirectory with BUILD_SHARED_LIBS=ON, and builds and runs a program. Then installs the
         shared package and runs programs on it, too. Checks the libraries' exports.
options  Configures the sources without the reader: alone, and with an option on that needs the reader. Also without each of
         the optional packages.
"""

import argparse
import glob
import os
import re
import shutil
import sys

import common

CONSUMER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "consumer")


class Test:
    def __init__(self, arguments):
        self.arguments = arguments
        self.collectors = [name for name in arguments.collectors.split() if name != "torch"]  # LibTorch has a test of its own
        self.checked = []
        # The developer's environment must not help CMake to find the package.
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in ("CMAKE_PREFIX_PATH", "pitot_DIR", "PKG_CONFIG_PATH", "LD_LIBRARY_PATH", "CXXFLAGS")}
        # A cache for repeated builds; the launcher is the caller's choice, not the package's.
        self.launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache')}"] if shutil.which("ccache") else []

    def must_run(self, command, **options):
        return common.must_run(command, env={**self.environment, **options.pop("env", {})}, **options)

    def configure(self, name, *definitions, must=True):
        folder = os.path.join(self.arguments.work, name)
        command = [self.arguments.cmake, "-S", CONSUMER, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                   f"-DCMAKE_CXX_COMPILER={self.arguments.compiler}", *self.launcher, *definitions]
        if must:
            self.must_run(command)
            return folder
        return common.run(command, env=self.environment)

    def build_and_run(self, name, *definitions):
        folder = self.configure(name, *definitions)
        self.must_run([self.arguments.cmake, "--build", folder, "-j", str(os.cpu_count())])
        output = self.must_run([os.path.join(folder, "consumer")])
        self.checked.append(f"{name} ({output.strip()})")
        return folder

    def install(self, build, name):
        """Installs, moves the installed tree, and returns its new path."""
        staged = os.path.join(self.arguments.work, "staged")
        moved = os.path.join(self.arguments.work, "moved", name)
        shutil.rmtree(staged, ignore_errors=True)
        shutil.rmtree(moved, ignore_errors=True)
        self.must_run([self.arguments.cmake, "--install", build, "--prefix", staged])
        os.makedirs(os.path.dirname(moved), exist_ok=True)
        os.rename(staged, moved)
        for folder, _, names in os.walk(moved):
            for file_name in names:
                if file_name.endswith((".cmake", ".pc", ".h")):
                    with open(os.path.join(folder, file_name), encoding="utf-8") as file:
                        text = file.read()
                    for place in (common.ROOT, staged):
                        if place in text:
                            common.fail(f"{file_name} contains a folder of the build machine: {place}")
        return moved

    def check_missing_component(self, prefix):
        status, output = self.configure("missing", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCONSUMER_COMPONENTS=none_such", must=False)
        message = " ".join(output.split())
        if status == 0 or "pitot was built without component none_such; this package has: trace, core" not in message:
            common.fail(f"COMPONENTS none_such gave status {status} and\n{output}")
        self.checked.append("a missing component")

    def check_pkg_config(self, prefix, name, run_path, package="pitot", compiler=None, source="core.cc", standard="c++17"):
        folder = glob.glob(os.path.join(prefix, "lib*", "**", "pkgconfig"), recursive=True)
        if len(folder) != 1:
            common.fail(f"{package}.pc must be in one folder, but is in {folder}")
        flags = self.must_run(["pkg-config", "--cflags", "--libs", *package.split()], env={"PKG_CONFIG_PATH": folder[0]}).split()
        program = os.path.join(self.arguments.work, name)
        run_path = [f"-Wl,-rpath,{os.path.dirname(folder[0])}"] if run_path else []
        self.must_run([compiler or self.arguments.compiler, f"-std={standard}", os.path.join(CONSUMER, source), "-o", program,
                       *flags, *run_path])
        self.checked.append(f"{name} ({self.must_run([program]).strip()})")

    def check_guide(self):
        """The collectors that the documents add are in the program built with them."""
        shown = set()
        for path in [os.path.join(common.ROOT, "README.md"), *glob.glob(os.path.join(common.ROOT, "docs", "guide", "*.md"))]:
            with open(path, encoding="utf-8") as file:
                shown.update(re.findall(r"recorder\.Add\(pitot::Make\w+Collector\(\)\);", file.read()))
        with open(os.path.join(CONSUMER, "collectors.cc"), encoding="utf-8") as file:
            built = file.read()
        missing = [statement for statement in shown if statement not in built]
        if len(shown) < 4 or missing:
            common.fail(f"the guide adds {len(shown)} collectors; not in consumer/collectors.cc: {missing}")
        self.checked.append("the collectors that the guide adds")

    def check_c(self, prefix, name):
        """The C API through find_package from a project without C++, and through pkg-config."""
        self.build_and_run(f"find_package_{name}", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCONSUMER_COMPONENTS=c")
        self.check_pkg_config(prefix, f"pkg_config_{name}", True, "pitot_c", "cc", "c.c", "c11")

    def package(self):
        prefix = self.install(self.arguments.build, "static")
        shutil.rmtree(os.path.join(self.arguments.work, "missing"), ignore_errors=True)
        self.build_and_run("find_package_trace", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCONSUMER_COMPONENTS=trace")
        self.build_and_run("find_package_core", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCONSUMER_COMPONENTS=core")
        self.build_and_run("find_package_analyze", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCONSUMER_COMPONENTS=analyze")
        self.build_and_run("find_package_collectors", f"-DCMAKE_PREFIX_PATH={prefix}",
                           "-DCONSUMER_COMPONENTS=" + ";".join(self.collectors))
        if glob.glob(os.path.join(prefix, "lib*", "**", "pitot-torch-targets.cmake"), recursive=True):
            self.build_and_run("find_package_torch", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCONSUMER_COMPONENTS=torch")
        if glob.glob(os.path.join(prefix, "lib*", "**", "pitot-sinks-targets.cmake"), recursive=True):
            self.build_and_run("find_package_sinks", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCONSUMER_COMPONENTS=sinks")
        self.check_missing_component(prefix)
        self.check_pkg_config(prefix, "pkg_config", False)
        self.check_pkg_config(prefix, "pkg_config_collectors", False, " ".join(f"pitot_{name}" for name in self.collectors), source="collectors.cc")
        self.check_pkg_config(prefix, "pkg_config_analyze", False, "pitot_analyze", source="analyze.cc")
        self.check_guide()
        with open(os.path.join(self.arguments.build, "CMakeCache.txt"), encoding="utf-8") as file:
            if "\nPITOT_BUILD_C:BOOL=ON\n" in file.read():
                self.check_c(prefix, "c")
        program = os.path.join(prefix, "bin", "pitot")
        if os.path.exists(program):
            self.must_run([program, "--help"])
            self.checked.append("bin/pitot")

    def shared(self):
        folder = self.build_and_run("add_subdirectory", f"-DCONSUMER_SOURCES={common.ROOT}", "-DBUILD_SHARED_LIBS=ON",
                                    "-DPITOT_UNITY=ON", "-DPITOT_INSTALL=ON", "-DPITOT_BUILD_C=ON")
        names = ("trace", "core", "analyze", *self.collectors)
        libraries = [path for name in names
                     for path in glob.glob(os.path.join(folder, "pitot", "lib", "**", f"libpitot_{name}.so"), recursive=True)]
        if len(libraries) != len(names):
            common.fail(f"shared libraries: {libraries}")
        self.must_run([sys.executable, os.path.join(os.path.dirname(CONSUMER), "symbols.py"), "shared", *libraries])
        self.checked.append("the shared libraries' exports")
        prefix = self.install(os.path.join(folder, "pitot"), "shared")
        self.build_and_run("find_package_shared", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCONSUMER_COMPONENTS=core")
        self.build_and_run("find_package_analyze_shared", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCONSUMER_COMPONENTS=analyze")
        self.build_and_run("find_package_collectors_shared", f"-DCMAKE_PREFIX_PATH={prefix}",
                           "-DCONSUMER_COMPONENTS=" + ";".join(self.collectors))
        self.check_pkg_config(prefix, "pkg_config_shared", True)
        self.check_pkg_config(prefix, "pkg_config_collectors_shared", True, " ".join(f"pitot_{name}" for name in self.collectors), source="collectors.cc")
        self.check_pkg_config(prefix, "pkg_config_analyze_shared", True, "pitot_analyze", source="analyze.cc")
        self.check_c(prefix, "c_shared")

    def options(self):
        for name, definitions in (("no_reader", []), ("no_reader_but_cli", ["-DPITOT_BUILD_CLI=ON"])):
            folder = os.path.join(self.arguments.work, name)
            shutil.rmtree(folder, ignore_errors=True)
            self.must_run([self.arguments.cmake, "-S", common.ROOT, "-B", folder, "-G", "Ninja", "-DPITOT_BUILD_READER=OFF",
                           "-DPITOT_BUILD_TESTS=OFF", f"-DCMAKE_CXX_COMPILER={self.arguments.compiler}", *definitions])
            with open(os.path.join(folder, "build.ninja"), encoding="utf-8") as file:
                text = file.read()
            if "libpitot_core" not in text or "pitot_reader" in text or "bin/pitot:" in text:
                common.fail(f"{name}: the reader or the command line tool was configured, or the core was not")
            self.checked.append(name)
        # Without a choice by the user, a part whose package is missing is left out with a message, and the libraries
        # are still built.
        for package, variable, absent in (("Protobuf", "PITOT_BUILD_READER", ("pitot_reader", "bin/pitot:")),
                                          ("CURL", "PITOT_BUILD_SINKS", ("pitot_sinks",)),
                                          ("CLI11", "PITOT_BUILD_CLI", ("bin/pitot:",)),
                                          ("Catch2", "PITOT_BUILD_TESTS", ("ring_test",))):
            folder = os.path.join(self.arguments.work, f"without_{package}")
            shutil.rmtree(folder, ignore_errors=True)
            said = self.must_run([self.arguments.cmake, "-S", common.ROOT, "-B", folder, "-G", "Ninja",
                                  f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON",
                                  f"-DCMAKE_CXX_COMPILER={self.arguments.compiler}"])
            with open(os.path.join(folder, "build.ninja"), encoding="utf-8") as file:
                text = file.read()
            if "libpitot_core" not in text or any(target in text for target in absent):
                common.fail(f"without {package}: one of {absent} was configured, or the core was not")
            if package not in said or f"-D{variable}=ON" not in said:
                common.fail(f"without {package}: the message does not name the package and the option:\n{said}")
            self.checked.append(f"without {package}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["package", "shared", "options"])
    parser.add_argument("--build", required=True, help="a finished build of pitot")
    parser.add_argument("--work", required=True, help="a folder for this test alone")
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--collectors", default="", help="the collectors' components, as the build lists them")
    test = Test(parser.parse_args())
    os.makedirs(test.arguments.work, exist_ok=True)
    getattr(test, test.arguments.what)()
    common.finish([], "\n    ".join([""] + test.checked))


if __name__ == "__main__":
    main()
