#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores what Pitot said of faults in a stock vLLM on a GPU (vllm_plugin/driver.py struck them and wrote the truth).

usage: tools/accuracy/vllm_board.py FOLDER...

Each folder is one run. A fault counts if it had an effect: the load's worst gap between two tokens was longer than usual by EFFECT_MS.
Its incident is the one in its time that is nearest to the end of that gap. Three outcomes. Right: the verdict's root is in RIGHT of the
fault. Undetermined: it says so, or it is true and names no root (OPEN). Wrong: the rest.
"""

import argparse
import datetime
import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set

import roots
import score

EFFECT_MS, EFFECT_S = 10.0, 1.5
RIGHT, UNDETERMINED, WRONG, NO_INCIDENT, NO_VERDICT = roots.RIGHT, roots.UNDETERMINED, roots.WRONG, 'no incident', 'no verdict'
NOBODY, ANYBODY, GUILTY = 'nobody', 'anybody', 'guilty'


class Answer(NamedTuple):
    """An accepted answer. Empty fields accept all."""
    blames: Sequence[str] = ()
    kinds: Sequence[str] = ()  # of the root's node; more_work, uniform: the verdict's
    whose: str = ANYBODY  # guilty: the log's requests; nobody: no request
    names: str = ''  # a pattern for the culprit: a thread, a function
    place: str = ''  # a pattern for the root's scope, call or stack
    advice: Sequence[str] = ()


# Fixed before any run was scored.
FOR_GUILTY = Answer(blames=('executor_busy', 'queue_wait_others', 'gpu_queue_wait_others', 'gpu_contention', 'gpu_exec_expected',
                            'host_oncpu_framework'), whose=GUILTY)
FIRST_USES = (Answer(blames=('lazy_load_jit',)), Answer(advice=('warm_up', 'load_early')))
GPU_AT_WORK = Answer(blames=('gpu_exec_expected', 'gpu_excess_unknown', 'host_blocked_unknown'), whose=NOBODY)
RIGHT_OF: Dict[str, Sequence[Answer]] = {
    'prompt_warm': (FOR_GUILTY,),
    'prompt_chunked': (FOR_GUILTY,),
    'prompt_new': (FOR_GUILTY, *FIRST_USES),
    'matmuls': (Answer(blames=('gpu_contention', 'gpu_queue_wait_others'), whose=NOBODY), Answer(names='embedder'), Answer(place='multiply')),
    'gc_in_schedule': (Answer(blames=('host_gc',)),),
    'gc_between': (Answer(blames=('host_gc',)),),
    'gil': (Answer(blames=('host_gil',), names=r'report-\d|crunch'),),
    'prompt_logprobs': (FOR_GUILTY, Answer(place='logprob')),
    'logprobs_jit': (*FIRST_USES, Answer(place=r'triton|compil|jit')),
    'sleep': (Answer(place=r'\bsleep|nanosleep|pause_between'),),
    'burst': (FOR_GUILTY, Answer(kinds=('load', 'several', 'more_work'))),
}
OPEN_OF: Dict[str, Sequence[Answer]] = {
    'prompt_warm': (GPU_AT_WORK,), 'prompt_chunked': (GPU_AT_WORK,), 'prompt_new': (GPU_AT_WORK,), 'matmuls': (GPU_AT_WORK,),
    'burst': (GPU_AT_WORK,), 'gc_in_schedule': (Answer(place='schedule', whose=NOBODY),), 'gil': (Answer(blames=('host_gil',), names='^$'),),
    'logprobs_jit': (FOR_GUILTY, Answer(blames=('host_oncpu_framework',), place='sample|execute', whose=NOBODY)),
}


class Fault(NamedTuple):
    kind: str
    at_s: float
    worst_at_s: float
    worst_ms: float
    typical_ms: float
    width: int
    guilty: Set[str]  # Pitot's ids
    seconds: float = 0.0  # of a quiet stretch


class Incident(NamedTuple):
    name: str
    at_s: float
    verdict: Optional[Dict[str, Any]]
    judged_s: float  # after it fired; 0: not known


class Judged(NamedTuple):
    fault: Fault
    incident: str
    outcome: str
    said: str
    confidence: float
    is_culprit_named: bool
    text: str


# ---- Reading

def read_ids(path: Path) -> Dict[str, List[str]]:
    """Pitot's ids by the driver's name of a request. vLLM makes "0_g7-1a2b3c4d" of "g7" for its first sequence."""
    ids: Dict[str, List[str]] = defaultdict(list)
    for line in path.read_text(encoding='utf-8').splitlines() if path.exists() else []:
        theirs, _, number = line.partition(' ')
        ids[re.sub(r'^\d+_|-\w+$', '', theirs)].append(number)
    return ids


def read_faults(folder: Path) -> List[Fault]:
    ids = read_ids(folder / 'ids.txt')
    lines = [json.loads(text) for text in (folder / 'faults.jsonl').read_text(encoding='utf-8').splitlines()]
    return [Fault(line['fault'], line['at_s'], line['worst_at_s'], line['worst_ms'], line['typical_ms'], line.get('width', 0),
                  {number for name in line.get('guilty', []) for number in ids.get(name, [])}, line.get('seconds', 0.0)) for line in lines]


def fired_at_s(report: str) -> float:
    found = re.search(r'^\s+time\s+(\S+ \S+) UTC', report, re.MULTILINE)
    if found is None:
        return 0.0
    return datetime.datetime.strptime(found.group(1), '%Y-%m-%d %H:%M:%S.%f').replace(tzinfo=datetime.timezone.utc).timestamp()


def read_incident(folder: Path) -> Incident:
    report, verdict, judged = folder / 'report.txt', folder / 'verdict.json', folder / 'judged.txt'
    at_s = fired_at_s(report.read_text(encoding='utf-8')) if report.exists() else 0.0
    judged_s = float(judged.read_text(encoding='utf-8').split()[0]) - at_s if judged.exists() else 0.0
    return Incident(folder.name, at_s, json.loads(verdict.read_text(encoding='utf-8')) if verdict.exists() else None, judged_s)


# ---- Judging

def places_of(verdict: Dict[str, Any], said: roots.Said) -> List[str]:
    """Scopes, calls and stacks of what the root's sentence is about."""
    paths = roots.paths_to(verdict['tree'], said.kind, said.blame) if verdict.get('tree') else []
    segments = [path[-1]['at'] for path in paths if path[-1].get('at')]
    for cause in (verdict['causes'] or verdict['largest'])[:1]:
        segments += [verdict['segments'][place] for place in cause['segments']]
    places = []
    for one in segments:
        stacks = one.get('stacks') or {}
        places += [one.get('event') or '', one.get('call') or '', stacks.get('place') or '', stacks.get('system_call') or '', *stacks.get('frames', [])]
    return [place for place in places if place]


