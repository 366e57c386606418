# SPDX-License-Identifier: Apache-2.0
"""The runs of the board of the Python server (test/scoreboard/python_server.py): handlers on threads, and as tasks of one event loop."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence

from servers import Failed, Job, Phase, Plan, probe

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).resolve().parent / 'python_requirements.txt'
VENV = ROOT / 'build' / 'python-board-venv'
PYTHON, SERVER = VENV / 'bin' / 'python', ROOT / 'test' / 'scoreboard' / 'python_server.py'
ENVIRONMENT = {'PYTHONPATH': str(ROOT / 'bindings' / 'python')}
ASYNC = 'a'  # the suffix of runs with handlers as tasks
PIP_S = 300

# The doses of each fault. The rate is the share of requests; for faults of the process, how often a second.
ON_THREADS: Dict[str, Sequence[str]] = {
    'P01': ('gc_heap:rate=1.2',), 'P02': ('gil_python:rate=0.5,dose_ms=300',),
    'P03': ('gil_call:rate=1.2,dose_count=1', 'gil_call:rate=0.8,dose_count=3'),
    'P05': ('lock_held:rate=0.03,dose_ms=40', 'lock_held:rate=0.03,dose_ms=90'),
    'P06': ('slow_backend:rate=0.08,dose_ms=20', 'slow_backend:rate=0.08,dose_ms=80'),
    'P09': ('slow_code:rate=0.06,dose_ms=15', 'slow_code:rate=0.06,dose_ms=50')}
AS_TASKS: Dict[str, Sequence[str]] = {
    **{name: ON_THREADS[name] for name in ('P01', 'P02', 'P06', 'P09')},
    'P04': ('loop_block:rate=1.2,dose_ms=60', 'loop_block:rate=0.8,dose_ms=150')}
BIG = ('--big-share', '0.05', '--big-size', '1400')


def ensure_python() -> None:
    """Makes the environment with the server's packages, from PyPI, once. Raises Failed."""
    stamp = VENV / 'installed'
    if not stamp.exists() or stamp.read_bytes() != REQUIREMENTS.read_bytes():
        shutil.rmtree(VENV, ignore_errors=True)
        try:
            subprocess.run([sys.executable, '-m', 'venv', str(VENV)], check=True, timeout=PIP_S)
            subprocess.run([str(PYTHON), '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary=:all:',
                            '-r', str(REQUIREMENTS)], check=True, timeout=PIP_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise Failed(f'{VENV} cannot be made, with what {REQUIREMENTS.name} lists from PyPI: {error}') from error
        shutil.copyfile(REQUIREMENTS, stamp)


class PythonBoard:
    """Makes plans for a server with a capacity of `capacity` requests a second."""

    def __init__(self, setting: Any, capacity: float, typical_ms: float) -> None:
        self.setting, self.typical_ms = setting, typical_ms
        self.rate = min(0.3 * capacity, setting.most_rate)

    def measure(self, binaries: Path, out: Path) -> Dict[str, float]:
        ensure_python()
        return probe(binaries, out / 'probe', self.plan('probe', ()), self.setting.seed, self.setting.probe_s)

    def plan(self, name: str, phases: Sequence[Phase], load: Sequence[str] = (), rate: float = 0) -> Plan:
        handlers = 'tasks' if name.endswith(ASYNC) else 'threads'
        return Plan(name, 'python', ['--handlers', handlers], [*self.setting.pictures, *load], phases, ENVIRONMENT,
                    rate or self.rate, program=(str(PYTHON), str(SERVER)))

    def jobs(self) -> List[Job]:
        setting, plans = self.setting, []
        for suffix, faults in (('', ON_THREADS), (ASYNC, AS_TASKS)):
            for name, doses in faults.items():
                struck = [phase for dose in doses for phase in (Phase(setting.struck_s, (dose,)), Phase(1.0))]
                plans.append(self.plan(name + suffix, [Phase(setting.quiet_s), *struck]))
            whole = [Phase(setting.quiet_s + 2 * setting.struck_s)]
            plans += [self.plan(f'{name}{suffix}', whole, BIG) for name in ('P07', 'P08')]
            plans.append(self.plan(f'C10{suffix}', [Phase(setting.control_s)]))
            plans.append(self.plan(f'C11{suffix}', [Phase(setting.control_s)], rate=2 * self.rate))
        return [plan for plan in plans if plan.name not in setting.skip]

    @staticmethod
    def unrecorded(job: Job) -> List[Job]:
        return []

