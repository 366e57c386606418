# SPDX-License-Identifier: Apache-2.0
"""Finds the libcupti that PyTorch will load, without importing PyTorch.

Two copies of CUPTI in a process fight for the driver. Once PyTorch is imported, the library finds its copy itself.
"""

import glob
import importlib.util
import os
import re
import sys
from typing import List, Optional


def _folders(package: str) -> List[str]:
    """The folders of a package that is installed, whether imported or not."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):  # a broken installation
        return []
    return list(spec.submodule_search_locations or []) if spec is not None else []


def _cuda_of(torch: str) -> Optional[str]:
    """The major version of CUDA that PyTorch was built for; None: it has none, or does not say."""
    try:
        with open(os.path.join(torch, "version.py"), encoding="utf-8") as file:
            found = re.search(r"^cuda\b[^=\n]*= *['\"](\d+)\.", file.read(), re.M)
    except (OSError, ValueError):
        return None
    return found[1] if found else None


def find() -> Optional[str]:
    """The file of libcupti that `import torch` will load; None: unknown, or PyTorch is imported already."""
    if "torch" in sys.modules:
        return None
    for torch in _folders("torch"):
        major = _cuda_of(torch)
        if major is None:
            continue
        places = [os.path.join(torch, "lib", "libcupti*.so*")]
        for nvidia in _folders("nvidia"):
            for folder in (f"cu{major}", "cuda_cupti"):
                places.append(os.path.join(nvidia, folder, "lib", f"libcupti.so.{major}*"))
        for place in places:
            files = sorted(glob.glob(place))
            if files:
                return files[0]
    return None
