# SPDX-License-Identifier: Apache-2.0
"""Writes a score as Markdown."""

from typing import Any, Dict, List, Optional, Sequence


def percent(share: Optional[float]) -> str:
    return '' if share is None else f'{100 * share:.0f} %'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> List[str]:
    return ['| ' + ' | '.join(heads) + ' |', '|' + '---|' * len(heads), *('| ' + ' | '.join(row) + ' |' for row in rows), '']


def fault_row(name: str, what: str, dose: str, scores: Dict[str, Any], limit: str) -> List[str]:
    low, high = scores['recall_interval']
    return [name, what, dose, '' if not scores['ratio'] else f'{scores["ratio"]:.2f}', str(scores['requests']),
            f'{percent(scores["recall"])} ({100 * low:.0f} to {100 * high:.0f})', percent(scores['precision']), percent(scores['top1']),
            percent(scores['top1_alone']), percent(scores['top3']), percent(scores['blame_error']), percent(scores['culprit']),
            percent(scores['abstained']), limit]


FAULT_HEADS = ('', 'fault', 'dose', 'of typical', 'requests', 'recall, %', 'precision', 'top 1', 'alone', 'top 3', 'blame error', 'culprit',
               'abstained', 'found from')


def counted(counts: Dict[str, int]) -> str:
    return ', '.join(f'{name} {count}' for name, count in counts.items())


def markdown(score: Dict[str, Any]) -> str:
    lines: List[str] = []
    rows = []
    for name, fault in score['faults'].items():
        for i, (dose, scores) in enumerate(fault['doses'].items()):
            needs = f' (needs {fault["needs"]})' if fault['needs'] else ''
            rows.append(fault_row(name if i == 0 else '', fault['what'] + needs if i == 0 else '', dose, scores,
                                  (fault['detection_limit'] or '') if i == 0 else ''))
    rows.append(fault_row('all', 'from 0.25 of typical latency on', '', score['all'], ''))
    lines += table(FAULT_HEADS, rows)
    missed = [[name, percent(1 - sum(cell['recall'] * cell['requests'] for cell in fault['doses'].values()) /
                             max(1, sum(cell['requests'] for cell in fault['doses'].values()))), counted(fault['said_instead'])]
              for name, fault in score['faults'].items() if fault['said_instead']]
    lines += table(('', 'missed', 'named first instead'), missed)
    lines += roots_tables(score['roots']) if score.get('roots') else []
    rivals = list(score['all']['rivals'])
    lines += table(('right of struck requests', 'Pitot, first', *rivals),
                   [[name, percent(whole['top1_alone']), *(percent(whole['rivals'][rival]) for rival in rivals)] for name, whole in
                    [*((name, combined(fault['doses'].values())) for name, fault in score['faults'].items()), ('all', score['all'])]])
    if score['pairs']:
        lines += table(('two at once', '', 'requests', 'both named', 'the larger first'),
                       [[name, pair['what'], str(pair['requests']), percent(pair['both_named']), percent(pair['in_order'])]
                        for name, pair in score['pairs'].items()])
    if score['lossy']:
        lines += table(('unreliable', '', 'requests', 'marked', 'undetermined', 'causes of 0.8 and more', 'of these wrong'),
                       [[name, lossy['what'], *(str(lossy[key]) for key in ('requests', 'lossy', 'undetermined', 'sure', 'sure_and_wrong'))]
                        for name, lossy in score['lossy'].items()])
    lines += table(('control', '', 'requests', 'with a cause', 'false', 'false of 100 (95 %)', 'false causes', 'slowest 1 %', 'causes, true'),
                   [[name, c['what'], str(c['requests']), str(c['named']), str(c['false']),
                     f'{c["false_per_100"]:.1f} ({c["interval_per_100"][0]:.1f} to {c["interval_per_100"][1]:.1f})', counted(c['false_of']),
                     counted(c['slowest_kinds']), f'{c["slowest_right"]} of {c["slowest_named"]}']
                    for name, c in [*score['controls'].items(), ('all', {'what': '', **score['all_controls']})]])
    lines += findings_table(score['findings'])
    for rows, show in ((score.get('versions'), versions_table), (score.get('unrecorded'), unrecorded_table),
                       (score.get('coverage'), coverage_table), (score.get('ablation'), ablation_table)):
        lines += show(rows) if rows else []
    lines += table(('confidence', 'right', 'causes'), [[f'{row["confidence"]:.2f}', percent(row['right']), str(row['causes'])]
                                                       for row in score['calibration']])
    error = score['calibration_error']
    lines.append(f'Expected calibration error: {"unknown" if error is None else f"{error:.2f}"}. '
                 f'{score["verdicts"]} verdicts; {score["do_not_add_up"]} do not add up.')
    proof = score['proof']
    lines += ['', f'{proof["causes"]} causes can be proved only by lines of the server: {percent(proof["own"])} are proved by the request\'s own '
              f'lines; the lines of another request would prove {percent(proof["others"])}.']
    lines += notes_of(score)
    return '\n'.join(lines) + '\n'


