#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the data block of pages of `pitot view` as docs/reference/formats/view.md has it: it is what `pitot top` counts."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from pages import HOSTILE, TABLES, Block, Wrong, check, policy_of, pytorch_trace, top, view

KINDS = {'scope': (0, 1, 2), 'call': (4, 5), 'kernel': (6, 7, 8, 9)}


def check_block(pitot: str, trace: Path, page: Path) -> Block:
    block = Block(page)
    head = block.head
    check(block.rest == sum(head['columns'].values()), 'the columns do not fill the block')
    check(head['items'] == sum(lane['items'] for lane in head['lanes']), 'the lanes do not hold all items')
    for by in TABLES:
        found, window = {}, head['files'][0]['window']
        for name, kind, begin, end, known in block.items():
            from_ns = max(known, window[0]) if by == 'scope' else window[0]
            if kind in KINDS[by] and begin < window[1] and (begin >= from_ns or end > from_ns):
                count, ns = found.get(name, (0, 0))
                found[name] = (count + 1, ns + min(end, window[1]) - max(begin, from_ns))
        # Scopes and calls may be within their like. Then only the page can add up their time.
        parts = 2 if by == 'kernel' else 1
        expected = {name: tuple(row[:parts]) for name, row in top(pitot, trace, by).items()}
        found = {name: row[:parts] for name, row in found.items()}
        check(found == expected, f'{trace}: by {by}: pitot top has {expected}, the page {found}')
    return block


def check_lines(block: Block) -> None:
    """No two items of a line overlap."""
    ends, first = {}, 0
    items = list(block.items())
    levels = block.column('level', len(items))
    for number, lane in enumerate(block.head['lanes']):
        for i in range(first, first + lane['items']):
            _, _, begin, end, _ = items[i]
            if levels[i] == 254:
                continue
            check(ends.get((number, levels[i]), begin) <= begin, f'items of {lane["name"]} overlap on line {levels[i]}')
            ends[number, levels[i]] = end
        first += lane['items']


def check_untrusted(page: Path) -> None:
    text = page.read_text(encoding='utf-8')
    check("default-src 'none'" in policy_of(page) and 'unsafe' not in policy_of(page), f'the policy is {policy_of(page)}')
    check(HOSTILE not in text and '<img' not in text, 'a name of the trace is in the page as it is')
    for word in ('innerHTML', 'outerHTML', 'insertAdjacentHTML', 'document.write', 'eval('):
        check(word not in text, f'the script makes markup or code of text: {word}')


def check_launches(block: Block, count: int) -> None:
    """A launch and its kernel know each other."""
    items = list(block.items())
    causes, last = [], 0
    for value in block.column('cause', len(items)):
        last += block.unzigzag(value - 1) if value else 0
        causes.append(last if value else None)
    launches = {6: ('cudaLaunchKernel', 20_000), 7: ('cudaMemcpyAsync', 10_000)}  # and how long before, in ns
    work = [i for i, item in enumerate(items) if item[1] in launches]
    check(len(work) == count and all(causes[i] is not None for i in work), 'a kernel or copy has no launch')
    for i in work:
        launch = items[causes[i]]
        check((launch[0], items[i][2] - launch[2]) == launches[items[i][1]], f'{items[i]} was launched by {launch}')


def check_answers(pitot: str, folder: Path) -> None:
    """Exit codes: an empty trace, a damaged one, and a page in place of its trace."""
    def run(*arguments):
        return subprocess.run([pitot, 'view', *map(str, arguments)], capture_output=True, check=False, cwd=folder)
    empty = folder / 'empty.json'
    empty.write_text('{"schemaVersion": 1, "traceEvents": []}', encoding='utf-8')
    check(run(empty).returncode == 1 and not (folder / 'empty.html').exists(), 'an empty trace made a page')
    damaged = folder / 'damaged.json'
    damaged.write_text(json.dumps(pytorch_trace(3))[:-400], encoding='utf-8')
    check(run(damaged).returncode == 4, 'a damaged trace is not told')
    check(Block(folder / 'damaged.html').head['files'][0]['damaged'] is True, 'the page does not tell of the damage')
    check(run(damaged, '-o', damaged).returncode == 2, 'a page replaced its own trace')
    check(run(folder / 'missing.json').returncode == 3, 'a missing file is not told')
    check(run(damaged, '-o', folder / 'no' / 'page.html').returncode == 6, 'a page that cannot be written is not told')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--pitot', required=True)
    parser.add_argument('--dump', type=Path, required=True)
    parser.add_argument('traces', type=Path, nargs='*')
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix='pitot-view-') as name:
            folder = Path(name)
            own = folder / 'own.json'
            own.write_text(json.dumps(pytorch_trace(20)), encoding='utf-8')
            for trace in (own, args.dump, *args.traces):
                page = view(args.pitot, folder / 'page.html', trace)
                block = check_block(args.pitot, trace, page)
                check_lines(block)
                check_untrusted(page)
                if trace == own:
                    check_launches(block, 40)
                    check_launches(Block(view(args.pitot, page, own, own)), 80)
            check_answers(args.pitot, folder)
    except Wrong as wrong:
        print(f'check_data: {wrong}', file=sys.stderr)
        return 1
    print('check_data: the pages hold what was recorded')
    return 0


if __name__ == '__main__':
    sys.exit(main())
