#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens pages of `pitot view` in a headless Chromium: drawn and summed is what `pitot top` counts, to the ns."""

import argparse
import base64
import json
import re
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from browser import ViewedPage
from perfetto_wheel import EnvironmentProblem

SKIPPED = 77
HOSTILE = '</script><img src=x onerror=alert(1)>\u202e"\'&amp;'
TABLES = {'scope': 'Scopes, operators and waits', 'call': "Calls of the GPU's API", 'kernel': 'GPU work'}

# The sums of the whole trace, by title and name, as the page shows them.
SUMS = '''() => {
  page.selectAll();
  const named = (rows) => Object.fromEntries(rows.map((row) => [page.data.strings[row.name], [row.count, row.total, row.self]]));
  return Object.fromEntries(sumsOf(page.data, page.data.lanes, page.data.windowBegin, page.data.windowEnd)
    .map(({title, rows}) => [title, named(rows)]));
}'''


class Wrong(Exception):
    """The page is not as it should be; the text says how."""


def check(is_right: bool, text: str) -> None:
    if not is_right:
        raise Wrong(text)


def event(name, category, begin_us, duration_us, thread, **args):
    return {'ph': 'X', 'name': name, 'cat': category, 'ts': begin_us, 'dur': duration_us, 'pid': 1, 'tid': thread, 'args': args}


def pytorch_trace(steps: int) -> dict:
    """A trace as PyTorch's profiler writes it: nested operators, launches, kernels, and a name that is no friend of pages."""
    events = [event('', 'cpu_op', 0, 1, 7)]
    for step in range(steps):
        at = 1000.5 * step
        events += [
            event(f'ProfilerStep#{step}', 'user_annotation', at, 900.25, 7),
            event('aten::linear', 'cpu_op', at + 10, 400, 7),
            event('aten::linear', 'cpu_op', at + 20, 300.125, 7),  # a name within itself counts once
            event(HOSTILE, 'cpu_op', at + 500, 50, 7),
            event('aten::copy_', 'cpu_op', at + 100, 700, 8),
            event('cudaLaunchKernel', 'cuda_runtime', at + 30, 6.5, 7, correlation=3 * step + 1),
            event('cudaMemcpyAsync', 'cuda_runtime', at + 120, 8, 8, correlation=3 * step + 2),
            event('cudaDeviceSynchronize', 'cuda_runtime', at + 450, 40, 7, correlation=3 * step + 3),
            event('void gemm<float>(float*)', 'kernel', at + 50, 333.333, 7, device=0, stream=7, correlation=3 * step + 1),
            event('Memcpy HtoD (Pageable -> Device)', 'gpu_memcpy', at + 130, 21, 9, device=0, stream=9, bytes=4096,
                  correlation=3 * step + 2),
        ]
    return {'schemaVersion': 1, 'deviceProperties': [{'id': 0, 'name': 'GPU', 'warpSize': 32}], 'traceEvents': events}


def top(pitot: str, trace: Path, by: str) -> dict:
    made = subprocess.run([pitot, 'top', '--by', by, '--json', '--limit', '0', str(trace)], capture_output=True, check=False)
    check(made.returncode in (0, 1), f'pitot top --by {by} {trace}: exit code {made.returncode}: {made.stderr.decode()}')
    rows = {}
    for row in json.loads(made.stdout)['rows']:
        if by == 'kernel':
            rows[row['name']] = [row['calls'], row['self_gpu_ns'], row['self_gpu_ns']]
        elif row['calls'] != 0:  # rows in brackets stand for what was not recorded
            rows[row['name']] = [row['calls'], row['cpu_total_ns'], row['self_cpu_ns']]
    return rows


def view(pitot: str, page: Path, *traces: Path) -> Path:
    made = subprocess.run([pitot, 'view', *map(str, traces), '-o', str(page)], capture_output=True, check=False)
    check(made.returncode == 0, f'pitot view: exit code {made.returncode}: {made.stderr.decode()}')
    return page


def head_of(page: Path) -> dict:
    """The head of the data block, and its number of bytes behind the head."""
    packed = re.search(r'id="data">([A-Za-z0-9+/=]*)</script>', page.read_text(encoding='utf-8')).group(1)
    data = zlib.decompress(base64.b64decode(packed))
    size = int.from_bytes(data[:4], 'little')
    return {**json.loads(data[4:4 + size]), 'rest': len(data) - 4 - size}


def check_file(page: Path) -> None:
    """What holds without a browser."""
    text = page.read_text(encoding='utf-8')
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    check("default-src 'none'" in policy and 'unsafe' not in policy, f'the policy is {policy}')
    check(HOSTILE not in text and '<img' not in text, 'a name of the trace is in the page as it is')
    check(not re.search(r'innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b', text), 'the script makes markup of text')
    head = head_of(page)
    check(head['rest'] == sum(head['columns'].values()), 'the columns do not fill the block')
    check(head['items'] == sum(lane['items'] for lane in head['lanes']), 'the lanes do not hold all items')


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


def check_quiet(opened: ViewedPage) -> None:
    opened.drawn()
    check(not opened.complaints, f'the console has {opened.complaints}')
    outside = [url for url in opened.requests if not url.startswith(('file:', 'blob:'))]
    check(not outside and len(opened.requests) == 1, f'the page asked for {opened.requests}')


def check_page(pitot: str, trace: Path, folder: Path) -> None:
    page = view(pitot, folder / 'page.html', trace)
    check_file(page)
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
        check_quiet(opened)
    finally:
        opened.close()


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
        print(f'check_view: {wrong}', file=sys.stderr)
        return 1
    except EnvironmentProblem as problem:
        print(f'check_view: skipped: {problem}')
        return SKIPPED
    print('check_view: the pages show what was recorded')
    return 0


if __name__ == '__main__':
    sys.exit(main())
