# SPDX-License-Identifier: Apache-2.0
"""How often findings were true on the boards for tuning, by code and size: the source of lib/analyze/catalogue/precision_counts.h.

A large finding costs a hundredth of the window or more. Boards that only score are never counted. So their share of true findings is that of runs on which nothing was chosen.
"""

import json
from pathlib import Path
from typing import Any, Dict, List, Sequence

from catalogue import Truth, analyzer_of

ROOT = Path(__file__).resolve().parents[2]
COUNTS, HEADER = Path(__file__).resolve().parent / 'precision.json', ROOT / 'lib/analyze/catalogue/precision_counts.h'
LARGE_SHARE = 0.01  # of the window, as in lib/analyze/catalogue/precision.h
Counts = Dict[str, List[int]]  # by "a05.input_bound large": true, all
HEAD = '''// SPDX-License-Identifier: Apache-2.0
//
// Written by tools/precision from tools/accuracy/precision.json: do not edit.
#ifndef PITOT_LIB_ANALYZE_CATALOGUE_PRECISION_COUNTS_H_
#define PITOT_LIB_ANALYZE_CATALOGUE_PRECISION_COUNTS_H_

#include "analyze/catalogue/precision.h"

namespace pitot::catalogue {

// clang-format off
inline constexpr PrecisionCount kPrecisionCounts[] = {
'''
FOOT = '''};
// clang-format on

}  // namespace pitot::catalogue

#endif  // PITOT_LIB_ANALYZE_CATALOGUE_PRECISION_COUNTS_H_
'''


class NotForTuning(Exception):
    """The board only scores."""


def is_for_tuning(setting: str) -> bool:
    return setting == 'tune' or setting.endswith('_tune')


def kind_of(finding: Dict[str, Any]) -> str:
    return f'{finding["code"]} {"large" if finding["share"] >= LARGE_SHARE else "small"}'


def counts_of(runs: Sequence[Any], expected: Dict[str, Any]) -> Counts:
    """The claims on these runs by kind, also silent ones.

    Not those of which only true ones are claims (`counted`). Nor those that only the setting or a crowded machine makes true: they are
    true of controls, too, and say nothing of a kind's precision elsewhere.
    """
    counts: Counts = {}
    for run in runs:
        truth = Truth(run, expected)
        for finding in run.findings if truth.is_known else ():
            is_true, is_of_fault = truth.is_true(finding), truth.is_of_fault(finding)
            if truth.is_claim(finding) and analyzer_of(finding['code']) not in truth.counted and is_true == is_of_fault:
                count = counts.setdefault(kind_of(finding), [0, 0])
                count[0] += is_of_fault
                count[1] += 1
    return dict(sorted(counts.items()))


def taken(counts: Dict[str, Counts], setting: str, of: Counts) -> Dict[str, Counts]:
    """The counts of all settings, with those of one replaced."""
    if not is_for_tuning(setting):
        raise NotForTuning(f'{setting} is a board that only scores: count tune, python_tune, llm_tune or gpu_tune')
    return dict(sorted({**counts, setting: of}.items()))


def header(counts: Dict[str, Counts]) -> str:
    """The header, of the counts of all settings together."""
    sums: Counts = {}
    for of in counts.values():
        for kind, (right, count) in of.items():
            before = sums.get(kind, [0, 0])
            sums[kind] = [before[0] + right, before[1] + count]
    rows = []
    for kind, (right, count) in sorted(sums.items()):
        code, size = kind.split()
        rows.append(f'    {{"{code}", Size::k{size.capitalize()}, {right}, {count}}},\n')
    return HEAD + ''.join(rows) + FOOT


def text(counts: Dict[str, Counts]) -> str:
    """The file of counts: a line for each kind."""
    settings = []
    for setting, of in counts.items():
        rows = ',\n'.join(f'  {json.dumps(kind)}: {json.dumps(count)}' for kind, count in of.items())
        settings.append(f' {json.dumps(setting)}: {{\n{rows}\n }}')
    return '{\n' + ',\n'.join(settings) + '\n}\n'


def read_counts(path: Path = COUNTS) -> Dict[str, Counts]:
    counts: Dict[str, Counts] = json.loads(path.read_text(encoding='utf-8'))
    return counts
