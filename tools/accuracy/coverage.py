# SPDX-License-Identifier: Apache-2.0
"""Counts struck requests with their kernels in the incident. benchmarks/gpu_coverage.py defines a covered request."""

import json
import sys
from pathlib import Path
from typing import Any, Dict, List

import score

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'benchmarks'))
import gpu_coverage  # noqa: E402


def coverage_of(run: 'score.Run', requests: Any, injector: str) -> Dict[str, int]:
    """Counts of struck requests in the incident: covered, without GPU time, with GPU time from CUDA events, with counters all the time."""
    struck = [request for request in requests if request['outcome'] == 'ok' and
              any(one.injector == injector for one in run.injections.get(request['id'], []))]
    return {'requests': len(struck), 'covered': sum(map(gpu_coverage.is_covered, struck)),
            'without': sum(not request.get('gpu_ns') for request in struck),
            'by_events': sum(bool(request.get('gpu_by_events_ns')) for request in struck),
            'sampled': sum((request.get('sampled') or 0) >= 0.99 for request in struck)}


def score_coverage(out: Path, runs: List['score.Run'], expected: Dict[str, Any]) -> Dict[str, Any]:
    """Rows by fault; a run without recorded GPUs has none."""
    rows: Dict[str, Any] = {}
    for run in runs:
        fault, path = expected['faults'].get(run.name), out / run.name / 'requests.json'
        if fault is None or fault['server'] == 'simulator' or not path.exists():
            continue
        requests = json.loads(path.read_text(encoding='utf-8'))['requests']
        if any(request.get('gpu_ns') for request in requests):
            rows[run.name] = {'what': fault['what'], **coverage_of(run, requests, fault['injector'])}
    return rows
