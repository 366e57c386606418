# SPDX-License-Identifier: Apache-2.0
"""The extension, and the hook of PITOT_AUTO. Without a compiler or Python's headers the package has only its calls through ctypes."""

import glob
import os

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

INCLUDE = "include" if os.path.isdir("include") else os.path.join("..", "c", "include")
HOOK = "pitot_auto.pth"  # next to the packages, where Python looks for it


class BuildWithHook(build_py):
    def run(self):
        super().run()
        self.copy_file(HOOK, os.path.join(self.build_lib, HOOK))

    def get_outputs(self, include_bytecode=1):
        return [*super().get_outputs(include_bytecode), os.path.join(self.build_lib, HOOK)]


setup(ext_modules=[Extension("pitot._native", sorted(glob.glob("native/*.c")), include_dirs=[INCLUDE],
                             extra_compile_args=["-std=gnu11", "-fvisibility=hidden"], libraries=["dl"], optional=True)],
      cmdclass={"build_py": BuildWithHook})
