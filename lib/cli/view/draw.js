// SPDX-License-Identifier: Apache-2.0
// The timeline on a canvas. Each line of a lane is drawn as one line of pixels, stretched to its height: an item narrower
// than a pixel costs nothing, because a pixel asks the pyramid for the longest item in it, and the sums for how busy it was.

const lineHeight = 18, thinHeight = 4, counterHeight = 44, groupHeight = 24, laneGap = 5, rulerHeight = 26;
const mostFullLines = 14;
const colourNames = ['code', 'wait', 'launch', 'copy', 'gpu', 'queue', 'request', 'batch', 'trouble', 'unknown', 'bad'];
const shades = [0, 0.14, -0.1, 0.26, -0.2];  // towards the page, or its text: neighbours of different names differ
const alphas = 8;

const blameColours = {
  queue: ['net_in', 'admission_queue', 'handoff', 'queue_wait_others', 'batch_window', 'executor_busy'],
  code: ['host_oncpu_pre', 'host_oncpu_framework', 'host_oncpu_post'],
  wait: ['host_runqueue', 'host_lock', 'host_gil', 'host_gc', 'host_pagefault_io', 'host_blocked_unknown'],
  launch: ['launch_api', 'launch_latency', 'launch_queue_full', 'alloc_stall', 'lazy_load_jit', 'sync_return'],
  copy: ['h2d', 'd2h', 'd2d_memset'],
  gpu: ['gpu_exec_expected'],
  trouble: ['gpu_contention', 'gpu_clock', 'gpu_excess_unknown', 'gpu_queue_wait_others', 'dispatch_gap', 'comm_exposed'],
};
const kindColours = ['code', 'code', 'wait', 'unknown', 'launch', 'wait', 'gpu', 'copy', 'copy', 'gpu', 'gpu', 'request',
  'queue', 'batch', 'queue', 'code', 'unknown', 'trouble', 'unknown'];

function timeText(ns, digits = 4) {
  const size = Math.abs(ns);
  const [scale, unit] = size < 1e3 ? [1, 'ns'] : size < 1e6 ? [1e3, 'µs'] : size < 1e9 ? [1e6, 'ms'] : [1e9, 's'];
  return `${Number((ns / scale).toPrecision(digits))} ${unit}`;
}

// The least and the most of some of a counter's values, by blocks whose ranges are found once. Values that are not known
// do not count; without others the least is above the most.
function rangeOf(counter, first, last) {
  const size = 64, values = counter.values;
  if (!counter.blocks) {
    counter.blocks = [];
    for (let at = 0; at < values.length; at += size) counter.blocks.push(scanned(values, at, Math.min(at + size, values.length)));
  }
  const range = {least: Infinity, most: -Infinity};
  const add = (other) => {
    range.least = Math.min(range.least, other.least);
    range.most = Math.max(range.most, other.most);
  };
  const firstBlock = Math.ceil(first / size), lastBlock = Math.floor(last / size);
  if (firstBlock >= lastBlock) return scanned(values, first, last);
  add(scanned(values, first, firstBlock * size));
  for (let block = firstBlock; block < lastBlock; ++block) add(counter.blocks[block]);
  add(scanned(values, lastBlock * size, last));
  return range;
}

function scanned(values, first, last) {
  const range = {least: Infinity, most: -Infinity};
  for (let i = first; i < last; ++i) {
    if (values[i] < range.least) range.least = values[i];
    if (values[i] > range.most) range.most = values[i];
  }
  return range;
}

// Names cut in the middle where they do not fit, so that different names stay different. A cut that makes names equal is
// tried at another place for all of them.
function shortNames(names, fits) {
  const cut = (name, share) => {
    const kept = (letters) => {
      const head = Math.round(letters * share);
      return `${name.slice(0, head)}…${name.slice(name.length - letters + head)}`;
    };
    let least = 0, most = name.length;  // letters that fit, and that do not
    while (least + 1 < most) {
      const middle = (least + most) >>> 1;
      if (fits(kept(middle))) least = middle;
      else most = middle;
    }
    return kept(least);
  };
  const shorts = new Map(names.map((name) => [name, name]));
  let open = [...shorts.keys()].filter((name) => !fits(name));
  for (const share of [0.35, 0, 0.7, 1]) {
    for (const name of open) shorts.set(name, cut(name, share));
    const counts = new Map();
    for (const short of shorts.values()) counts.set(short, (counts.get(short) ?? 0) + 1);
    open = open.filter((name) => counts.get(shorts.get(name)) > 1);
  }
  open.forEach((name, i) => shorts.set(name, cut(`(${i + 1}) ${name}`, 0.35)));
  return names.map((name) => shorts.get(name));
}

