#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures frames of a page of `pitot view` while it moves over a generated trace of a million events. It asserts nothing."""

import argparse
import json
import random
import subprocess
import tempfile
import time
from pathlib import Path

from browser import ViewedPage

# Moves for some seconds, one step a frame. Returns the times between frames and those of drawing, in ms.
MOVE = '''(seconds, way) => new Promise((done) => {
  const {timeline, data} = page, scroll = timeline.scroller, between = [];
  const span = data.windowEnd - data.windowBegin;
  page.showAll();
  if (way !== 'zoom') timeline.setView(data.windowBegin, data.windowBegin + span / (way === 'near' ? 2000 : 4));
  timeline.drawnMs.length = 0;
  let before = 0, began = 0, down = 1, on = 1;
  const step = (now) => {
    if (before !== 0) between.push(now - before);
    else began = now;
    before = now;
    if (now - began > 1000 * seconds) return done({between, draw: timeline.drawnMs});
    if (way === 'zoom') timeline.zoom(Math.exp(0.02 * (Math.sin((now - began) / 700) > 0 ? -1 : 1)), 700);
    else {
      if (timeline.to >= data.windowEnd) on = -1;
      if (timeline.from <= data.windowBegin) on = 1;
      timeline.pan(0.01 * on);
    }
    if (scroll.scrollTop + scroll.clientHeight >= scroll.scrollHeight - 1) down = -1;
    if (scroll.scrollTop <= 0) down = 1;
    scroll.scrollTop += 4 * down;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})'''


def write_trace(path: Path, count: int) -> None:
    """Eight threads with nested operators and launches, and eight streams, as PyTorch's profiler writes them."""
    draw = random.Random(1)  # no two steps are alike, as in a server
    names = [f'aten::operator_{i}' for i in range(60)]
    with path.open('w', encoding='utf-8') as out:
        out.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": [\n')
        separator = ''

        def write(name, category, begin_ns, duration_ns, thread, args):
            nonlocal separator
            out.write(f'{separator}{{"ph":"X","name":"{name}","cat":"{category}","ts":{begin_ns / 1000:.3f},"dur":{duration_ns / 1000:.3f},'
                      f'"pid":1,"tid":{thread},"args":{args}}}')
            separator = ',\n'
        for step in range(count // 8):
            thread, at = step % 8 + 1, step // 8 * 40000 + step % 8 * 997
            for level in range(5):
                write(draw.choice(names), 'cpu_op', at + 1000 * level + draw.randrange(900), 35000 - 5000 * level - draw.randrange(2500), thread, '{}')
            write(draw.choice(names), 'cpu_op', at + 36500, draw.randrange(2500), thread, '{}')
            write('cudaLaunchKernel', 'cuda_runtime', at + 6000 + draw.randrange(900), 3000 + draw.randrange(4000), thread, f'{{"correlation":{step + 1}}}')
            write(f'kernel_{draw.randrange(40)}', 'kernel', at + 12000 + draw.randrange(900), 15000 + draw.randrange(12000), thread,
                  f'{{"device":0,"stream":{thread},"correlation":{step + 1}}}')
        out.write(']}\n')


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def cpu_ms(opened: ViewedPage) -> float:
    """CPU time of the page's main thread so far."""
    metrics = opened.call('Performance.getMetrics', opened.deadline)['metrics']
    return 1000 * next(one['value'] for one in metrics if one['name'] == 'TaskDuration')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--pitot', required=True)
    parser.add_argument('--events', type=int, default=1_000_000)
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('--keep', type=Path, help='folder for the trace and the page')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='pitot-view-') as name:
        folder = args.keep or Path(name)
        trace, page = folder / 'million.json', folder / 'million.html'
        write_trace(trace, args.events)
        began = time.monotonic()
        subprocess.run([args.pitot, 'view', str(trace), '-o', str(page)], check=True)
        print(json.dumps({'events': args.events, 'view_s': round(time.monotonic() - began, 1), 'page_mb': round(page.stat().st_size / 1e6, 1)}))
        began = time.monotonic()
        opened = ViewedPage(page, seconds=560)
        try:
            print(json.dumps({'open_s': round(time.monotonic() - began, 1), 'items': opened.ask('() => page.data.count')}))
            opened.call('Performance.enable', opened.deadline, timeDomain='threadTicks')  # CPU time: other processes do not count
            for way in ('far', 'near', 'zoom'):
                before = cpu_ms(opened)
                found = opened.ask(MOVE, args.seconds, way)
                between, draw = found['between'], found['draw']
                print(json.dumps({'way': way, 'frames_a_second': round(1000 * len(between) / sum(between), 1),
                                  'cpu_ms_a_frame': round((cpu_ms(opened) - before) / len(between), 2),
                                  'between_ms': [round(quantile(between, q), 1) for q in (0.5, 0.99)],
                                  'draw_ms': [round(quantile(draw, q), 1) for q in (0.5, 0.99)]}))
            print(json.dumps({'sum_all_ms': opened.ask(
                '() => { const began = performance.now(); sumsOf(page.data, page.data.lanes, page.data.windowBegin, page.data.windowEnd);'
                ' return Math.round(performance.now() - began); }')}))
        finally:
            opened.close()


if __name__ == '__main__':
    main()
