# SPDX-License-Identifier: Apache-2.0
"""Compares two runs: two versions by `pitot diff`, and recorded with unrecorded by the load generator's own numbers."""

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, List, Optional

import score

MS = 1e-6  # in one ns
LEAST_SHARE, LEAST_MS = 0.05, 0.5  # tolerance of a diagnosed excess against the excess measured from outside; the larger counts


# ---- Versions

def judge_diff(diff: Dict[str, Any], wanted: Dict[str, Any]) -> Dict[str, Any]:
    """Whether the outcome is right, and whether the changed row is named with its main effect."""
    row = next((row for name, part in wanted.get('rows', []) for table in diff['tables'] if table['name'] == name
                for row in table['rows'] if part in row['name']), None)
    effects = [effect for effect in ('count', 'duration') if row is not None and row['significant'] and row[f'by_{effect}']]
    effects.sort(key=lambda effect: -abs(row[f'{effect}_effect_ns']))
    is_named = effects[:1] == [wanted['effect']] if 'effect' in wanted else None
    is_right = (diff['outcome'] == 'regression') == (wanted['outcome'] == 'regression')
    return {'what': wanted['what'], 'outcome': diff['outcome'], 'is_right': is_right, 'row': row['name'] if row else None,
            'effects': effects, 'is_named': is_named, 'change_ns': row['after_ns'] - row['before_ns'] if row else None,
            'gates': [gate['name'] for gate in diff['gates'] if gate['outcome'] == 'regression']}


def score_versions(out: Path, expected: Dict[str, Any]) -> Dict[str, Any]:
    return {name: judge_diff(json.loads((out / name / 'diff.json').read_text(encoding='utf-8')), wanted)
            for name, wanted in expected['versions'].items() if (out / name / 'diff.json').exists()}


# ---- Recorded and not

class Arm:
    """A run as seen from outside, with the injectors' log."""

    def __init__(self, folder: Path, injector: str, expected: Dict[str, Any]) -> None:
        load = json.loads((folder / 'load.json').read_text(encoding='utf-8'))
        self.latencies_ms = {sample['id']: sample['latency_ms' if 'latency_ms' in sample else 'total_ms']  # for pictures, for prompts
                             for sample in load['slowest'] if sample['status'] == 200}
        injections = score.injections_of(score.read_lines(folder / 'injected.jsonl'), expected)
        self.struck: Dict[str, List[str]] = defaultdict(list)  # requests by dose
        for request, ones in injections.items():
            for one in ones:
                if one.injector == injector and request in self.latencies_ms:
                    self.struck[one.dose].append(request)
        self.usual_ms = median([ms for request, ms in self.latencies_ms.items() if request not in injections])

    def excess_ms(self, dose: str) -> Optional[float]:
        """The median latency of struck requests minus that of the others."""
        of_struck = median([self.latencies_ms[request] for request in self.struck.get(dose, [])])
        return of_struck - self.usual_ms if of_struck is not None and self.usual_ms is not None else None


def median(values: List[float]) -> Optional[float]:
    return statistics.median(values) if values else None


def agrees(diagnosed_ms: Optional[float], outside_ms: Optional[float]) -> Optional[bool]:
    if diagnosed_ms is None or outside_ms is None:
        return None
    return abs(diagnosed_ms - outside_ms) <= max(LEAST_SHARE * outside_ms, LEAST_MS)


def score_unrecorded(out: Path, expected: Dict[str, Any]) -> List[Dict[str, Any]]:
    """A row for each fault and dose with a recorded and an unrecorded run."""
    rows = []
    for name, fault in expected['faults'].items():
        on, off = out / name, out / f'{name}.unrecorded'
        if not (on / 'why.jsonl').exists() or not (off / 'injected.jsonl').exists():
            continue
        recorded, unrecorded = (Arm(folder, fault['injector'], expected) for folder in (on, off))
        verdicts = {verdict['request']: verdict for verdict in score.read_lines(on / 'why.jsonl')}
        for dose in sorted(unrecorded.struck, key=score.number_in):
            of_struck = [verdicts[request] for request in recorded.struck.get(dose, []) if request in verdicts]
            diagnosed_ms = median([MS * (verdict['latency_ns'] - verdict['typical_ns']) for verdict in of_struck])
            outside_ms, beside_ms = unrecorded.excess_ms(dose), recorded.excess_ms(dose)
            rows.append({'fault': name, 'dose': dose, 'requests': len(unrecorded.struck[dose]), 'recorded_requests': len(of_struck),
                         'usual_off_ms': unrecorded.usual_ms, 'usual_on_ms': recorded.usual_ms,
                         'excess_off_ms': outside_ms, 'excess_on_ms': beside_ms, 'diagnosed_ms': diagnosed_ms,
                         'agrees': agrees(diagnosed_ms, outside_ms), 'agrees_on': agrees(diagnosed_ms, beside_ms)})
    return rows