def said_of(verdict: Dict[str, Any]) -> Optional[roots.Said]:
    """The root; if there is none, the largest part, which may have a place."""
    said = roots.said_by(verdict)
    if said is None and verdict['largest']:
        part = verdict['largest'][0]
        return roots.Said('part', part['blame'], 0, part['excess_ns'], 0.0, set(), part['excess_ns'], part['blame'], False)
    return said


def culprits_of(verdict: Dict[str, Any], said: roots.Said) -> Set[str]:
    """Also those named beside the root: threads and holders."""
    by = (verdict.get('root') or {}).get('by') or {}
    return said.whose | {by[field] for field in ('holder', 'event', 'gpu') if by.get(field)}


def fits(answer: Answer, verdict: Dict[str, Any], said: roots.Said, fault: Fault) -> bool:
    culprits, requests = culprits_of(verdict, said), {one for one in said.whose if re.fullmatch(r'[0-9a-f]{16}', one)}
    advice = (verdict.get('root') or {}).get('advice', {}).get('code', '')
    return ((not answer.blames or said.blame in answer.blames) and (not answer.kinds or said.kind in answer.kinds)
            and (not answer.advice or advice in answer.advice)
            and (answer.whose != GUILTY or bool(requests & fault.guilty)) and (answer.whose != NOBODY or not requests)
            and (not answer.names or any(re.search(answer.names, one) for one in culprits or {''}))
            and (not answer.place or any(re.search(answer.place, one) for one in places_of(verdict, said))))


def judge(fault: Fault, incident: Incident) -> Judged:
    verdict = incident.verdict
    if verdict is None:
        return Judged(fault, incident.name, NO_VERDICT, '', 0.0, False, '')
    said = said_of(verdict)
    if said is not None and any(fits(answer, verdict, said, fault) for answer in RIGHT_OF[fault.kind]):
        outcome = RIGHT
    elif verdict['verdict'] == 'undetermined' or said is None or roots.is_open(said) or (not said.is_explained and not said.whose):
        outcome = UNDETERMINED
    elif any(fits(answer, verdict, said, fault) for answer in OPEN_OF.get(fault.kind, ())):
        outcome = UNDETERMINED
    else:
        outcome = WRONG
    is_named = said is not None and bool(fault.guilty & said.whose)
    return Judged(fault, incident.name, outcome, roots.name_of(said), said.confidence if said else 0.0, is_named, verdict.get('summary', ''))


def has_effect(fault: Fault) -> bool:
    return fault.kind in RIGHT_OF and fault.worst_ms >= fault.typical_ms + EFFECT_MS


def incident_of(fault: Fault, incidents: Sequence[Incident]) -> Optional[Incident]:
    meanwhile = [one for one in incidents if fault.at_s <= one.at_s <= fault.at_s + EFFECT_S]
    return min(meanwhile, key=lambda one: abs(one.at_s - fault.worst_at_s), default=None)


def judge_run(faults: Sequence[Fault], incidents: Sequence[Incident]) -> List[Judged]:
    judged = []
    for fault in faults:
        if has_effect(fault):
            incident = incident_of(fault, incidents)
            judged.append(judge(fault, incident) if incident else Judged(fault, '', NO_INCIDENT, '', 0.0, False, ''))
    return judged