class Timeline {
  constructor(data, canvas, scroller, spacer) {
    this.data = data;
    this.canvas = canvas;
    this.scroller = scroller;
    this.spacer = spacer;
    this.context = canvas.getContext('2d', {alpha: false});
    this.strip = document.createElement('canvas');  // a line of pixels for each visible line
    this.from = data.windowBegin;
    this.to = data.windowEnd;
    this.full = new Set();    // lanes with many lines at their full height
    this.folded = new Set();  // groups
    this.item = -1;           // the chosen one
    this.hits = null;         // by string: 1 if a search found it
    this.focus = 0;           // only this request's items; 0: all
    this.area = null;         // {from, to, top, bottom}: the selection
    this.widths = new Map();
    this.drawnMs = [];
    this.colour = new Uint8Array(data.count);
    const blame = new Map(Object.entries(blameColours).flatMap(([colour, names]) => names.map((name) => [name, colour])));
    const shadeOf = data.strings.map((text) => {
      let hash = 7;
      for (let i = 0; i < text.length; ++i) hash = (hash * 31 + text.charCodeAt(i)) % 1000003;
      return hash % shades.length;
    });
    const colours = kindColours.map((name) => colourNames.indexOf(name));
    for (let i = 0; i < data.count; ++i) {
      let colour = colours[data.kind[i]], shade = shadeOf[data.name[i]];
      if (data.kind[i] === Kind.blame) {
        colour = colourNames.indexOf(blame.get(data.fullName(i)) ?? 'unknown');
        shade = 0;
      }
      if (data.kind[i] === Kind.request && !/^(ok|open|end unknown)/.test(data.requests[data.request[i] - 1][1]))
        colour = colourNames.indexOf('bad');
      this.colour[i] = colour * shades.length + shade;
    }
    this.readTheme();
    this.layOut();
  }

