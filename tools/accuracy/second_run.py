#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the GPU's part of requests in two boards of the same faults: with the default set, and with kernels recorded.

second_run.py DEFAULT KERNELS: folders of tools/scoreboard, for example of the settings gpu_default and gpu. Other faults than those of
both are left out. A row has medians in ms: of the parts on the GPU in requests without a fault, and how much longer they are in struck
requests, for each fault and dose. The error is relative to the board with kernels; below --least-ms it is not computed.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import score

GPU_PARTS = ('gpu_exec_expected', 'gpu_contention', 'gpu_clock', 'gpu_excess_unknown', 'gpu_queue_wait_others', 'h2d', 'd2h', 'd2d_memset',
             'dispatch_gap')
MS = 1e-6  # in one ns


class Parts(NamedTuple):
    """Medians of the GPU's part, in ms: of requests without a fault, and by dose how much more of struck ones."""
    usual_ms: float
    requests: Dict[str, int]
    excess_ms: Dict[str, float]


def on_gpu_ms(verdict: Dict[str, Any]) -> float:
    return sum(verdict['blame_ns'].get(part, 0) for part in GPU_PARTS) * MS


def parts_of(run: 'score.Run', injector: str) -> Optional[Parts]:
    """Nothing without requests of either kind."""
    struck: Dict[str, List[float]] = {}
    doses = {request: one.dose for request, ones in run.injections.items() for one in ones if one.injector == injector}
    routes = {verdict['route'] for request, verdict in run.verdicts.items() if request in doses}  # the injector may serve routes of its own
    others: List[float] = []
    for request, verdict in run.verdicts.items():
        if request in doses:
            struck.setdefault(doses[request], []).append(on_gpu_ms(verdict))
        elif verdict['route'] in routes:
            others.append(on_gpu_ms(verdict))
    if not struck or not others:
        return None
    usual = statistics.median(others)
    return Parts(usual, {dose: len(values) for dose, values in struck.items()},
                 {dose: statistics.median(values) - usual for dose, values in struck.items()})


def error(measured: float, true: float, least_ms: float) -> Optional[float]:
    return abs(measured - true) / true if true >= least_ms else None


def rows_of(default: Sequence['score.Run'], kernels: Sequence['score.Run'], expected: Dict[str, Any], least_ms: float) -> List[List[str]]:
    def text(value: Optional[float]) -> str:
        return '' if value is None else f'{100 * value:.0f} %'

    rows, second = [], {run.name: run for run in kernels}
    for run in default:
        fault = expected['faults'].get(run.name)
        if fault is None or run.name not in second:
            continue
        ours, truth = parts_of(run, fault['injector']), parts_of(second[run.name], fault['injector'])
        if ours is None or truth is None:
            continue
        rows.append([run.name, 'without a fault', '', f'{ours.usual_ms:.2f}', f'{truth.usual_ms:.2f}',
                     text(error(ours.usual_ms, truth.usual_ms, least_ms))])
        for dose in sorted(set(ours.excess_ms) & set(truth.excess_ms)):
            rows.append([run.name, dose, f'{ours.requests[dose]} / {truth.requests[dose]}', f'{ours.excess_ms[dose]:.2f}',
                         f'{truth.excess_ms[dose]:.2f}', text(error(ours.excess_ms[dose], truth.excess_ms[dose], least_ms))])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('default', type=Path)
    parser.add_argument('kernels', type=Path)
    parser.add_argument('--least-ms', type=float, default=0.5, help='of the true value, for an error (default 0.5)')
    options = parser.parse_args()
    expected = score.read_expected()
    rows = rows_of(score.read_runs(options.default, expected), score.read_runs(options.kernels, expected), expected, options.least_ms)
    print('| fault | dose | requests | default set, ms | kernels, ms | error |\n|---|---|---|---|---|---|')
    for row in rows:
        print('| ' + ' | '.join(row) + ' |')


if __name__ == '__main__':
    main()