def counts_of(judged: Sequence[Judged]) -> Dict[str, Any]:
    outcomes = Counter(one.outcome for one in judged)
    with_culprit = [one for one in judged if one.fault.guilty]
    return {'faults': len(judged), **{name: outcomes[name] for name in (RIGHT, UNDETERMINED, WRONG, NO_INCIDENT, NO_VERDICT)},
            'sure_and_wrong': sum(one.outcome == WRONG and one.confidence >= roots.SURE for one in judged),
            'interval': score.wilson(outcomes[RIGHT], len(judged)), 'with_culprit': len(with_culprit),
            'culprit_named': sum(one.is_culprit_named for one in with_culprit),
            'said': dict(Counter(f'{one.outcome}: {one.said}' for one in judged).most_common())}


def quiet_of(faults: Sequence[Fault], incidents: Sequence[Incident]) -> List[Dict[str, Any]]:
    """Incidents after the warm-up outside the time of any fault; their truth is not known."""
    struck = [one for one in faults if one.kind in RIGHT_OF]
    begin_s = min(one.at_s for one in faults)
    rows = []
    for one in incidents:
        if one.at_s >= begin_s and not any(fault.at_s <= one.at_s <= fault.at_s + EFFECT_S for fault in struck):
            said = said_of(one.verdict) if one.verdict else None
            rows.append({'incident': one.name, 'said': roots.name_of(said), 'confidence': said.confidence if said else None,
                         'text': (one.verdict or {}).get('summary', '')})
    return rows


def score_runs(folders: Sequence[Path]) -> Dict[str, Any]:
    judged: List[Judged] = []
    quiet: List[Dict[str, Any]] = []
    delays: List[float] = []
    struck, quiet_s = 0, 0.0
    for folder in folders:
        faults, incidents = read_faults(folder), [read_incident(one) for one in sorted((folder / 'kept').glob('*'))]
        struck += sum(one.kind in RIGHT_OF for one in faults)
        quiet_s += sum(one.seconds for one in faults)
        judged += judge_run(faults, incidents)
        quiet += quiet_of(faults, incidents)
        delays += [one.judged_s for one in incidents if one.verdict and one.judged_s > 0]
    kinds = sorted({one.fault.kind for one in judged}, key=list(RIGHT_OF).index)
    return {'struck': struck, 'quiet_s': round(quiet_s, 1), 'all': counts_of(judged), 'kinds': {kind: counts_of([one for one in judged if one.fault.kind == kind]) for kind in kinds},
            'quiet': quiet, 'judged_after_s': {'median': quantile(delays, 0.5), 'p95': quantile(delays, 0.95), 'most': quantile(delays, 1.0)},
            'rows': [{'fault': one.fault.kind, 'at_s': one.fault.at_s, 'width': one.fault.width, 'worst_ms': one.fault.worst_ms,
                      'guilty': sorted(one.fault.guilty)[:3], 'incident': one.incident, 'outcome': one.outcome, 'said': one.said,
                      'confidence': one.confidence, 'text': one.text} for one in judged]}


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3) if ordered else 0.0


def markdown(scored: Dict[str, Any]) -> str:
    names = (RIGHT, UNDETERMINED, WRONG, 'sure_and_wrong', NO_INCIDENT, NO_VERDICT)
    lines = ['| fault | with an effect | right | undetermined | wrong | of these sure | no incident | no verdict | guilty request named |',
             '|---|---|---|---|---|---|---|---|---|']
    for kind, counts in [*scored['kinds'].items(), ('all', scored['all'])]:
        named = f'{counts["culprit_named"]} of {counts["with_culprit"]}' if counts['with_culprit'] else ''
        lines.append(f'| {kind} | {counts["faults"]} | ' + ' | '.join(str(counts[name]) for name in names) + f' | {named} |')
    low, high = scored['all']['interval']
    delays = scored['judged_after_s']
    lines += ['', f'{scored["struck"]} faults struck. Right: 95 % interval {100 * low:.0f} to {100 * high:.0f} %. '
              f'{len(scored["quiet"])} incidents outside of faults ({scored["quiet_s"]:.0f} s without). '
              f'Judged after {delays["median"]} s (p95 {delays["p95"]}, at most {delays["most"]}).', '']
    lines += [f'* {row["outcome"]}: {row["fault"]} at {row["width"]}, {row["worst_ms"]:.1f} ms: {row["said"]} ({row["confidence"]:.2f}): {row["text"]}'
              for row in scored['rows'] if row['outcome'] != RIGHT]
    lines += [f'* outside: {row["said"]}: {row["text"]}' for row in scored['quiet']]
    return '\n'.join(lines) + '\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folders', nargs='+', type=Path, metavar='FOLDER', help='the --out of vllm_plugin/driver.py')
    parser.add_argument('--json', type=Path, help='write the score there, too')
    options = parser.parse_args()
    folders = [one for one in options.folders if (one / 'faults.jsonl').exists()]
    if not folders:
        print('vllm_board: no faults.jsonl in these folders', file=sys.stderr)
        return 1
    scored = score_runs(folders)
    if options.json:
        options.json.write_text(json.dumps(scored, indent=1), encoding='utf-8')
    print(markdown(scored))
    return 0


if __name__ == '__main__':
    sys.exit(main())
