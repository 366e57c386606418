# SPDX-License-Identifier: Apache-2.0
"""Scores the root named by the verdict's sentence: the fault, and its owner (docs/reference/why.md).

Three outcomes. Right: it is the injected fault of the injected culprit, or something that took at least as long and that log lines
prove. Undetermined: it says so, or names nobody's work but a wait whose cause it leaves open ("behind a batch"), truly. Wrong: the rest.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set

import score

RIGHT, UNDETERMINED, WRONG = 'right', 'undetermined', 'wrong'
SURE = 0.5  # a wrong root of this confidence or more misleads
OPEN_KINDS = {'unexplained', 'rest'}  # these say that something is not known
NEXT_HOPS = {'batch', 'request', 'thread', 'gpu_work', 'backlog', 'several', 'cycle'}  # whom, and not why


class Said(NamedTuple):
    """The root named by a verdict's sentence."""
    kind: str  # of the tree's node; uniform and more_work: the verdict's
    blame: str
    hops: int
    excess_ns: int
    confidence: float
    whose: Set[str]  # requests, threads, and the holder of an interpreter with its function
    longest_ns: int  # the excess of the named leaf; the root may have more of its kind
    wait: str  # the blame of the request's own part that led there
    is_explained: bool


class Judged(NamedTuple):
    run: str
    request: str
    injected_ns: int
    said: Optional[Said]
    outcome: str
    text: str


def paths_to(node: Dict[str, Any], kind: str, blame: str) -> List[List[Dict[str, Any]]]:
    """The ways from the tree's first node to those of this kind and blame."""
    found = [[node]] if (node['kind'], node.get('blame', '')) == (kind, blame) else []
    return found + [[node, *path] for child in node.get('children', []) for path in paths_to(child, kind, blame)]


def hops_of(path: List[Dict[str, Any]]) -> int:
    return sum(one['kind'] in NEXT_HOPS for one in path)


def said_by(verdict: Dict[str, Any]) -> Optional[Said]:
    """None: the sentence names no root."""
    root, kind = verdict.get('root'), verdict['verdict']
    if kind in ('uniform', 'more_work'):
        excess_ns = verdict['latency_ns'] - verdict['typical_ns']
        return Said(kind, '', 0, excess_ns, root['confidence'] if root and kind == 'uniform' else 1.0, set(), excess_ns, '', True)
    if kind not in ('causes', 'undetermined') or (root is None and not verdict['causes']):
        return None
    if root is None:
        cause = verdict['causes'][0]
        return Said('part', cause['blame'], 0, cause['excess_ns'], cause['confidence'], set(), cause['excess_ns'], cause['blame'],
                    kind != 'undetermined')
    paths = [path for path in paths_to(verdict['tree'], root['kind'], root['blame'] or '') if hops_of(path) == root['hops']]
    path = max(paths, key=lambda one: one[-1]['excess_ns'], default=[{}])
    wait = path[1].get('blame', '') if len(path) > 1 else root['blame'] or ''
    nearest = next((score.whose_is(one['by']) for one in reversed(path) if one.get('by') and one['kind'] != 'part'), set())
    return Said(root['kind'], root['blame'] or '', root['hops'], root['excess_ns'], root['confidence'], score.whose_is(root.get('by')) | nearest,
                path[-1].get('excess_ns', root['excess_ns']), wait, path[-1].get('is_explained', True))


def is_open(said: Optional[Said]) -> bool:
    return said is None or said.kind in OPEN_KINDS or said.blame == score.UNEXPLAINED


def is_fault(said: Optional[Said], verdict: Dict[str, Any], fault: Dict[str, Any], culprits: Set[str]) -> bool:
    """Whether it names the fault, and whose it is where the log names somebody."""
    right = fault.get('root', {})
    kinds, blames = set(right.get('kinds', fault.get('kinds', []))), set(right.get('blames', fault['blames']))
    if said is None or (is_open(said) and (said.kind in OPEN_KINDS or said.blame not in blames)):
        return 'undetermined' in kinds
    # The sentence has more work first if it explains more than the root.
    if 'more_work' in kinds and said is not None and verdict.get('more_work', {}).get('more_ns', 0) > said.excess_ns:
        return True
    # A part made of the fault's work is right if the sentence says what there was more of.
    if verdict.get('more_work', {}).get('of') in fault.get('more_of', ()):
        kinds.add('more_work')
        blames |= set(fault.get('made_of', ()))
    if said.kind in kinds and fault.get('clocks', '') in verdict.get('clocks', ''):
        return True
    if said.kind in NEXT_HOPS and said.kind not in right.get('of', ()):
        return False
    if said.kind not in ('part', *right.get('of', ())) or said.blame not in blames:
        return False
    if right.get('is_others', False):
        return bool(said.whose & culprits)
    return said.hops == 0 or right.get('is_shared', fault.get('strikes') == 'meanwhile')


def lines_prove(blame: str, excess_ns: int, lines: Iterable[score.Injection], expected: Dict[str, Any]) -> bool:
    return score.is_true({'blame': blame, 'excess_ns': excess_ns}, lines, expected)