def notes_of(score: Dict[str, Any]) -> List[str]:
    """Warnings if the numbers are not those of a whole board with a table fixed in advance."""
    notes = []
    if score.get('left_out'):
        notes.append(f'**Not all of the board**: there was no time for {", ".join(score["left_out"])}.')
    if score.get('is_rejudged') or score.get('is_frozen') is False:
        changed = ['verdicts'] * bool(score.get('is_rejudged')) + ['the right answers'] * (score.get('is_frozen') is False)
        notes.append(f'**Not frozen**: {" and ".join(changed)} changed after these runs had begun.')
    return [line for note in notes for line in ('', note)]


def root_row(name: str, counts: Dict[str, Any]) -> List[str]:
    low, high = counts['interval']
    total, named = counts['requests'], counts['named']
    return [name, str(total), f'{percent(counts["right"] / total if total else None)} ({100 * low:.0f} to {100 * high:.0f})',
            percent(counts['undetermined'] / total if total else None), percent(counts['wrong'] / total if total else None),
            f'{counts["named_right"]} of {named}', str(counts['sure_and_wrong']), counted(counts['instead'])]


def roots_tables(roots: Dict[str, Any]) -> List[str]:
    """The roots of struck requests, false ones of controls, and some failures to look up."""
    lines = table(('root', 'struck', 'right', 'undetermined', 'wrong', 'right of those named', 'wrong at 0.5 and more', 'instead'),
                  [root_row(name, counts) for name, counts in [*roots['faults'].items(), ('all', roots['all'])]])
    lines += table(('root, control', 'requests', 'named and proved', 'false', 'false of 100', 'false at 0.5 and more', 'which'),
                   [[name, str(counts['requests']), str(counts['right']), str(counts['wrong']),
                     f'{100 * counts["wrong"] / max(1, counts["requests"]):.1f}', str(counts['sure_and_wrong']),
                     counted({what: count for what, count in counts['instead'].items() if what.startswith('wrong')})]
                    for name, counts in [*roots['controls'].items(), ('all', roots['all_controls'])]])
    shown: Dict[str, int] = {}
    rows = []
    for one in roots['failures']:
        key = f'{one["run"]} {one["outcome"]} {one["said"]}'
        shown[key] = shown.get(key, 0) + 1
        if shown[key] == 1:
            confidence = '' if one['confidence'] is None else f'{one["confidence"]:.2f}'
            rows.append([one['run'], one['request'], f'{one["injected_ns"] / 1e6:.2f}', one['outcome'], confidence, one['text']])
    return lines + table(('failure', 'request', 'injected, ms', 'root', 'confidence', 'sentence'), rows)


