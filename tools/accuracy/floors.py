# SPDX-License-Identifier: Apache-2.0
"""What a board may not fall below: a sign that something broke, not what is to be reached (docs/lab/accuracy.md has both).

Of a share the lower end of its 95 % interval is held against the floor, and of false findings the upper: a board on which hardly anything
was struck proves nothing, and fails. Values are below those of the worst run of `quick` or `tune` with verdicts as they are, in
docs/lab/accuracy.md, each with the reason.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional

from score import wilson

Score = Dict[str, Any]


def low_of(share: str, count: str) -> Callable[[Score], Optional[float]]:
    """The lower end of the interval of a share of so many."""
    def low(score: Score) -> Optional[float]:
        value, of = score['all'][share], score['all'][count]
        return None if value is None else wilson(round(value * of), of)[0]
    return low


class Floor(NamedTuple):
    what: str
    is_least: bool  # else the most
    limit: float
    of: Callable[[Score], Optional[float]]  # None: nothing was said of it, which misses


FLOORS = (
    # 85 % (82 to 87) at the least, where a hypervisor takes 5 % of the CPUs; 97 % and more where they are ours. The rest is for fuller ones.
    Floor('recall, lower end', True, 0.70, low_of('recall', 'requests')),
    # 97 % (95 to 98) at the least. What waits for a CPU for longer than the fault took is before it, and right where a line proves that.
    Floor('top 1, lower end', True, 0.85, low_of('top1', 'requests')),
    # 99 % (98 to 99) at the least. It was 82 % while causes that no line of the request proved were named.
    Floor('precision, lower end', True, 0.90, low_of('precision', 'named')),
    # 99 % (97 to 100) of some 290; of F22's alone 88 %. Each fault has its own way to the culprit: one that is lost is some 10 points.
    Floor('culprit, lower end', True, 0.80, low_of('culprit', 'culprits')),
    # 0.8 (0.6 to 1.0) at the most; 2.4 and 4.6 of older verdicts, beside 14 threads that wanted the two cores. Wrong rules had 8 to 13, on a GPU.
    Floor('false of 100 control requests, upper end', False, 3.0, lambda score: score['all_controls']['interval_per_100'][1]),
    # 0.02 to 0.06; 0.1 is to be reached, and a bin of a few causes moves it by 0.02.
    Floor('expected calibration error', False, 0.12, lambda score: score['calibration_error']),
    # 1 to 3 %; 10 is to be reached. Few doses are near 10 (F01s, F29: what they put off ends on a machine's own time).
    Floor('blame error, median', False, 0.10, lambda score: score['all']['blame_error']),
)


def missed(score: Score) -> List[str]:
    """The floors that a score misses, for people."""
    lines = []
    for floor in FLOORS:
        value = floor.of(score)
        if value is None or (value < floor.limit if floor.is_least else value > floor.limit):
            said = 'unknown' if value is None else f'{value:.3f}'
            lines.append(f'{floor.what}: {said} is {"below" if floor.is_least else "above"} the floor of {floor.limit:g}')
    return lines
