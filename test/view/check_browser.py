#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens pages of `pitot view` in a headless Chromium: what they draw and add up is what `pitot top` counts, to the ns."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from browser import ViewedPage
from pages import HOSTILE, TABLES, Wrong, check, pytorch_trace, top, view
from perfetto_wheel import EnvironmentProblem

SKIPPED = 77

# The sums of the whole trace, by title and name, as the page shows them.
SUMS = '''() => {
  page.selectAll();
  const named = (rows) => Object.fromEntries(rows.map((row) => [page.data.strings[row.name], [row.count, row.total, row.self]]));
  return Object.fromEntries(sumsOf(page.data, page.data.lanes, page.data.windowBegin, page.data.windowEnd)
    .map(({title, rows}) => [title, named(rows)]));
}'''


def check_sums(opened: ViewedPage, pitot: str, trace: Path) -> None:
    sums = opened.ask(SUMS)
    for by, title in TABLES.items():
        expected, found = top(pitot, trace, by), sums.get(title, {})
        for name in sorted(expected.keys() | found.keys()):
            check(expected.get(name) == found.get(name),
                  f'{trace}: by {by}, {name}: pitot top has {expected.get(name)}, the page {found.get(name)}')
    shown = opened.ask('() => document.querySelectorAll("#sums tr").length')
    check(shown > 2, 'the panel shows no sums')


def check_drawn(opened: ViewedPage) -> None:
    """Each visible line has colour where its items are, and the page's background elsewhere."""
    opened.drawn()
    wrong = opened.ask('''() => {
      const {timeline, data} = page, {context, ratio} = timeline, wrong = [];
      const all = context.getImageData(0, 0, timeline.canvas.width, timeline.canvas.height);
      const hex = timeline.theme.page.length === 4 ? timeline.theme.page.replace(/[^#]/g, '$&$&') : timeline.theme.page;
      const [empty, grey] = [hex, timeline.theme.line].map((text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)));
      for (const part of timeline.parts) {
        if (part.type !== 'lane' || part.line !== lineHeight) continue;
        for (let row = 0; row < part.lane.rows.length; ++row) {
          const y = part.y - timeline.scroller.scrollTop + rulerHeight + row * part.line + 3;
          if (y < rulerHeight || y > timeline.shown - 4) continue;
          const [first, last] = part.lane.rows[row];
          const start = 4 * (Math.round(y * ratio) * all.width + timeline.left * ratio);
          const pixels = all.data.subarray(start, start + 4 * timeline.strip.width);
          const inked = new Uint8Array(timeline.strip.width);
          const per = (timeline.to - timeline.from) / inked.length;
          for (const file of data.files) {
            for (const [at] of file.firings) inked.fill(1, Math.max(0, timeline.xOf(at) - timeline.left - 3), timeline.xOf(at) - timeline.left + 4);
          }
          const is = (x, colour) => colour.every((value, k) => Math.abs(pixels[4 * x + k] - value) < 3);
          for (let place = first; place < last; ++place) {
            const from = (data.rowBegin[place] - timeline.from) / per, to = (data.rowEnd[place] - timeline.from) / per;
            for (let x = Math.max(0, Math.floor(from)); x <= Math.min(inked.length - 1, to); ++x) inked[x] = 1;
            const middle = Math.floor((from + to) / 2 - (to - from > 8 ? (to - from) / 2 - 2 : 0));
            if (to - from >= 3 && middle >= 0 && middle < inked.length && is(middle, empty)) wrong.push(`nothing at ${middle} of ${part.text}`);
          }
          for (let x = 0; x < inked.length; ++x) if (!inked[x] && !is(x, empty) && !is(x, grey)) wrong.push(`something at ${x} of ${part.text}`);
        }
      }
      return wrong.slice(0, 5);
    }''')
    check(not wrong, f'drawn and recorded differ: {wrong}')


def check_search(opened: ViewedPage, word: str, count: int) -> None:
    opened.key('/')
    opened.call('Input.insertText', opened.deadline, text=word)
    opened.key('Enter')
    opened.ask('() => document.getElementById("search").requestSubmit()')
    opened.drawn()
    found = opened.ask('() => [page.hitCount, document.getElementById("found").textContent, page.timeline.item]')
    check(found[0] == count, f'"{word}" was found {found[0]} times, not {count}')
    check(found[1].endswith(f' of {count:,}') and found[2] >= 0, f'the search says "{found[1]}"')
    before = found[2]
    opened.ask('() => page.step(1)')
    after = opened.ask('() => [page.timeline.item, page.data.begin[page.timeline.item] >= page.data.begin[arguments[0]]]'
                       .replace('arguments[0]', str(before)))
    check(count < 2 or (after[0] != before and (after[1] or count == 2)), 'the next match is the same, or earlier')
    opened.ask('() => page.step(-1)')
    check(opened.ask('() => page.timeline.item') == before, 'the previous match is another')
    opened.ask('() => { document.getElementById("query").blur(); page.keyDown({key: "Escape", target: document.body}); }')