def is_proved(said: Said, run: score.Run, request: str, least_ns: int, expected: Dict[str, Any]) -> bool:
    """Whether log lines prove the root: those of the request for the wait, with at least so much time, and those of the culprit for
    the reason."""
    own = [one for one in run.injections.get(request, []) if one.injected_ns >= max(1, least_ns)]
    if not lines_prove(said.wait, said.excess_ns, own, expected):
        return False
    if said.kind == 'load':
        faults = {fault['injector'] for fault in expected['faults'].values()} - {truth['injector'] for truth in expected['truths']}
        ahead = set().union(*(one.culprits for one in own))
        lines = [line for other in ahead - {request} for line in run.injections.get(other, [])]
        return not any(line.injector in faults and line.injected_ns > 0 for line in lines)
    if said.kind != 'part':
        return False
    return said.hops == 0 or any(lines_prove(said.blame, said.longest_ns, run.injections.get(other, []), expected)
                                 for other in said.whose)


def outcome_of(said: Optional[Said], run: score.Run, request: str, least_ns: int, expected: Dict[str, Any]) -> str:
    """Judges another root than the fault."""
    if said is None or (is_open(said) and (said.hops == 0 or said.kind in OPEN_KINDS)):
        return UNDETERMINED
    if is_proved(said, run, request, least_ns, expected):
        return RIGHT
    behind = [one for one in run.injections.get(request, [])
              if said.hops != 1 or not one.culprits or not said.whose or one.culprits & said.whose]
    is_wait_true = lines_prove(said.wait, said.excess_ns, behind, expected)
    return UNDETERMINED if is_wait_true and (said.kind in NEXT_HOPS or not said.is_explained or is_open(said)) else WRONG


def judge(run: score.Run, request: str, injection: score.Injection, fault: Dict[str, Any], expected: Dict[str, Any]) -> Judged:
    verdict = run.verdicts[request]
    said = said_by(verdict)
    outcome = (RIGHT if is_fault(said, verdict, fault, injection.culprits)
               else outcome_of(said, run, request, injection.injected_ns, expected))
    return Judged(run.name, request, injection.injected_ns, said, outcome, verdict.get('summary', ''))


def judged_of(run: score.Run, expected: Dict[str, Any]) -> List[Judged]:
    """The struck requests of a fault's run that count (score.is_judged)."""
    fault = expected['faults'][run.name]
    judged = []
    for request, injections in run.injections.items():
        verdict = run.verdicts.get(request)
        for injection in injections:
            if injection.injector != fault['injector'] or verdict is None or not score.is_struck(verdict, injection, fault):
                continue
            if not fault.get('needs') and score.is_large(injection.injected_ns, verdict['typical_ns']):
                judged.append(judge(run, request, injection, fault, expected))
    return judged


def control_of(run: score.Run, expected: Dict[str, Any]) -> List[Judged]:
    judged = []
    for request, verdict in run.verdicts.items():
        said = said_by(verdict)
        judged.append(Judged(run.name, request, 0, said, outcome_of(said, run, request, 0, expected), verdict.get('summary', '')))
    return judged


def counts_of(judged: Sequence[Judged]) -> Dict[str, Any]:
    right = sum(one.outcome == RIGHT for one in judged)
    wrong = [one for one in judged if one.outcome == WRONG]
    sure = sum(one.said is not None and one.said.confidence >= SURE for one in wrong)
    named = [one for one in judged if not is_open(one.said) and one.outcome != UNDETERMINED]
    instead: Dict[str, int] = defaultdict(int)
    for one in judged:
        if one.outcome != RIGHT:
            instead[f'{one.outcome}: {name_of(one.said)}'] += 1
    return {'requests': len(judged), 'right': right, 'wrong': len(wrong), 'undetermined': len(judged) - right - len(wrong),
            'named': len(named), 'named_right': sum(one.outcome == RIGHT for one in named), 'sure_and_wrong': sure,
            'interval': score.wilson(right, len(judged)),
            'instead': dict(sorted(instead.items(), key=lambda item: -item[1]))}


def name_of(said: Optional[Said]) -> str:
    if said is None:
        return '(no root)'
    return said.kind if said.kind != 'part' else said.blame + (f' behind {said.wait}' if said.hops else '')


def score_roots(runs: Sequence[score.Run], expected: Dict[str, Any]) -> Dict[str, Any]:
    faults = {run.name: judged_of(run, expected) for run in runs if run.name in expected['faults']}
    controls = {run.name: control_of(run, expected) for run in runs if run.name in expected['controls']}
    struck = [one for of_run in faults.values() for one in of_run]
    free = [one for of_run in controls.values() for one in of_run]
    failures = [one for one in struck if one.outcome != RIGHT] + [one for one in free if one.outcome == WRONG]
    return {'faults': {name: counts_of(judged) for name, judged in faults.items() if judged}, 'all': counts_of(struck),
            'controls': {name: counts_of(judged) for name, judged in controls.items()}, 'all_controls': counts_of(free),
            'failures': [{'run': one.run, 'request': one.request, 'injected_ns': one.injected_ns, 'outcome': one.outcome, 'said': name_of(one.said),
                          'confidence': one.said.confidence if one.said else None, 'text': one.text} for one in failures]}


def write_failures(path: Path, scored: Dict[str, Any]) -> None:
    path.write_text(''.join(json.dumps(one) + '\n' for one in scored['failures']), encoding='utf-8')
