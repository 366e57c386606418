#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks versions of vLLM by import for the plug-in's needs, without a GPU or an installed vLLM.

usage: versions.py [--folder FOLDER] VERSION...

Fetches each version's wheel from PyPI by pip, keeps its Python files in FOLDER/VERSION, and imports its engine there. Packages not
installed, like PyTorch, are replaced. Wheels have some 500 MB each. Prints a table, and exits with 1 if a version lacks a need
that is not in brackets.

Needs pydantic, msgspec and numpy.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLATFORMS = [f'manylinux_2_{minor}_x86_64' for minor in (35, 34, 31, 28)] + ['manylinux2014_x86_64', 'manylinux1_x86_64']


def fetch(version: str, into: Path) -> None:
    if (into / 'vllm').exists():
        return
    with tempfile.TemporaryDirectory(dir=into.parent) as wheels:
        platforms = [word for platform in PLATFORMS for word in ('--platform', platform)]
        subprocess.run([sys.executable, '-m', 'pip', 'download', '--quiet', '--no-deps', '--only-binary=:all:', '--python-version', '3.12',
                        '--implementation', 'cp', *platforms, '--dest', wheels, f'vllm=={version}'], check=True)
        (wheel,) = Path(wheels).glob('*.whl')
        with zipfile.ZipFile(wheel) as files:
            files.extractall(into, [name for name in files.namelist() if name.startswith('vllm/') and name.endswith('.py')])


def check(version: str, folder: Path) -> 'dict[str, bool] | None':
    """The answer of `needs.py`. None: the import failed."""
    done = subprocess.run([sys.executable, str(HERE / 'needs.py'), str(folder / version)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f'{version}: {done.stderr.strip()[-2000:]}', file=sys.stderr)
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('versions', nargs='+', metavar='VERSION')
    parser.add_argument('--folder', type=Path, default=HERE.parents[2] / 'build' / 'vllm_sources')
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    is_good = True
    for version in options.versions:
        fetch(version, options.folder / version)
        found = check(version, options.folder)
        lacks = [name for name, is_there in (found or {'import': False}).items() if not is_there]
        is_good = is_good and all(name.startswith('(') for name in lacks)
        print(f'| {version} | {"all" if not lacks else "lacks " + ", ".join(lacks)} |', flush=True)
    return 0 if is_good else 1


if __name__ == '__main__':
    sys.exit(main())
