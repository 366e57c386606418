# SPDX-License-Identifier: Apache-2.0
"""Judges the same runs again with evidence removed from their dumps. Recall and confidence should fall; sure causes must stay right."""

import shutil
import statistics
from pathlib import Path
from typing import Any, Dict, List, Sequence

import score
import servers

TABLES = ('gpu', 'kernels5', 'calls', 'syncs', 'launches', 'callers', 'handoffs', 'waits', 'scopes', 'batches', 'contexts', 'counters')


def unknown_of(asked: Sequence[str]) -> str:
    return ', '.join(one for tables in asked for one in tables.split(',') if one not in TABLES and one != 'all')


def row_of(without: str, runs: Sequence[score.Run], expected: Dict[str, Any]) -> Dict[str, Any]:
    """Scores of struck requests, at judged doses, and of controls."""
    records, controls = score.judged_records(runs, expected), score.control_records(runs, expected)
    claims = [(confidence, is_right) for one in [*records, *controls]
              for blame, confidence, is_right in zip(one.named, one.confidences, one.right) if blame != score.UNEXPLAINED]
    sure = [is_right for confidence, is_right in claims if confidence >= score.SURE]
    return {'without': without, **{key: value for key, value in score.scores_of(records).items() if key in
                                   ('requests', 'recall', 'precision', 'top1', 'abstained')},
            'causes': len(claims), 'confidence': statistics.fmean(confidence for confidence, _ in claims) if claims else None,
            'sure': len(sure), 'sure_and_wrong': sum(not is_right for is_right in sure)}


def judge_without(binaries: Path, folder: Path, to: Path, without: str) -> Path:
    """Makes `to` like `folder`, without this evidence, and judges it. Returns `to`. Raises servers.Failed."""
    servers.alter(binaries, folder, to, ['--without', without])
    shutil.copyfile(folder / 'requests.json', to / 'requests.json')
    servers.ask_why(binaries, to / 'why.jsonl', servers.newest_dump(to))
    return to


def score_without(binaries: Path, out: Path, asked: Sequence[str], expected: Dict[str, Any]) -> List[Dict[str, Any]]:
    """One row per removed kind of evidence; the first row is for whole dumps."""
    if not asked:
        return []
    faults = [folder for folder in sorted(out.iterdir()) if (folder / 'why.jsonl').exists() and
              (folder.name in expected['faults'] or folder.name in expected['controls'])]
    rows = [row_of('', [score.read_run(folder, expected) for folder in faults], expected)]
    for without in [one for tables in asked for one in (TABLES if tables == 'all' else [tables])]:
        at = out / '.without' / without
        made = [judge_without(binaries, folder, at / folder.name, without) for folder in faults]
        rows.append(row_of(without, [score.read_run(folder, expected) for folder in made], expected))
        shutil.rmtree(at)
    return rows
