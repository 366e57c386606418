#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that CMake finds all of LibTorch in one prefix, if two are installed. The LibTorchs are empty files.

usage: torch_prefix.py CMAKE PREFIX_CMAKE FOLDER
"""

import shutil
import subprocess
import sys
from pathlib import Path

CMAKE, PREFIX_CMAKE, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])

# Like LibTorch's own configuration.
TORCH_CONFIG = """
get_filename_component(prefix "${CMAKE_CURRENT_LIST_DIR}/../../../" ABSOLUTE)
find_package(Caffe2 REQUIRED CONFIG PATHS ${CMAKE_CURRENT_LIST_DIR}/../Caffe2)
find_library(c10_LIBRARY c10 PATHS "${prefix}/lib")
find_library(TORCH_LIBRARY torch PATHS "${prefix}/lib")
"""
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(two_torches NONE)
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
list(PREPEND CMAKE_SYSTEM_PREFIX_PATH {FOLDER}/system)
include({PREFIX_CMAKE})
block()
  pitot_keep_to_torch_prefix()
  find_package(Torch REQUIRED)
  foreach(found ${{Torch_DIR}} ${{CAFFE2_IS}} ${{c10_LIBRARY}} ${{TORCH_LIBRARY}})
    message(STATUS "found ${{found}}")
  endforeach()
endblock()
"""


def install(prefix):
    for name, config in (('Torch', TORCH_CONFIG), ('Caffe2', 'set(CAFFE2_IS ${CMAKE_CURRENT_LIST_DIR})')):
        folder = prefix / 'share' / 'cmake' / name
        folder.mkdir(parents=True)
        (folder / f'{name}Config.cmake').write_text(config)
        (folder / f'{name}ConfigVersion.cmake').write_text('set(PACKAGE_VERSION 2.11)')
    (prefix / 'lib').mkdir()
    for name in ('libc10.so', 'libtorch.so'):
        (prefix / 'lib' / name).touch()


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    system, other = FOLDER / 'system', FOLDER / 'other'
    for prefix in (system, other):
        install(prefix)
    (FOLDER / 'CMakeLists.txt').write_text(PROJECT)
    failed = False
    for wanted, arguments in ((system, []), (other, [f'-DCMAKE_PREFIX_PATH={other}']),
                              (other, [f'-DCMAKE_PREFIX_PATH={other}/share/cmake']), (other, [f'-DTorch_ROOT={other}']),
                              (other, [f'-DTorch_DIR={other}/share/cmake/Torch'])):
        # Also in a build folder that found the system's LibTorch before.
        for before in ([], ['before']):
            build = FOLDER / 'build'
            shutil.rmtree(build, ignore_errors=True)
            base = [CMAKE, '-S', str(FOLDER), '-B', str(build)]
            for _ in before:
                subprocess.run(base, check=True, capture_output=True)
            run = subprocess.run([*base, *(['-UTorch_DIR'] if before else []), *arguments], check=False,
                                 capture_output=True, text=True)
            found = [line[len('-- found '):] for line in run.stdout.splitlines() if line.startswith('-- found ')]
            if len(found) != 4 or not all(Path(path).resolve().is_relative_to(wanted) for path in found):
                failed = True
                print(f'{arguments} {before}: must all be in {wanted}:', *found, run.stderr, sep='\n  ')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