  readTheme() {
    const style = getComputedStyle(document.documentElement);
    const rgb = (name) => {
      const hex = style.getPropertyValue(`--${name}`).trim().slice(1);
      const parts = hex.length === 3 ? [...hex].map((c) => c + c) : hex.match(/../g);
      return parts.map((part) => parseInt(part, 16));
    };
    this.theme = Object.fromEntries(['page', 'text', 'soft', 'line', 'card', 'root', 'code'].map((name) =>
      [name, style.getPropertyValue(`--${name}`).trim()]));
    const page = rgb('page'), text = rgb('text');
    const mix = (a, b, share) => a.map((value, i) => Math.round(value + (b[i] - value) * share));
    const packed = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
    this.pagePixel = packed(page);
    this.pixels = [];  // by colour, then how much of it
    this.dimmed = [];
    this.inks = [];    // of a name on it
    for (const name of colourNames) {
      for (const shade of shades) {
        const colour = mix(rgb(name), shade > 0 ? page : text, Math.abs(shade));
        const light = (0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]) / 255;
        this.inks.push(light > 0.55 ? '#10141a' : '#ffffff');
        for (let a = 1; a <= alphas; ++a) {
          this.pixels.push(packed(mix(page, colour, a / alphas)));
          this.dimmed.push(packed(mix(page, colour, 0.22 * a / alphas)));
        }
      }
    }
    this.pixels = Uint32Array.from(this.pixels);
    this.dimmed = Uint32Array.from(this.dimmed);
  }

  // Places of everything from top to bottom.
  layOut() {
    const data = this.data;
    this.parts = [];
    let y = 4, file = -1, group = '';
    const head = (of, name) => {
      if (of.file !== file && data.files.length > 1) {
        this.parts.push({type: 'file', text: data.files[of.file].name, y, height: groupHeight});
        y += groupHeight;
      }
      if (of.file !== file || name !== group) {
        this.parts.push({type: 'group', text: name, key: `${of.file} ${name}`, y, height: groupHeight});
        y += groupHeight;
      }
      file = of.file;
      group = name;
      return this.folded.has(`${file} ${name}`);
    };
    for (let of = 0; of < data.files.length; ++of) {
      for (const lane of data.lanes) {
        if (lane.file !== of || head(lane, lane.group)) continue;
        const isThin = lane.rows.length > mostFullLines && !this.full.has(lane);
        const line = isThin ? thinHeight : lineHeight;
        const height = Math.max(lineHeight, lane.rows.length * line);
        this.parts.push({type: 'lane', text: lane.name, lane, line, y, height, isThin});
        y += height + laneGap;
      }
      for (const counter of data.counters) {
        if (counter.file !== of || head(counter, counter.group)) continue;
        this.parts.push({type: 'counter', text: counter.name, counter, y, height: counterHeight});
        y += counterHeight + laneGap;
      }
    }
    this.tops = Float64Array.from(this.parts, (part) => part.y);
    this.height = y + 40;
    this.shorts = null;
  }
  // Names of lanes and counters as they are drawn, by part.
  shortNames() {
    const shorts = new Map();
    let group = [];
    const shorten = () => {
      const short = shortNames(group.map((part) => this.markOf(part) + part.text), (text) => this.textWidth(text) <= this.left - 22);
      group.forEach((part, i) => shorts.set(part, short[i]));
      group = [];
    };
    for (const part of this.parts) {
      if (part.type === 'group') shorten();
      else if (part.type !== 'file') group.push(part);
    }
    shorten();
    return shorts;
  }
  markOf(part) {
    if (part.type === 'group') return this.folded.has(part.key) ? '▸ ' : '▾ ';
    return part.type === 'lane' && part.lane.rows.length > mostFullLines ? (part.isThin ? '▸ ' : '▾ ') : '';
  }
  // The canvas stays in place, and the spacer below makes room to scroll.
  fitSpacer() {
    this.spacer.style.height = `${Math.max(0, this.height + rulerHeight - this.shown)}px`;
  }

  resize() {
    const box = this.scroller.getBoundingClientRect();
    this.ratio = window.devicePixelRatio || 1;
    this.width = this.scroller.clientWidth;
    this.shown = Math.floor(box.height);
    this.left = Math.min(210, Math.round(this.width * 0.28));  // of the lanes: names are before it
    this.shorts = null;
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.shown * this.ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.shown}px`;
    this.strip.width = Math.max(1, Math.round((this.width - this.left) * this.ratio));
    this.strip.height = Math.ceil(this.shown / thinHeight) + 2;
    this.pixelsOfStrip = null;
    this.fitSpacer();
    this.draw();
  }

  draw() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      const began = performance.now();
      this.drawNow();
      this.drawnMs.push(performance.now() - began);
      if (this.drawnMs.length > 5000) this.drawnMs.shift();
    });
  }

  xOf(ns) {
    return this.left + (ns - this.from) / (this.to - this.from) * (this.width - this.left);
  }
  nsOf(x) {
    return this.from + (x - this.left) / (this.width - this.left) * (this.to - this.from);
  }
  // The least and most times that can be shown.
  setView(from, to) {
    const span = this.data.windowEnd - this.data.windowBegin;
    const length = Math.min(Math.max(to - from, 50), span * 1.1);
    const middle = (from + to) / 2;
    from = Math.min(Math.max(middle - length / 2, this.data.windowBegin - span * 0.05), this.data.windowEnd + span * 0.05 - length);
    this.from = from;
    this.to = from + length;
    this.draw();
    this.onView?.();
  }
  pan(share) {
    const by = share * (this.to - this.from);
    this.setView(this.from + by, this.to + by);
  }
  zoom(factor, x = (this.left + this.width) / 2) {
    const at = this.nsOf(Math.max(x, this.left));
    this.setView(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pixelsFor(item) {
    const isOut = (this.hits && !this.isHit(item)) || (this.focus !== 0 && !this.isOfFocus(item));
    return isOut && item !== this.item ? this.dimmed : this.pixels;
  }
  // Whether a search found it: by its name, or a request by its id.
  isHit(item) {
    return this.hits[this.data.name[item]] === 1 || (this.data.kind[item] === Kind.request && this.hitRequests[this.data.request[item] - 1] === 1);
  }
  isOfFocus(item) {
    return this.data.request[item] === this.focus ||
      (this.data.batch[item] !== 0 && this.data.batches[this.data.batch[item] - 1][2].includes(this.focus - 1));
  }

  drawNow() {
    const {context, data, ratio} = this;
    const scroll = this.scroller.scrollTop;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.theme.page;
    context.fillRect(0, 0, this.width, this.shown);
    const ticks = this.ticks();
    context.fillStyle = this.theme.line;
    for (const tick of ticks) context.fillRect(Math.round(this.xOf(tick)), rulerHeight, 1, this.shown);
    const first = Math.max(0, firstAbove(this.tops, scroll, 0, this.tops.length) - 1);
    const lines = [], labels = [];
    for (let i = first; i < this.parts.length; ++i) {
      const part = this.parts[i];
      const y = part.y - scroll + rulerHeight;
      if (y > this.shown) break;
      if (part.type === 'lane') {
        for (let row = 0; row < part.lane.rows.length; ++row) {
          const top = y + row * part.line;
          if (top > this.shown || top + part.line < rulerHeight) continue;
          lines.push({top, height: part.line, row: part.lane.rows[row]});
        }
      } else if (part.type === 'counter') {
        this.drawCounter(part.counter, y);
      }
    }
    this.drawLines(lines, labels);
    this.drawLabels(labels);
    this.drawWindows();
    this.drawNames(first, scroll);
    this.drawChosen(scroll);
    this.drawArea(scroll);
    this.drawRuler(ticks);
  }

  drawLines(lines, labels) {
    if (lines.length === 0) return;
    const width = this.strip.width;
    const count = Math.min(lines.length, this.strip.height);
    const context = this.strip.getContext('2d');
    if (!this.pixelsOfStrip) this.pixelsOfStrip = context.createImageData(width, this.strip.height);
    const pixels = new Uint32Array(this.pixelsOfStrip.data.buffer);
    pixels.fill(0, 0, width * count);
    for (let i = 0; i < count; ++i) this.fillLine(lines[i], pixels.subarray(i * width, (i + 1) * width), labels);
    context.putImageData(this.pixelsOfStrip, 0, 0, 0, 0, width, count);
    this.context.imageSmoothingEnabled = false;
    for (let i = 0; i < count; ++i) {
      const {top, height} = lines[i];
      const gap = height > thinHeight ? 2 : 1;
      this.context.drawImage(this.strip, 0, i, width, 1, this.left, Math.round(top), this.width - this.left, height - gap);
    }
  }

  fillLine({top, height, row}, pixels, labels) {
    const {data, from} = this;
    const width = pixels.length, perPixel = (this.to - from) / width, last = row[1];
    let place = firstAbove(data.rowEnd, from, row[0], last);
    if (place > row[0] && data.rowEnd[place - 1] >= from) --place;  // an instant at the edge
    while (place < last) {
      const x = (data.rowBegin[place] - from) / perPixel;
      if (x >= width) break;
      const end = (data.rowEnd[place] - from) / perPixel;
      const pixel = Math.max(0, Math.floor(x));
      if (end - x < 1) {
        // All items that begin in this pixel.
        let next = place + 1, step = 1;
        const edge = from + (pixel + 1) * perPixel;
        while (next + step < last && data.rowBegin[next + step] < edge) step *= 2;
        next = firstNotBelow(data.rowBegin, edge, next, Math.min(last, next + step + 1));
        if (next > place + 1 && data.rowEnd[next - 1] > edge) --next;  // the last goes on: it has pixels of its own
        const longest = next === place + 1 ? place : data.longest(place, next);
        let item = data.rowItem[longest];
        if (this.hits && !this.isHit(item)) item = this.anyHit(place, next) ?? item;
        const busy = (data.rowBusy[next] - data.rowBusy[place]) / perPixel;
        const alpha = data.rowEnd[longest] === data.rowBegin[longest] ? 1 : Math.min(1, 0.3 + 0.7 * busy);
        pixels[pixel] = this.pixelsFor(item)[this.colour[item] * alphas + Math.round(alpha * (alphas - 1))];
        place = next;
        continue;
      }
      const item = data.rowItem[place];
      const until = Math.min(width, Math.max(pixel + 1, Math.floor(end)));
      const table = this.pixelsFor(item), full = this.colour[item] * alphas + alphas - 1;
      pixels.fill(table[full], pixel, until);
      if (until - pixel >= 4) pixels[until - 1] = this.pagePixel;  // parts it from the next
      if (height === lineHeight && until - pixel >= 34 * this.ratio)
        labels.push({item, x: this.left + pixel / this.ratio, width: (until - pixel) / this.ratio, y: top, isDim: table === this.dimmed});
      ++place;
    }
  }
  // An item that a search found among a pixel's; looks at 64 at most.
  anyHit(from, to) {
    for (let place = from; place < Math.min(to, from + 64); ++place) {
      const item = this.data.rowItem[place];
      if (this.isHit(item)) return item;
    }
    return undefined;
  }

  textWidth(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.widths.size > 20000) this.widths.clear();
      this.widths.set(text, width = this.context.measureText(text).width);
    }
    return width;
  }
  fitted(text, width) {
    if (this.textWidth(text) <= width) return text;
    const letters = Math.floor(0.97 * text.length * width / this.textWidth(text)) - 1;
    return letters < 3 ? '' : `${text.slice(0, letters)}…`;
  }
  drawLabels(labels) {
    const {context} = this;
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    for (const {item, x, width, y, isDim} of labels) {
      const text = this.fitted(this.data.briefName(item), width - 8);
      if (text === '') continue;
      context.fillStyle = isDim ? this.theme.soft : this.inks[this.colour[item]];
      context.fillText(text, x + 4, Math.round(y) + 9);
    }
  }

  // A step of values; a pixel with many shows their range. Nothing is drawn where the value is not known.
  drawCounter(counter, y) {
    const {context} = this;
    const bottom = y + counterHeight - 2, span = (counter.most - counter.least) || 1;
    const yOf = (value) => bottom - (value - counter.least) / span * (counterHeight - 8);
    const width = this.width - this.left, perPixel = (this.to - this.from) / width;
    let next = firstAbove(counter.at, this.from, 0, counter.at.length);
    let value = next > 0 ? counter.values[next - 1] : NaN;
    context.fillStyle = this.theme.code;
    for (let x = 0; x < width; ++x) {
      const end = firstNotBelow(counter.at, this.from + (x + 1) * perPixel, next, counter.at.length);
      let {least, most} = rangeOf(counter, next, end);
      if (value < least) least = value;
      if (value > most) most = value;
      if (end > next) value = counter.values[end - 1];
      next = end;
      if (least > most) continue;
      const top = yOf(most);
      context.globalAlpha = 0.25;
      context.fillRect(this.left + x, top, 1, bottom - top);
      context.globalAlpha = 1;
      context.fillRect(this.left + x, top - 0.5, 1, Math.max(1.5, yOf(least) - top));
    }
  }

  // Greys out what was not recorded.
  drawWindows() {
    const {context} = this;
    context.fillStyle = this.theme.soft;
    context.globalAlpha = 0.1;
    const first = this.xOf(this.data.windowBegin), last = this.xOf(this.data.windowEnd);
    if (first > this.left) context.fillRect(this.left, rulerHeight, first - this.left, this.shown);
    if (last < this.width) context.fillRect(last, rulerHeight, this.width - last, this.shown);
    context.globalAlpha = 1;
    for (const file of this.data.files) {
      for (const [at] of file.firings) {
        const x = this.xOf(at);
        context.fillStyle = this.theme.root;
        if (x >= this.left) context.fillRect(Math.round(x) - 1, rulerHeight, 2, this.shown);
      }
    }
  }

  drawNames(first, scroll) {
    const {context} = this;
    context.fillStyle = this.theme.card;
    context.fillRect(0, rulerHeight, this.left - 1, this.shown);
    context.fillStyle = this.theme.line;
    context.fillRect(this.left - 1, rulerHeight, 1, this.shown);
    context.textBaseline = 'middle';
    context.font = '12px system-ui, sans-serif';
    this.shorts ??= this.shortNames();
    for (let i = first; i < this.parts.length; ++i) {
      const part = this.parts[i];
      const y = part.y - scroll + rulerHeight;
      if (y > this.shown) break;
      const isHead = part.type === 'file' || part.type === 'group';
      if (isHead) {
        context.fillStyle = part.type === 'file' ? this.theme.line : this.theme.card;
        context.fillRect(0, y, this.width, part.height - 2);
        context.fillStyle = this.theme.line;
        context.fillRect(0, y + part.height - 3, this.width, 1);
      }
      context.font = `${isHead ? '600 12.5px' : '12px'} system-ui, sans-serif`;
      context.fillStyle = this.theme.text;
      const room = isHead ? this.width : this.left - 14;
      const text = isHead ? this.fitted(this.markOf(part) + part.text, room - 8) : this.shorts.get(part);
      context.fillText(text, isHead ? 6 : 12, y + (isHead ? 11 : 9));
      if (part.type === 'counter') {
        context.fillStyle = this.theme.soft;
        context.fillText(this.fitted(`up to ${valueText(part.counter.most, part.counter.unit)}`, room), 12, y + 26);
      } else if (part.isThin && part.height > 40) {
        context.fillStyle = this.theme.soft;
        context.fillText(this.fitted(`${part.lane.rows.length} lines, click to enlarge`, room), 12, y + 26);
      }
    }
  }

  // Where an item is drawn; null: in a folded group, or too deep.
  boxOf(item, scroll) {
    const part = this.parts.find((one) => one.lane && item >= one.lane.first && item < one.lane.first + one.lane.items);
    if (!part || this.data.level[item] >= part.lane.rows.length) return null;
    const y = part.y - scroll + rulerHeight + this.data.level[item] * part.line;
    const x = this.xOf(this.data.begin[item]);
    return {x, y, width: Math.max(2, this.xOf(this.data.end[item]) - x), height: part.line - 1};
  }
  drawChosen(scroll) {
    if (this.item < 0) return;
    const {context} = this;
    context.save();
    context.beginPath();
    context.rect(this.left, rulerHeight, this.width, this.shown);
    context.clip();
    const box = this.boxOf(this.item, scroll);
    context.lineWidth = 2;
    context.strokeStyle = this.theme.text;
    if (box) context.strokeRect(Math.max(box.x, this.left - 4), box.y, Math.min(box.x + box.width, this.width + 4) - Math.max(box.x, this.left - 4), box.height);
    context.strokeStyle = this.theme.root;
    context.fillStyle = this.theme.root;
    for (const [cause, effect] of this.arrows ?? []) this.drawArrow(this.boxOf(cause, scroll), this.boxOf(effect, scroll));
    context.restore();
  }
  drawArrow(from, to) {
    if (!from || !to) return;
    const {context} = this;
    const x0 = from.x + Math.min(from.width, 6) / 2, y0 = from.y + from.height, x1 = to.x, y1 = to.y + to.height / 2;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, (y0 + y1) / 2, x1 - 40, y1, x1 - 7, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 9, y1 - 5);
    context.lineTo(x1 - 9, y1 + 5);
    context.fill();
  }
  drawArea(scroll) {
    if (!this.area) return;
    const {context, area} = this;
    const x = Math.max(this.left, this.xOf(area.from)), end = Math.max(x, this.xOf(area.to));
    const y = Math.max(rulerHeight, area.top - scroll + rulerHeight), bottom = area.bottom - scroll + rulerHeight;
    context.fillStyle = this.theme.code;
    context.globalAlpha = 0.15;
    context.fillRect(x, y, end - x, Math.max(0, bottom - y));
    context.globalAlpha = 1;
    context.fillRect(x, y, 1, Math.max(0, bottom - y));
    context.fillRect(end - 1, y, 1, Math.max(0, bottom - y));
    context.fillRect(x, 0, end - x, 3);
  }

  ticks() {
    const span = this.to - this.from, most = Math.max(2, (this.width - this.left) / 110);
    let step = 10 ** Math.floor(Math.log10(span / most));
    for (const factor of [1, 2, 5, 10]) {
      if (span / (step * factor) <= most) {
        step *= factor;
        break;
      }
    }
    const ticks = [];
    for (let at = Math.ceil(this.from / step) * step; at < this.to; at += step) ticks.push(at);
    return ticks;
  }
  drawRuler(ticks) {
    const {context} = this;
    context.fillStyle = this.theme.card;
    context.fillRect(0, 0, this.width, rulerHeight);
    context.fillStyle = this.theme.line;
    context.fillRect(0, rulerHeight - 1, this.width, 1);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    context.fillStyle = this.theme.soft;
    // As many as tell one tick from the next.
    const digits = ticks.length < 2 ? 6 : Math.min(17, Math.max(1, Math.ceil(Math.log10(Math.max(1, Math.abs(ticks.at(-1))) / (ticks[1] - ticks[0])) + 1.01)));
    for (const tick of ticks) {
      const x = Math.round(this.xOf(tick));
      if (x < this.left) continue;
      context.fillRect(x, rulerHeight - 7, 1, 6);
      context.fillText(tick === 0 ? '0' : timeText(tick, digits), x + 4, 11);
    }
    context.fillStyle = this.theme.card;
    context.fillRect(0, 0, this.left - 1, rulerHeight - 1);
    context.fillStyle = this.theme.text;
    context.fillText(this.fitted(`${timeText(this.to - this.from)} shown`, this.left - 16), 8, 12);
    for (const file of this.data.files) {
      for (const [at, cause] of file.firings) {
        const x = this.xOf(at);
        if (x < this.left || x > this.width) continue;
        const text = `⚑ ${cause}`, width = this.textWidth(text) + 8;
        context.fillStyle = this.theme.root;
        context.fillRect(Math.min(x, this.width - width), 2, width, 17);
        context.fillStyle = this.theme.page;
        context.fillText(text, Math.min(x, this.width - width) + 4, 11);
      }
    }
  }

  partAt(y) {
    const place = firstAbove(this.tops, y, 0, this.tops.length) - 1;
    return place >= 0 && y < this.parts[place].y + this.parts[place].height ? this.parts[place] : null;
  }
  // The item at a point of the canvas; -1: none. Within three pixels, so that short ones can be met.
  itemAt(x, y) {
    if (x < this.left || y < rulerHeight) return -1;
    const down = y - rulerHeight + this.scroller.scrollTop;
    const part = this.partAt(down);
    const row = part?.lane?.rows[Math.floor((down - part.y) / part.line)];
    if (!row) return -1;
    const {data} = this, at = this.nsOf(x), near = 3 * (this.to - this.from) / (this.width - this.left);
    const place = firstAbove(data.rowEnd, at, row[0], row[1]);
    let best = -1, distance = near;
    for (const one of [place - 1, place]) {
      if (one < row[0] || one >= row[1]) continue;
      const away = Math.max(data.rowBegin[one] - at, at - data.rowEnd[one], 0);
      if (away <= distance) {
        distance = away;
        best = data.rowItem[one];
      }
    }
    return best;
  }
}

function valueText(value, unit) {
  if (unit === 'bytes' && value >= 1024) {
    const power = Math.min(4, Math.floor(Math.log2(value) / 10));
    return `${Number((value / 1024 ** power).toPrecision(4))} ${['', 'KiB', 'MiB', 'GiB', 'TiB'][power]}`;
  }
  const number = Number(value.toPrecision(6)).toLocaleString('en');
  return unit === '' || unit === '1' ? number : `${number} ${unit}`;
}
