# SPDX-License-Identifier: Apache-2.0
"""Scores verdicts. Reads findings and injectors' logs, and nothing else.

A run is a folder with these files:

injected.jsonl  the injectors' log, one line per injection
why.jsonl       `pitot why --every --json`
requests.json   `pitot requests --json`, for the requests' begins
analyze.json    `pitot analyze --json`
profiler.json   the same with the torch-tb-profiler's rules, a rival

expected.json has the right verdicts on each fault. The maker of the findings does not know the struck requests, and this scorer does
not know how findings are made.
"""

import json
import math
import os
import re
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from catalogue import findings_of, score_findings

LEAST_RATIO = 0.25  # of typical latency: targets of accuracy apply to faults of this size or more
UNEXPLAINED = 'untraced_or_unexplained'  # not a cause, and its confidence is low for this reason
OTHERS = 'other_programs'  # the runner's log of programs other than the server
SURE = 0.8  # people act upon a cause with this confidence or more
ON_CPU = ('tune', 'quick', 'full')  # settings whose image server has no GPU
EXPECTED = Path(__file__).resolve().parent / 'expected.json'


class Injection(NamedTuple):
    """The whole effect of one fault on one request."""
    injector: str
    dose: str  # as given to the injector, without the rate
    injected_ns: int
    culprits: Set[str]


class Burn(NamedTuple):
    """CPU time used by an injector."""
    injector: str
    dose: str
    begin_ns: int
    end_ns: int
    cpu_ns: int


class Record(NamedTuple):
    """One struck request and the verdict on it."""
    fault: str
    dose: str
    injected_ns: int
    beside_ns: int  # other time with the same effect on the request, not the fault's
    typical_ns: int
    named: List[str]  # blames, largest excess first
    right: List[bool]  # for each of `named`
    confidences: List[float]  # for each of `named`
    is_named: bool  # the expected cause was named
    is_first: bool  # and first, or behind a logged cause that took more
    is_alone: bool  # and first of all
    is_ranked: bool  # among the three largest, named or not, or behind three that took more
    blamed_ns: Optional[int]  # on the expected cause if it was named, and on the other parts of the fault's time (made_of)
    has_culprit: Optional[bool]
    rivals: Dict[str, bool]

    @property
    def ratio(self) -> float:
        return self.injected_ns / self.typical_ns if self.typical_ns > 0 else 0.0


class Control(NamedTuple):
    """A request of a run without faults."""
    name: str
    latency_ns: int
    kind: str
    named: List[str]
    right: List[bool]  # for each of `named`: proved by the server's log
    confidences: List[float]

    @property
    def is_accused(self) -> bool:
        return bool(self.named) or self.kind == 'uniform'

    @property
    def is_falsely_accused(self) -> bool:
        return not all(self.right) or (self.kind == 'uniform')


class Run(NamedTuple):
    name: str
    injections: Dict[str, List[Injection]]  # by request
    verdicts: Dict[str, Dict[str, Any]]  # by request
    findings: List[Dict[str, Any]]  # by the catalogue
    profiler: List[Dict[str, Any]]  # by the torch-tb-profiler's rules
    is_crowded: bool = False  # other programs had half of all CPU time, or requests waited for CPUs a tenth of theirs
    is_asleep: bool = False  # threads slept for a tenth of the batches' time, without asking for a wait


# ---- Reading

def read_lines(path: Path) -> List[Dict[str, Any]]:
    """The lines of a log. Skips a line that is not valid JSON: the last may be incomplete."""
    lines = []
    for text in path.read_text(encoding='utf-8').splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def dose_of(line: Dict[str, Any]) -> str:
    asked = line.get('as', '').partition(':')[2]
    return ','.join(part for part in asked.split(',') if part and not part.startswith('rate='))


def entries_by_injector(expected: Dict[str, Any]) -> Dict[str, Dict[str, Any]]:
    """The table's entries by injector. A truth is true, even if a fault is judged by the same lines."""
    return {entry['injector']: entry for entry in [*expected['faults'].values(), *expected['truths']]}