def check_click(opened: ViewedPage) -> None:
    """The details of a kernel, with the arrow to its launch."""
    place = opened.ask('''() => {
      page.showAll();
      const item = page.data.kind.indexOf(Kind.kernel);
      page.reveal(item);
      const box = page.timeline.boxOf(item, page.timeline.scroller.scrollTop), canvas = page.timeline.canvas.getBoundingClientRect();
      return [item, canvas.left + box.x + box.width / 2, canvas.top + box.y + box.height / 2];
    }''')
    opened.drawn()
    opened.click(*place[1:])
    shown = opened.ask('() => [page.timeline.item, page.timeline.arrows, page.data.kind[page.timeline.arrows[0]?.[0]], document.getElementById("details").textContent]')
    check(shown[0] == place[0], f'a click on item {place[0]} chose {shown[0]}')
    check(len(shown[1]) == 1 and shown[1][0][1] == place[0] and shown[2] in (4, 5), f'the arrows are {shown[1]}')
    check('launched by' in shown[3] and 'gemm' in shown[3], f'the details are {shown[3]}')


def check_drag(opened: ViewedPage) -> None:
    """An area over all lanes, by the ruler, adds up what is in it."""
    box = opened.ask('() => { page.showAll(); const box = page.timeline.canvas.getBoundingClientRect(); '
                     'return [box.left + page.timeline.left, box.top, box.right]; }')
    opened.drawn()
    opened.drag(box[0] + 60, box[1] + 8, box[0] + 300, box[1] + 8)
    same = opened.ask('''() => {
      const {area} = page.timeline;
      const inside = (i) => Math.max(0, Math.min(page.data.end[i], area.to) - Math.max(page.data.begin[i], area.from));
      let ns = 0;
      for (let i = 0; i < page.data.count; ++i) if ([6, 7, 8, 9].includes(page.data.kind[i])) ns += inside(i);
      const rows = sumsOf(page.data, page.data.lanes, area.from, area.to).find(({title}) => title === 'GPU work').rows;
      return [ns, rows.reduce((sum, row) => sum + row.total, 0), document.getElementById('sums').hidden];
    }''')
    check(same[0] == same[1] > 0 and not same[2], f'GPU work in the area takes {same[0]} ns; the page says {same[1]}')


def check_moves(opened: ViewedPage) -> None:
    ask_view = '() => [page.timeline.from, page.timeline.to]'
    opened.ask('() => { page.showAll(); document.getElementById("scroll").focus(); }')
    before = opened.ask(ask_view)
    opened.key('w')
    near = opened.ask(ask_view)
    check(near[1] - near[0] < before[1] - before[0], 'W does not zoom in')
    opened.key('d')
    check(opened.ask(ask_view)[0] > near[0], 'D does not move on')
    opened.ask('() => document.getElementById("all").click()')
    box = opened.ask('() => { const box = page.timeline.canvas.getBoundingClientRect(); return [box.left + 400, box.top + 100]; }')
    opened.mouse('mouseWheel', *box, deltaX=0, deltaY=-200, modifiers=2)
    opened.drawn()
    check(opened.ask(ask_view)[1] < before[1], 'Ctrl and the wheel do not zoom in')


def check_counter(opened: ViewedPage) -> None:
    """A pixel shows the most of its samples, however many."""
    tops = opened.ask('''() => {
      const {timeline} = page, count = 400001, values = new Float64Array(count).fill(1), tops = [];
      const at = Float64Array.from({length: count}, (_, i) => timeline.from + (timeline.to - timeline.from) * i / count);
      values[123457] = 1000;
      const fake = Object.create(timeline, {context: {value: {fillRect: (x, y) => tops.push(y)}}});
      fake.drawCounter({at, values, least: 0, most: 1000}, 0);
      return [Math.min(...tops), tops.filter((y) => y < counterHeight / 2).length];
    }''')
    check(tops[0] < 8 and tops[1] == 2, f'one sample of 400,001 is higher, and the picture has {tops}')
    gap = opened.ask('''() => {
      const {timeline} = page, span = timeline.to - timeline.from, drawn = new Set();
      const at = Float64Array.from([0, 0.25, 0.5], (share) => timeline.from + span * share);
      const fake = Object.create(timeline, {context: {value: {fillRect: (x) => drawn.add(x)}}});
      fake.drawCounter({at, values: Float64Array.from([1, NaN, 2]), least: 0, most: 2}, 0);
      const width = timeline.width - timeline.left;
      return [0.1, 0.3, 0.45, 0.9].map((share) => drawn.has(timeline.left + Math.round(share * width)));
    }''')
    check(gap == [True, False, False, True], f'a gap is from a quarter to half, and drawn is {gap}')


