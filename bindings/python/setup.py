# SPDX-License-Identifier: Apache-2.0
"""The extension. Without a compiler or Python's headers the package has only its calls through ctypes."""

import glob
import os

from setuptools import Extension, setup

INCLUDE = "include" if os.path.isdir("include") else os.path.join("..", "c", "include")

setup(ext_modules=[Extension("pitot._native", sorted(glob.glob("native/*.c")), include_dirs=[INCLUDE],
                             extra_compile_args=["-std=gnu11", "-fvisibility=hidden"], libraries=["dl"], optional=True)])