def findings_table(findings: Dict[str, Any]) -> List[str]:
    """The catalogue's findings. An analyzer without findings, actual or required, has no row."""
    def row(name: str, cell: Dict[str, Any]) -> List[str]:
        others = cell['said'] - cell['always']
        return [name, str(cell['said']), str(cell['true']), percent(cell['precision']), str(cell['always'] or ''),
                f'{cell["true"] - cell["always"]} of {others}' if others else '', f'{cell["silent_true"]} of {cell["silent"]}' if cell['silent'] else '',
                str(cell['false_on_controls']), counted(cell['false_of']),
                f'{cell["found"]} of {cell["expected"]}' if cell['expected'] else '']
    cells = [*findings['analyzers'].items(), *([('all', findings['all'])] if findings['all'] else [])]
    return table(('analyzer', 'findings', 'true', 'precision', 'true of every run', 'others, true', 'silent, true',
                  f'false on {findings["controls"]} controls', 'false of', 'faults found'),
                 [row(name, cell) for name, cell in cells])


def yes(flag: Optional[bool]) -> str:
    return '' if flag is None else 'yes' if flag else '**no**'


def ms(value: Optional[float]) -> str:
    return '' if value is None else f'{value:.2f}'


def versions_table(versions: Dict[str, Any]) -> List[str]:
    """The results of `pitot diff` on two versions."""
    return table(('two versions', '', 'outcome', 'right', 'by gates', 'row', 'its effect', 'named right'),
                 [[name, one['what'], one['outcome'], yes(one['is_right']), ', '.join(one['gates']), one['row'] or '',
                   ', '.join(one['effects']), yes(one['is_named'])] for name, one in versions.items()])


def unrecorded_table(rows: Sequence[Dict[str, Any]]) -> List[str]:
    """Medians in ms, from the load generator, except for the diagnosed excess."""
    measured = ('usual_off_ms', 'usual_on_ms', 'excess_off_ms', 'excess_on_ms', 'diagnosed_ms')
    return table(('recorded and not, ms', 'dose', 'requests, off', 'on', 'usual, off', 'on', 'excess, off', 'on', 'diagnosed',
                  'within 5 % or 0.5 ms of off', 'of on'),
                 [[row['fault'], row['dose'], str(row['requests']), str(row['recorded_requests']), *(ms(row[one]) for one in measured),
                   yes(row['agrees']), yes(row['agrees_on'])] for row in rows])


def coverage_table(rows: Dict[str, Any]) -> List[str]:
    return table(('kernels of struck requests', '', 'requests', 'covered to 80 %', '', 'no GPU time', 'by events', 'counters'),
                 [[name, row['what'], str(row['requests']), str(row['covered']),
                   percent(row['covered'] / row['requests'] if row['requests'] else None),
                   str(row['without']), str(row['by_events']), str(row['sampled'])]
                  for name, row in rows.items()])


def ablation_table(rows: Sequence[Dict[str, Any]]) -> List[str]:
    shares = ('recall', 'precision', 'top1', 'abstained')
    return table(('without', 'requests', 'recall', 'precision', 'top 1', 'abstained', 'causes', 'mean confidence', 'of 0.8 and more',
                  'of these wrong'),
                 [[row['without'] or '(whole)', str(row['requests']), *(percent(row[share]) for share in shares), str(row['causes']),
                   ms(row['confidence']), str(row['sure']), str(row['sure_and_wrong'])] for row in rows])


def combined(cells: Any) -> Dict[str, Any]:
    """Shares over the doses of a fault."""
    cells = list(cells)
    total = max(1, sum(cell['requests'] for cell in cells))

    def mean(of: Any) -> float:
        return sum((of(cell) or 0.0) * cell['requests'] for cell in cells) / total
    return {'top1_alone': mean(lambda cell: cell['top1_alone']),
            'rivals': {name: mean(lambda cell, name=name: cell['rivals'].get(name)) for name in (cells[0]['rivals'] if cells else ())}}