def check_names(opened: ViewedPage) -> None:
    """Different names stay different when they are cut; the last is two names that differ in the middle only."""
    names = ['GPU 0 (NVIDIA H100 80GB HBM3): utilization', 'GPU 0 (NVIDIA H100 80GB HBM3): memory used',
             'GPU 0 (NVIDIA H100 80GB HBM3): time in SW thermal slowdown', 'GPU 0 (NVIDIA H100 80GB HBM3): time in HW thermal slowdown',
             'short', 'worker_process_number_one_rank0: thread 4711', 'worker_process_number_one_rank0: thread 4712',
             f'{"a" * 60}x{"b" * 60}', f'{"a" * 60}y{"b" * 60}']
    short = opened.ask(f'() => shortNames({json.dumps(names)}, (text) => text.length <= 28)')
    check(len(set(short)) == len(names) and max(map(len, short)) <= 28, f'the short names are {short}')
    check(short[4] == 'short' and short[0].endswith('utilization') and short[5].endswith('4711'), f'the short names are {short}')


def check_quiet(opened: ViewedPage) -> None:
    opened.drawn()
    check(not opened.complaints, f'the console has {opened.complaints}')
    outside = [url for url in opened.requests if not url.startswith(('file:', 'blob:'))]
    check(not outside and len(opened.requests) == 1, f'the page asked for {opened.requests}')


def check_page(pitot: str, trace: Path, folder: Path) -> None:
    page = view(pitot, folder / 'page.html', trace)
    opened = ViewedPage(page)
    try:
        check_drawn(opened)
        check_sums(opened, pitot, trace)
        check_quiet(opened)
    finally:
        opened.close()


def check_own(pitot: str, folder: Path) -> None:
    """All that a reader does, on a trace whose content is known."""
    trace = folder / 'own.json'
    trace.write_text(json.dumps(pytorch_trace(20)), encoding='utf-8')
    check_page(pitot, trace, folder)
    opened = ViewedPage(folder / 'page.html', is_dark=True)
    try:
        check_search(opened, 'gemm', 20)
        check_search(opened, HOSTILE[:12], 20)
        check_click(opened)
        check_drag(opened)
        check_moves(opened)
        check_counter(opened)
        check_names(opened)
        check_quiet(opened)
    finally:
        opened.close()
    two = view(pitot, folder / 'two.html', trace, trace)
    opened = ViewedPage(two)
    try:
        sums = opened.ask(SUMS)
        for by, title in TABLES.items():
            check({name: [2 * one for one in row] for name, row in top(pitot, trace, by).items()} == sums[title],
                  f'two files of the same trace do not count twice by {by}')
        facts = opened.ask('() => document.getElementById("facts").textContent')
        check(f'because {trace} and {trace} have no date' in facts, f'files without a date: {facts}')
        check_losses(opened)
        check_quiet(opened)
    finally:
        opened.close()


def check_losses(opened: ViewedPage) -> None:
    """Losses beyond those listed are counted."""
    text = opened.ask('() => { const [file] = page.data.files; file.losses = Array(1000).fill(["GPU", "overwritten", 0, 1]); '
                      'file.loss_count = 2345; return page.lossesOf()[1].lastChild.textContent; }')
    check(text.startswith('and 2,295 more of '), f'the last line of losses: {text}')


def check_verdict(pitot: str, dump: Path, folder: Path) -> None:
    """The tree of blame, whose lines lead to their evidence."""
    why = subprocess.run([pitot, 'why', '--json', str(dump)], capture_output=True, check=False)
    opened = ViewedPage(view(pitot, folder / 'page.html', dump))
    try:
        sentence = opened.ask('() => page.data.files[0].verdict.sentence ?? ""')
        check((why.returncode == 0) == bool(sentence), 'pitot why and the page disagree on whether there is a verdict')
        if sentence:
            check(json.loads(why.stdout)['summary'] == sentence, f'the page says: {sentence}')
            total = opened.ask('() => { const lane = page.data.lanes.find((one) => one.group === "Why it was slow"); let ns = 0; '
                               'for (let i = lane.first; i < lane.first + lane.items; ++i) ns += page.data.end[i] - page.data.begin[i]; return ns; }')
            check(total == json.loads(why.stdout)['latency_ns'], f'the steps of the request take {total} ns')
            opened.ask('() => document.querySelector(".tree button")?.click()')
            check_quiet(opened)
    finally:
        opened.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--pitot', required=True)
    parser.add_argument('--dump', type=Path, help='an incident, for its verdict')
    parser.add_argument('traces', type=Path, nargs='*', help='more traces, of any format')
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix='pitot-view-') as name:
            folder = Path(name)
            check_own(args.pitot, folder)
            if args.dump:
                check_page(args.pitot, args.dump, folder)
                check_verdict(args.pitot, args.dump, folder)
            for trace in args.traces:
                check_page(args.pitot, trace, folder)
    except Wrong as wrong:
        print(f'check_browser: {wrong}', file=sys.stderr)
        return 1
    except EnvironmentProblem as problem:
        print(f'check_browser: skipped: {problem}')
        return SKIPPED
    print('check_browser: the pages show what was recorded')
    return 0


if __name__ == '__main__':
    sys.exit(main())