def overlaps_of(lines: Sequence[Dict[str, Any]], expected: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Effects of simultaneous injections on each other, for truths made of them (`of`): a line for each other injection."""
    made = []
    for truth in (truth for truth in expected['truths'] if 'of' in truth):
        when = {line['time_ns']: line['time_ns'] + line['injected_ns'] for line in lines if line['fault'] == truth['of']}  # one per batch
        for line in (line for line in lines if line['fault'] == truth['of']):
            begin_ns, end_ns = line['time_ns'], line['time_ns'] + line['injected_ns']
            overlaps = [min(end_ns, until_ns) - max(begin_ns, from_ns) for from_ns, until_ns in when.items() if from_ns != begin_ns]
            made += [{**line, 'fault': truth['injector'], 'injected_ns': overlap_ns} for overlap_ns in overlaps if overlap_ns > 0]
    return made


def injections_of(lines: Iterable[Dict[str, Any]], expected: Dict[str, Any], requests: Iterable[str] = (),
                  run: str = '') -> Dict[str, List[Injection]]:
    """Injections by request, without lines of roles outside the table. `requests` has all requests of the run; most may be without a line."""
    wanted = {name: entry for name, entry in entries_by_injector(expected).items() if run not in entry.get('not_of', ())}
    sums: Dict[Tuple[str, str], Injection] = {}
    like: Dict[Tuple[str, str], Any] = {}
    on_cpu: Dict[Tuple[str, str], int] = defaultdict(int)  # if a line has it in addition to its duration
    lines = list(lines)
    for line in lines + overlaps_of(lines, expected):
        fault = wanted.get(line['fault'])
        if fault is None or fault.get('strikes') == 'meanwhile' or ('role' in fault and line.get('role') != fault['role']):
            continue
        key = (line['request'], line['fault'])
        like[key] = line.get(fault.get('like'))
        on_cpu[key] += line.get('on_cpu_ns', line['injected_ns'])
        before = sums.get(key, Injection(line['fault'], dose_of(line), 0, set()))
        who = line.get(fault.get('culprit'), [])
        culprits = before.culprits | set(who if isinstance(who, list) else [who])
        took_ns = line.get('cpu_ns', line['injected_ns']) if 'on_cpu' in fault else line['injected_ns']
        sums[key] = before._replace(injected_ns=before.injected_ns + took_ns, culprits=culprits)
    for (request, name), one in sums.items():  # a time must not prove two causes
        part_ns = on_cpu.get((request, wanted[name].get('without', '')), 0)
        sums[request, name] = one._replace(injected_ns=max(0, one.injected_ns - part_ns))
    everybody = set(requests) | {request for request, _ in sums}
    taken: Dict[Tuple[str, Any], List[int]] = defaultdict(list)
    for name in {one.injector for one in sums.values() if 'beyond' in wanted[one.injector]}:
        for request in everybody if 'like' not in wanted[name] else [request for request, of in sums if of == name]:
            taken[name, like.get((request, name))].append(sums[request, name].injected_ns if (request, name) in sums else 0)
    usual = {key: statistics.median(parts) for key, parts in taken.items()}
    by_request = defaultdict(list)
    for (request, name), injection in sums.items():
        more_ns = injection.injected_ns - int(usual.get((name, like.get((request, name))), 0))
        by_request[request].append(injection._replace(injected_ns=more_ns))
    return dict(by_request)


def burns_of(lines: Iterable[Dict[str, Any]]) -> List[Burn]:
    return [Burn(line['fault'], dose_of(line), line['time_ns'], line['time_ns'] + line['injected_ns'], line['cpu_ns'])
            for line in lines if line.get('cpu_ns', 0) > 0 and line['injected_ns'] > 0]


def is_crowded(burns: Sequence[Burn], cpus: int) -> bool:
    others = [burn for burn in burns if burn.injector == OTHERS]
    return 2 * sum(burn.cpu_ns for burn in others) >= cpus * sum(burn.end_ns - burn.begin_ns for burn in others) > 0


def is_starved(lines: Iterable[Dict[str, Any]], verdicts: Iterable[Dict[str, Any]]) -> bool:
    """Whether a tenth of all requests' time was a logged wait for a CPU."""
    waited_ns = sum(line['injected_ns'] for line in lines if line['fault'] == 'cpu_waited')
    return 10 * waited_ns >= sum(verdict['latency_ns'] for verdict in verdicts) > 0


def is_asleep(lines: Sequence[Dict[str, Any]]) -> bool:
    """Whether a tenth of the batches' logged time was sleep. A batch has a line for each of its requests."""
    batches = {name: {(line['time_ns'], line['injected_ns']) for line in lines if line['fault'] == name} for name in ('slept', 'batch_code')}
    slept_ns, code_ns = (sum(ns for _, ns in batches[name]) for name in ('slept', 'batch_code'))
    return 10 * slept_ns >= slept_ns + code_ns > 0


def is_struck_by(verdict: Dict[str, Any], begin_ns: int, burn: Burn, waited_ns: int) -> bool:
    """Whether the request was slow, at least half of it overlapped the burn, and its own lines show the wait."""
    latency_ns, typical_ns = verdict['latency_ns'], verdict['typical_ns']
    overlap_ns = min(begin_ns + latency_ns, burn.end_ns) - max(begin_ns, burn.begin_ns)
    return 2 * overlap_ns >= latency_ns and 0 < typical_ns and min(latency_ns - typical_ns, waited_ns) >= LEAST_RATIO * typical_ns


def injections_by_burns(verdicts: Iterable[Dict[str, Any]], begins: Dict[str, int], burns: Sequence[Burn],
                        logged: Dict[str, List[Injection]], expected: Dict[str, Any]) -> Dict[str, List[Injection]]:
    """Effects of burnt CPU time on requests other than the burner's, as far as their own lines (`logged`) show."""
    meanwhile = {fault['injector']: fault for fault in expected['faults'].values() if fault.get('strikes') == 'meanwhile'}
    by_injector = entries_by_injector(expected)
    by_request = defaultdict(list)
    for verdict in verdicts:
        begin_ns = begins.get(verdict['request'])
        if begin_ns is None:
            continue
        for burn in burns:
            if burn.injector not in meanwhile:
                continue
            blames = set(meanwhile[burn.injector]['blames'])
            waited_ns = max((line.injected_ns for line in logged.get(verdict['request'], ())
                             if blames & set(by_injector[line.injector]['blames'])), default=0)
            if is_struck_by(verdict, begin_ns, burn, waited_ns):
                by_request[verdict['request']].append(Injection(burn.injector, burn.dose, waited_ns, set()))
                break
    return dict(by_request)


def read_begins(path: Path) -> Dict[str, int]:
    requests = json.loads(path.read_text(encoding='utf-8'))['requests'] if path.exists() else []
    return {request['id']: request['begin_ns'] for request in requests}


def read_findings(path: Path) -> List[Dict[str, Any]]:
    return findings_of(json.loads(path.read_text(encoding='utf-8'))) if path.exists() else []


def read_run(folder: Path, expected: Dict[str, Any]) -> Run:
    lines, verdicts = read_lines(folder / 'injected.jsonl'), read_lines(folder / 'why.jsonl')
    injections = injections_of(lines, expected, [verdict['request'] for verdict in verdicts], folder.name.split('.')[0])
    burns = burns_of(lines)
    for request, more in injections_by_burns(verdicts, read_begins(folder / 'requests.json'), burns, injections, expected).items():
        injections.setdefault(request, []).extend(more)
    return Run(folder.name.split('.')[0], injections, {verdict['request']: verdict for verdict in verdicts},
               read_findings(folder / 'analyze.json'), read_findings(folder / 'profiler.json'), is_crowded(burns, os.cpu_count() or 1) or is_starved(lines, verdicts),
               is_asleep(lines))


def read_runs(out: Path, expected: Dict[str, Any]) -> List[Run]:
    """The judged runs. Others are not made yet, or were interrupted."""
    return [read_run(folder, expected) for folder in sorted(out.iterdir()) if (folder / 'why.jsonl').exists()] if out.exists() else []


def read_expected(setting: str = '') -> Dict[str, Any]:
    """The table, with `always` for the findings true of every run of the setting. gpu_tune takes those of gpu."""
    of = 'cpu' if setting in ON_CPU else setting.partition('_')[0]
    expected: Dict[str, Any] = json.loads(EXPECTED.read_text(encoding='utf-8'))
    return {**expected, 'always': expected['settings'].get(of, {})}


# ---- Rivals, on the same traces

HTA_CLASSES = {  # of the edges of HTA's critical path; a wait of the host counts as the host's time there
    'gpu_compute_bound': {'gpu_exec_expected', 'gpu_contention', 'gpu_clock', 'gpu_excess_unknown', 'h2d', 'd2h', 'd2d_memset'},
    'gpu_communication': {'comm_exposed'},
    'gpu_kernel_kernel_overhead': {'dispatch_gap', 'gpu_queue_wait_others'},
    'gpu_kernel_launch_overhead': {'launch_latency', 'launch_queue_full'},
}
CPU_BOUND = {'host_oncpu_pre', 'host_oncpu_framework', 'host_oncpu_post', 'launch_api', 'alloc_stall', 'lazy_load_jit'}
PROFILER_RULES = {  # the torch-tb-profiler's findings about a window, and the causes they would be for a request
    'a05.input_bound': {'host_oncpu_pre', 'host_pagefault_io'},
    'a03.utilisation_low': set(),  # "increase the batch size": not about a request
}


def largest_segment(verdict: Dict[str, Any]) -> Set[str]:
    parts = verdict['blame_ns']
    return {max(parts, key=parts.get)} if parts else set()


def hta_bound_by(verdict: Dict[str, Any]) -> Set[str]:
    """The class of the critical path with the most time."""
    times: Dict[str, int] = defaultdict(int)
    for blame, part_ns in verdict['blame_ns'].items():
        times[next((name for name, blames in HTA_CLASSES.items() if blame in blames), 'cpu_bound')] += part_ns
    if not times:
        return set()
    bound = max(times, key=lambda name: times[name])
    return CPU_BOUND if bound == 'cpu_bound' else HTA_CLASSES[bound]


def profiler_rules(findings: Sequence[Dict[str, Any]]) -> Set[str]:
    said: Set[str] = set()
    for finding in findings:
        said |= PROFILER_RULES.get(finding['code'], set())
    return said


# ---- Judging

def whose_is(by: Optional[Dict[str, Any]]) -> Set[str]:
    by = by or {}
    holder = by.get('holder') or ''  # "reporter at app.py:88 render": a thread and a function; "janitor, generation 2"
    names = [re.split(' at |, ', holder)[0], holder.rpartition(' ')[2]]
    return {one for one in [by.get('request'), by.get('thread'), *names, *by.get('requests', [])] if one}


def has_culprit(cause: Dict[str, Any], culprits: Set[str], field: str) -> bool:
    if field in ('holder', 'others'):
        return bool(culprits & whose_is(cause.get('by')))
    return any(f'"{culprit}"' in cause['evidence'] or culprit in cause['evidence'].split() for culprit in culprits)


def is_true(cause: Dict[str, Any], injections: Iterable[Injection], expected: Dict[str, Any]) -> bool:
    """Whether a log proves the cause for the request: at least half of its excess."""
    by_injector = entries_by_injector(expected)
    return any(cause['blame'] in by_injector[one.injector]['blames'] and 2 * one.injected_ns >= cause['excess_ns'] for one in injections)


def is_greater(cause: Dict[str, Any], than: Injection, injections: Iterable[Injection], expected: Dict[str, Any]) -> bool:
    """Whether a log proves this cause for the request, with at least as much time. The larger of two simultaneous causes must be named
    first (X01 to X04)."""
    greater = [one for one in injections if one.injected_ns >= than.injected_ns > 0]
    return is_true(cause, greater, expected)


def judge(run: Run, request: str, fault_id: str, injection: Injection, expected: Dict[str, Any]) -> Record:
    fault, verdict = expected['faults'][fault_id], run.verdicts[request]
    blames, kinds = set(fault['blames']), set(fault.get('kinds', []))
    causes, ranking = verdict['causes'], verdict['causes'] or verdict['largest']
    hits = [cause for cause in causes if cause['blame'] in blames]
    # "Everything was slower" is not a cause, unless it names the clock.
    by_kind = verdict['verdict'] in kinds and fault.get('clocks', '') in verdict.get('clocks', '')
    is_beside = 'more_work' in kinds and 'more_work' in verdict  # more work for some parts, and causes for the others
    is_alone = by_kind or bool(ranking and ranking[0]['blame'] in blames)
    first = [cause['blame'] in blames or is_greater(cause, injection, run.injections[request], expected) for cause in ranking[:3]]
    of_fault = blames.union(fault.get('made_of', ()))
    beside = [one for one in run.injections[request] if one.injector in fault.get('beside', ())]
    # The culprit is the one with the largest part of the cause.
    culprits = injection.culprits.union(*(one.culprits for one in beside if one.injected_ns >= injection.injected_ns))
    culprit = None
    if hits and injection.culprits:
        culprit = any(has_culprit(cause, culprits, fault['culprit']) for cause in hits)
    return Record(
        fault_id, injection.dose, injection.injected_ns, sum(one.injected_ns for one in beside), verdict['typical_ns'],
        named=[cause['blame'] for cause in causes],
        right=[cause['blame'] in blames or is_true(cause, run.injections[request], expected) for cause in causes],
        confidences=[cause['confidence'] for cause in causes],
        is_named=bool(hits) or by_kind or is_beside,
        is_first=by_kind or first[:1] == [True],
        is_alone=is_alone,
        is_ranked=by_kind or is_beside or any(cause['blame'] in blames for cause in ranking[:3]) or first == [True] * 3,
        blamed_ns=sum(cause['excess_ns'] for cause in causes if cause['blame'] in of_fault) if hits else None,
        has_culprit=culprit,
        rivals={'largest segment': bool(largest_segment(verdict) & blames), "HTA's bound_by": bool(hta_bound_by(verdict) & blames),
                "torch-tb-profiler's rules": bool(profiler_rules(run.profiler) & blames)})


def is_struck(verdict: Dict[str, Any], injection: Injection, fault: Dict[str, Any], beside_ns: int = 0) -> bool:
    """Whether the injection struck this request. An injection that only overlaps it struck it only if it can have cost that much: the
    request must be slower by that, beyond the known time of others."""
    slower_ns = verdict['latency_ns'] - verdict['typical_ns'] - beside_ns
    return fault.get('strikes') != 'slower' or min(injection.injected_ns, slower_ns) >= LEAST_RATIO * verdict['typical_ns']


def judge_run(run: Run, faults: Sequence[str], expected: Dict[str, Any]) -> List[Record]:
    """Records of struck requests that ended in the trace; others have no verdict."""
    by_injector = {expected['faults'][name]['injector']: name for name in faults}
    records = []
    for request, injections in run.injections.items():
        for injection in injections:
            name = by_injector.get(injection.injector)
            if name is not None and request in run.verdicts and is_struck(run.verdicts[request], injection, expected['faults'][name]):
                records.append(judge(run, request, name, injection, expected))
    return records


def score_pair(run: Run, faults: Sequence[str], expected: Dict[str, Any]) -> Dict[str, Any]:
    """Requests struck by both faults: whether both are named, and the larger one first."""
    named, ordered = [], []
    for request, verdict in run.verdicts.items():
        injections = {name: one for name in faults for one in run.injections.get(request, ())
                      if one.injector == expected['faults'][name]['injector']}
        all_ns = sum(one.injected_ns for one in injections.values())
        if len(injections) < len(faults) or not all(is_struck(verdict, one, expected['faults'][name], all_ns - one.injected_ns)
                                                    for name, one in injections.items()):
            continue
        blames = [cause['blame'] for cause in verdict['causes']]
        places = {name: 0 if verdict['verdict'] in expected['faults'][name].get('kinds', []) else
                  next((i for i, blame in enumerate(blames) if blame in expected['faults'][name]['blames']), None) for name in faults}
        named.append(None not in places.values())
        if named[-1]:
            ordered.append(sorted(faults, key=lambda name: -injections[name].injected_ns) == sorted(faults, key=lambda name: places[name]))
    return {'requests': len(named), 'both_named': share(named), 'in_order': share(ordered)}


def score_lossy(run: Run, expected: Dict[str, Any]) -> Dict[str, Any]:
    """Verdicts in a trace with losses: they may be empty, but not sure and wrong."""
    sure = [is_true(cause, run.injections.get(request, []), expected) for request, verdict in run.verdicts.items()
            for cause in verdict['causes'] if cause['confidence'] >= SURE]
    verdicts = run.verdicts.values()
    return {'requests': len(run.verdicts), 'lossy': sum(not verdict['quality']['reliable'] for verdict in verdicts),
            'undetermined': sum(verdict['verdict'] == 'undetermined' for verdict in verdicts),
            'sure': len(sure), 'sure_and_wrong': sum(not is_right for is_right in sure)}


def controls_of(run: Run, expected: Dict[str, Any]) -> List[Control]:
    return [Control(run.name, verdict['latency_ns'], verdict['verdict'], [cause['blame'] for cause in verdict['causes']],
                    [is_true(cause, run.injections.get(request, []), expected) for cause in verdict['causes']],
                    [cause['confidence'] for cause in verdict['causes']])
            for request, verdict in run.verdicts.items()]


def does_not_add_up(verdict: Dict[str, Any]) -> bool:
    """Whether a verdict's numbers disagree. Segments and parts must add up to the latency, and usual times to the typical latency. For
    each cause, blame minus the usual time must be its excess. The other parts, with the unnamed common time of causes, must add up to
    the rest."""
    parts, usual, causes = verdict['blame_ns'], verdict['normal_ns'], verdict['causes']
    segments = sum(segment['duration_ns'] for segment in verdict['segments'])
    if segments != verdict['latency_ns'] or sum(parts.values()) != verdict['latency_ns']:
        return True
    if verdict['baseline']['level'] == 'none':
        return False  # without a baseline there is no excess
    if verdict['baseline']['is_coarse']:  # causes combine parts of GPUs with code; `blame_ns` does not have the combined parts
        parts = {**parts, **{cause['blame']: cause['blame_ns'] for cause in causes}}
        rest_ns = verdict['latency_ns'] - verdict['typical_ns'] - sum(cause['excess_ns'] for cause in causes) - verdict['common_ns']
    else:
        named = {cause['blame'] for cause in causes}
        rest_ns = sum(parts.get(part, 0) - usual.get(part, 0) for part in {*parts, *usual} - named)
        rest_ns += sum(cause['common_ns'] for cause in causes) - verdict['common_ns']
    return (rest_ns != verdict['rest_ns'] or sum(usual.values()) != verdict['typical_ns'] or
            len({cause['blame'] for cause in causes}) < len(causes) or
            any(cause['excess_ns'] != parts.get(cause['blame'], 0) - usual.get(cause['blame'], 0) - cause['common_ns'] for cause in causes))


# ---- Scores

def share(flags: Sequence[bool]) -> Optional[float]:
    return sum(flags) / len(flags) if flags else None


def wilson(hits: int, of: int, z: float = 1.96) -> Tuple[float, float]:
    """The 95 % interval of a share (Wilson, 1927)."""
    if of == 0:
        return 0.0, 1.0
    p, centre = hits / of, (hits + z * z / 2) / (of + z * z)
    half = z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return max(0.0, centre - half), min(1.0, centre + half)


def scores_of(records: Sequence[Record]) -> Dict[str, Any]:
    right = [flag for record in records for flag in record.right]
    errors = [abs(record.blamed_ns - record.injected_ns - record.beside_ns) / (record.injected_ns + record.beside_ns)
              for record in records if record.blamed_ns is not None and record.injected_ns > 0]
    culprits = [record.has_culprit for record in records if record.has_culprit is not None]
    named = sum(record.is_named for record in records)
    return {
        'requests': len(records),
        'ratio': statistics.fmean(record.ratio for record in records) if records else None,
        'recall': share([record.is_named for record in records]), 'recall_interval': wilson(named, len(records)),
        'precision': share(right), 'named': len(right),
        'top1': share([record.is_first for record in records]), 'top1_alone': share([record.is_alone for record in records]),
        'top3': share([record.is_ranked for record in records]),
        'blame_error': statistics.median(errors) if errors else None,
        'culprit': share(culprits), 'culprits': len(culprits),
        'abstained': share([not record.named and not record.is_named for record in records]),
        'rivals': {name: share([record.rivals[name] for record in records]) for name in (records[0].rivals if records else ())},
    }


def calibration_of(claims: Sequence[Tuple[float, bool]], bins: int = 10) -> Tuple[List[Dict[str, float]], Optional[float]]:
    """The reliability diagram, and the expected calibration error: the mean distance of confidence from truth."""
    cells: Dict[int, List[Tuple[float, bool]]] = defaultdict(list)
    for confidence, is_right in claims:
        cells[min(int(confidence * bins), bins - 1)].append((confidence, is_right))
    rows, error = [], 0.0
    for _, cell in sorted(cells.items()):
        said = statistics.fmean(confidence for confidence, _ in cell)
        true = sum(is_right for _, is_right in cell) / len(cell)
        rows.append({'confidence': said, 'right': true, 'causes': len(cell)})
        error += abs(said - true) * len(cell) / len(claims)
    return rows, error if claims else None


def detection_limit(cells: Sequence[Tuple[float, float]]) -> Optional[str]:
    """The dose, as a share of typical latency, from which half of the requests are found. Interpolates (dose, recall) linearly."""
    cells = sorted(cells)
    if not cells:
        return None
    if cells[0][1] >= 0.5:
        return f'< {cells[0][0]:.2f}'
    for (low, below), (high, above) in zip(cells, cells[1:]):
        if below < 0.5 <= above:
            return f'{low + (0.5 - below) / (above - below) * (high - low):.2f}'
    return f'> {cells[-1][0]:.2f}'


def number_in(dose: str) -> float:
    found = re.search(r'[0-9.]+', dose)
    return float(found.group()) if found else 0.0


def is_large(injected_ns: int, typical_ns: int) -> bool:
    """Whether a fault counts by its size. One without injected time of its own (a bigger input) always counts."""
    return injected_ns == 0 or (typical_ns > 0 and injected_ns >= LEAST_RATIO * typical_ns)


def is_judged(record: Record, expected: Dict[str, Any]) -> bool:
    return not expected['faults'][record.fault].get('needs') and is_large(record.injected_ns, record.typical_ns)


def judged_records(runs: Sequence[Run], expected: Dict[str, Any]) -> List[Record]:
    return [record for run in runs if run.name in expected['faults'] for record in judge_run(run, [run.name], expected)
            if is_judged(record, expected)]


def control_records(runs: Sequence[Run], expected: Dict[str, Any]) -> List[Control]:
    return [control for run in runs if run.name in expected['controls'] for control in controls_of(run, expected)]


def score(runs: Sequence[Run], expected: Dict[str, Any]) -> Dict[str, Any]:
    records: List[Record] = []
    controls: List[Control] = []
    result: Dict[str, Any] = {'faults': {}, 'pairs': {}, 'lossy': {}, 'controls': {}}
    for run in runs:
        if run.name in expected['controls']:
            controls += controls_of(run, expected)
        elif run.name in expected['pairs']:
            pair = expected['pairs'][run.name]
            result['pairs'][run.name] = {'what': pair['what'], **score_pair(run, pair['faults'], expected)}
        elif run.name in expected['lossy']:
            result['lossy'][run.name] = {'what': expected['lossy'][run.name]['what'], **score_lossy(run, expected)}
        elif run.name in expected['faults']:
            records += judge_run(run, [run.name], expected)
    for fault_id in sorted({record.fault for record in records}):
        of_fault = [record for record in records if record.fault == fault_id]
        doses = sorted({record.dose for record in of_fault}, key=number_in)
        cells = {dose: scores_of([record for record in of_fault if record.dose == dose]) for dose in doses}
        result['faults'][fault_id] = {
            'what': expected['faults'][fault_id]['what'], 'needs': expected['faults'][fault_id].get('needs'), 'doses': cells,
            'detection_limit': detection_limit([(cell['ratio'], cell['recall']) for cell in cells.values() if cell['ratio']]),
            'said_instead': instead_of(of_fault)}
    judged = [record for record in records if is_judged(record, expected)]
    result['all'] = scores_of(judged)
    for name in sorted({control.name for control in controls}):
        of_name = [control for control in controls if control.name == name]
        result['controls'][name] = {'what': expected['controls'][name]['what'], **control_scores(of_name)}
    result['all_controls'] = control_scores(controls)
    claims = [(confidence, is_right) for one in [*judged, *controls]
              for blame, confidence, is_right in zip(one.named, one.confidences, one.right) if blame != UNEXPLAINED]
    result['calibration'], result['calibration_error'] = calibration_of(claims)
    result['findings'] = score_findings(runs, expected)
    result['proof'] = score_proof(runs, expected)
    verdicts = [verdict for run in runs for verdict in run.verdicts.values()]
    result['verdicts'], result['do_not_add_up'] = len(verdicts), sum(map(does_not_add_up, verdicts))
    return result


def score_proof(runs: Sequence[Run], expected: Dict[str, Any]) -> Dict[str, Any]:
    """For causes that only the server's own lines can prove: the share proved by them, and the share that another request's lines would
    prove. Lines that fit any request would prove nothing."""
    own, others = [], []
    for run in runs:
        if run.name not in expected['controls'] and run.name not in expected['faults']:
            continue
        blames = {blame for truth in expected['truths'] for blame in truth['blames']}
        blames -= set(expected['faults'].get(run.name, {'blames': []})['blames'])
        requests = sorted(run.verdicts)
        for i, request in enumerate(requests):
            other = requests[(i + len(requests) // 2) % len(requests)]
            causes = [cause for cause in run.verdicts[request]['causes'] if cause['blame'] in blames]
            own += [is_true(cause, run.injections.get(request, []), expected) for cause in causes]
            others += [is_true(cause, run.injections.get(other, []), expected) for cause in causes]
    return {'causes': len(own), 'own': share(own), 'others': share(others)}


def instead_of(records: Sequence[Record]) -> Dict[str, int]:
    """The causes named first if the right one was not named."""
    said: Dict[str, int] = defaultdict(int)
    for record in records:
        if not record.is_named:
            said[record.named[0] if record.named else '(nothing)'] += 1
    return dict(sorted(said.items(), key=lambda item: -item[1]))


def control_scores(controls: Sequence[Control]) -> Dict[str, Any]:
    accused = [control for control in controls if control.is_falsely_accused]
    slowest = sorted(controls, key=lambda control: -control.latency_ns)[:max(1, len(controls) // 100)] if controls else []
    named: Dict[str, int] = defaultdict(int)
    for control in accused:
        for blame in [blame for blame, is_right in zip(control.named, control.right) if not is_right] or ['uniform']:
            named[blame] += 1
    claims = [is_right for control in slowest for is_right in control.right]
    low, high = wilson(len(accused), len(controls))
    return {'requests': len(controls), 'named': sum(control.is_accused for control in controls), 'false': len(accused),
            'false_per_100': 100 * (share([control.is_falsely_accused for control in controls]) or 0.0),
            'interval_per_100': (100 * low, 100 * high), 'false_of': dict(sorted(named.items(), key=lambda item: -item[1])),
            'slowest': len(slowest), 'slowest_named': len(claims), 'slowest_right': sum(claims),
            'slowest_kinds': {kind: sum(c.kind == kind for c in slowest) for kind in sorted({c.kind for c in slowest})}}
