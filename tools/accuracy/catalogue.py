# SPDX-License-Identifier: Apache-2.0
"""Scores the findings of `pitot analyze` by analyzer, on runs with a known fault and on controls.

expected.json defines the true findings about a fault. `finds` are required from the analyzers made for the fault, and `also` are
true, too. `always` are true of every run of the board's setting. They are counted separately, because they do not tell runs apart.
A finding about a blame (`names_blame`) must be about the fault's: its metric has the name.
Two more findings may be true. The server waited for CPUs if other programs had half of all CPU time, or if its own log lines show
a tenth of the requests' time as such waits. It slept if its own log lines
show a tenth of its batches' time as sleep.
On crowded CPUs, slow steps (a36) may have the others for a reason: there they are neither true nor false, and not counted.
Undetermined findings, findings of severity info, and recorders' own counts (`counted`) claim nothing and cannot be false.
Silent findings are not reported (docs/reference/analyzers.md#precision): they are counted separately.
"""

import re
from collections import defaultdict
from typing import Any, Dict, List, Sequence, Set


def findings_of(analyzed: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The findings of all analyzers in the JSON of `pitot analyze`, with their `share` of the window."""
    window_ns = max(1, analyzed.get('window_ns', 0))
    return [{**finding, 'share': finding.get('cost_ns', 0) / window_ns} for analyzer in analyzed.get('analyzers', []) for finding in analyzer['findings']]


def analyzer_of(code: str) -> str:
    return code.partition('.')[0]


def is_silent(finding: Dict[str, Any]) -> bool:
    """Not known of findings by older versions: they reported all."""
    return bool(finding.get('silent', False))


def blame_of(finding: Dict[str, Any]) -> str:
    """The blame in the metric of a driver of latency: host_lock of "Cov(host_lock, latency) / Var(latency)"; otherwise ""."""
    named = re.match(r'Cov\((\w+), latency\)', finding.get('metric', ''))
    return named.group(1) if named else ''


class Truth:
    """The findings that are true of one run."""

    def __init__(self, run: Any, expected: Dict[str, Any]) -> None:
        name = run.name
        faults = [expected['faults'][fault] for fault in expected['pairs'].get(name, {}).get('faults', [name]) if fault in expected['faults']]
        faults += [expected['lossy'][name]] if name in expected['lossy'] else []
        self.is_known = bool(faults) or name in expected['controls']
        self.is_control = name in expected['controls']
        self.finds: Set[str] = {code for fault in faults for code in fault.get('finds', [])}
        self.also: Set[str] = self.finds | {code for fault in faults for code in fault.get('also', [])}
        self.blames: Set[str] = {blame for fault in faults for blame in fault.get('blames', [])}
        always = expected.get('always', {})
        self.always_also, self.always_blames = set(always.get('also', [])), set(always.get('blames', []))
        # From the log of other programs' CPU time.
        self.crowd_also, self.crowd_blames = ({'a27.runqueue'}, {'host_runqueue'}) if run.is_crowded else (set(), set())
        if run.is_asleep:
            self.also.add('a27.blocked')
            self.blames.add('host_blocked_unknown')
        self.names_blame: Set[str] = set(expected['names_blame'])
        self.counted: Set[str] = set(expected['counted'])
        self.not_judged: Set[str] = {'a36.outliers'} if run.is_crowded else set()

    def is_claim(self, finding: Dict[str, Any]) -> bool:
        if finding['undetermined'] or finding['severity'] == 'info' or finding['code'] in self.not_judged:
            return False
        return analyzer_of(finding['code']) not in self.counted or self.is_true(finding)

    def is_of_fault(self, finding: Dict[str, Any]) -> bool:
        """Whether the fault or the server makes it true: not the setting, nor other programs on the machine."""
        return self.has(finding, self.also, self.blames)

    def is_of_run(self, finding: Dict[str, Any]) -> bool:
        return self.has(finding, self.also | self.crowd_also, self.blames | self.crowd_blames)

    def is_true(self, finding: Dict[str, Any]) -> bool:
        return self.is_of_run(finding) or self.has(finding, self.always_also, self.always_blames)

    def has(self, finding: Dict[str, Any], also: Set[str], blames: Set[str]) -> bool:
        if finding['code'] in self.names_blame:
            return blame_of(finding) in blames
        return finding['code'] in also


def score_findings(runs: Sequence[Any], expected: Dict[str, Any]) -> Dict[str, Any]:
    """Scores by analyzer, and of all analyzers together. Runs have a name and findings."""
    cells: Dict[str, Dict[str, Any]] = defaultdict(lambda: {'said': 0, 'true': 0, 'silent': 0, 'silent_true': 0, 'always': 0,
                                                            'false_of': defaultdict(int), 'false_on_controls': 0, 'expected': 0, 'found': 0})
    controls = 0
    for run in runs:
        truth = Truth(run, expected)
        if not truth.is_known:
            continue
        controls += truth.is_control
        for finding in run.findings:
            code = finding['code']
            if not truth.is_claim(finding):
                continue
            is_true = truth.is_true(finding)
            if is_silent(finding):
                for name in (analyzer_of(code), 'all'):
                    cells[name]['silent'] += 1
                    cells[name]['silent_true'] += is_true
                continue
            for name in (analyzer_of(code), 'all'):
                cells[name]['said'] += 1
                cells[name]['true'] += is_true
                cells[name]['always'] += is_true and not truth.is_of_run(finding)
                cells[name]['false_on_controls'] += truth.is_control and not is_true
            if not is_true:
                cells[analyzer_of(code)]['false_of'][run.name] += 1
        said = {finding['code'] for finding in run.findings if not finding['undetermined'] and not is_silent(finding)}
        for code in truth.finds:
            for name in (analyzer_of(code), 'all'):
                cells[name]['expected'] += 1
                cells[name]['found'] += code in said
    result = {name: {**cell, 'false_of': dict(cell['false_of']), 'precision': cell['true'] / cell['said'] if cell['said'] else None,
                     'recall': cell['found'] / cell['expected'] if cell['expected'] else None} for name, cell in sorted(cells.items())}
    everything = result.pop('all', None)
    return {'controls': controls, 'analyzers': result, 'all': everything}
