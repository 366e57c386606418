// SPDX-License-Identifier: Apache-2.0
// The page around the timeline: keys, mouse, search, details, the verdict, sums.

const $ = (id) => document.getElementById(id);
function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}
const countText = (count) => count.toLocaleString('en');

class Page {
  constructor(data) {
    this.data = data;
    this.timeline = new Timeline(data, $('timeline'), $('scroll'), $('spacer'));
    this.timeline.onView = () => this.drawOverview();
    this.keys = new Set();
    this.pointerX = undefined;
    this.fillHead();
    this.fillWhy();
    this.showItem(-1);
    this.showSums(null);
    this.showTab(data.files.some((file) => file.verdict.sentence) ? 'why' : 'details');
    this.listen();
    this.resize();
  }

  // ---- the head

  fillHead() {
    const {data} = this;
    const names = data.files.map((file) => file.name);
    $('title').textContent = names.join(', ');
    $('title').title = names.join('\n');
    const facts = data.files.map((file) => [file.process && `${file.process} (pid ${file.pid})`,
      `${timeText(file.window[1] - file.window[0])} recorded`, file.wall && this.wallText(file, file.window[0]).slice(0, 19) + ' UTC',
      file.damaged && 'damaged: only the undamaged part is shown',
      file.loss_count > 0 && `${countText(file.loss_count)} stretches with lost records (Details)`]
      .filter(Boolean).join(', ')).join(' · ');
    const undated = data.files.filter((file) => !file.wall).map((file) => file.name);
    const several = data.files.length < 2 ? '' : data.head.one_clock ? ' · on one clock' :
      ` · each file begins at 0, because ${undated.length === 0 ? 'they were recorded at different times' :
        `${undated.join(' and ')} ${undated.length === 1 ? 'has' : 'have'} no date`}`;
    $('facts').textContent = `${facts}${several} · ${countText(data.count)} bars · drag to add up, click for details, W A S D to move, ? for all keys`;
    const legend = [['code', 'code'], ['wait', 'waits'], ['launch', 'calls of the GPU\'s API'], ['gpu', 'kernels'], ['copy', 'copies'],
      ['request', 'requests'], ['bad', 'failed requests'], ['queue', 'queues and stages'], ['batch', 'batches'], ['trouble', 'slow GPU work, driver'],
      ['unknown', 'instants, unexplained']];
    const used = new Set();
    for (let i = 0; i < data.count; ++i) used.add(Math.floor(this.timeline.colour[i] / shades.length));
    for (const [colour, text] of legend) {
      if (!used.has(colourNames.indexOf(colour))) continue;
      const mark = element('i');
      mark.style.background = `var(--${colour})`;
      $('legend').append(element('li', {}, mark, text));
    }
  }

  // "2026-11-29 12:00:01.000000123": the wall clock at a moment of a file.
  wallText(file, at) {
    const ns = BigInt(file.wall) + BigInt(Math.round(at));
    const text = new Date(Number(ns / 1000000n)).toISOString().replace('T', ' ');
    return text.slice(0, 20) + String(ns % 1000000000n).padStart(9, '0');
  }

  // ---- the verdict

  fillWhy() {
    const section = $('why');
    const several = this.data.files.length > 1;
    for (const file of this.data.files) {
      const {verdict} = file;
      if (several) section.append(element('h3', {textContent: file.name}));
      if (!verdict.sentence) {
        section.append(element('p', {className: 'soft', textContent: `No verdict: ${verdict.why_not}.`}));
        continue;
      }
      section.append(element('h2', {textContent: verdict.sentence}));
      if (verdict.advice) section.append(element('p', {className: 'advice', textContent: `→ ${verdict.advice}`}));
      section.append(element('p', {}, element('button', {className: 'link', textContent: 'Show this request', onclick: () => {
        this.timeline.setView(...this.around(...verdict.at));
        if (verdict.request !== null) this.choose(verdict.request, false);
      }})));
      const tree = element('ul', {className: 'tree'});
      for (const line of verdict.tree) {
        const button = element('button', {className: line.is_root ? 'root' : '', title: 'Show its evidence', onclick: () => this.showEvidence(line, verdict.at)},
          element('b', {textContent: `${line.tenths < 0 ? '−' : '+'}${(Math.abs(line.tenths) / 10).toFixed(1)} ms `}), line.text,
          line.category ? element('small', {textContent: ` ${line.category}`}) : null,
          line.is_root ? element('em', {textContent: 'the root'}) : null);
        const item = element('li', {}, button);
        item.style.marginLeft = `${Math.min(line.depth, 8) * 0.9}rem`;
        tree.append(item);
      }
      if (verdict.tree.length > 0)
        section.append(element('h3', {textContent: 'Where the time beyond the usual went. Click a line for its evidence.'}), tree);
    }
  }
  // In the time of the request, unless it would be too small to see there.
  showEvidence(line, [first, last]) {
    const [from, to] = line.item === null ? line.at : [this.data.begin[line.item], this.data.end[line.item]];
    const isSeen = to - from > (last - first) / 100;
    this.timeline.setView(...this.around(isSeen ? Math.min(first, from) : from, isSeen ? Math.max(last, to) : to));
    if (line.item !== null) this.choose(line.item, true, 'why');
  }
  around(from, to) {
    const margin = Math.max(to - from, 100) * 0.15;
    return [from - margin, to + margin];
  }

  // ---- details

  choose(item, isMoved, tab = 'details') {
    const {data, timeline} = this;
    timeline.item = item;
    const effects = item >= 0 && data.kind[item] <= Kind.waitingCall ? this.effectsOf(item) : [];
    timeline.arrows = effects.map((effect) => [item, effect]);
    if (item >= 0 && data.cause[item] >= 0) timeline.arrows.push([data.cause[item], item]);
    this.showItem(item, effects);
    if (item >= 0) this.showTab(tab);
    if (item >= 0 && isMoved) this.reveal(item);
    timeline.draw();
  }
  effectsOf(item) {
    const effects = [];
    for (let i = 0; i < this.data.count && effects.length < 100; ++i) {
      if (this.data.cause[i] === item && this.data.kind[i] !== Kind.blame) effects.push(i);
    }
    return effects;
  }

  reveal(item) {
    const {data, timeline} = this;
    const lane = data.laneOf(item);
    timeline.folded.delete(`${lane.file} ${lane.group}`);
    timeline.layOut();
    timeline.fitSpacer();
    const [from, to] = [data.begin[item], data.end[item]];
    const span = timeline.to - timeline.from;
    if (to - from > span || to - from < span / 400 || from < timeline.from || to > timeline.to)
      timeline.setView(...this.around(Math.max(from - (to - from), data.windowBegin), to + (to - from)));
    const box = timeline.boxOf(item, 0);
    const scroll = $('scroll');
    if (box && (box.y < scroll.scrollTop + 40 || box.y > scroll.scrollTop + timeline.shown - 60))
      scroll.scrollTop = box.y - timeline.shown / 2;
    this.drawOverview();
  }

  link(item, text) {
    return element('button', {className: 'link', textContent: text ?? this.data.briefName(item), onclick: () => this.choose(item, true)});
  }

  // Time of a scope or call outside of those within it.
  selfOf(item) {
    const {data} = this;
    const family = families.find((one) => one.nests && one.kinds.includes(data.kind[item]));
    const lane = data.laneOf(item);
    if (!family || !lane.nests) return null;
    let within = 0, until = data.begin[item];
    for (let i = item + 1; i < lane.first + lane.items && data.begin[i] < data.end[item]; ++i) {
      if (!family.kinds.includes(data.kind[i])) continue;
      const to = Math.min(data.end[i], data.end[item]);
      within += Math.max(0, to - Math.max(data.begin[i], until));
      until = Math.max(until, to);
    }
    return data.end[item] - data.begin[item] - within;
  }

  showItem(item, effects = []) {
    const section = $('details');
    const {data} = this;
    if (item < 0) {
      section.replaceChildren(element('p', {className: 'soft', textContent: 'Click a bar for its details: times, arguments, its request, and the arrow from a launch to its kernel.'}),
        ...this.lossesOf());
      return;
    }
    const lane = data.laneOf(item), file = data.files[lane.file];
    const list = element('dl');
    const add = (name, ...value) => list.append(element('dt', {textContent: name}), element('dd', {}, ...value));
    const exact = (ns) => (Math.abs(ns) < 1000 ? timeText(ns) : `${timeText(ns)} (${countText(ns)} ns)`);
    const length = data.end[item] - data.begin[item];
    add('what', kindNames[data.kind[item]]);
    add('where', `${lane.group}: ${lane.name}`);
    add('begins', exact(data.begin[item] - file.window[0]));
    if (file.wall) add('on', `${this.wallText(file, data.begin[item])} UTC`);
    if (data.kind[item] !== Kind.instant) add('takes', exact(length) + (data.open[item] ? ', still open' : ''));
    const self = this.selfOf(item);
    if (self !== null && self !== length) add('of it itself', exact(self));
    if (data.request[item] !== 0) {
      const [name, outcome, place, facts] = data.requests[data.request[item] - 1];
      const isOut = this.timeline.focus === data.request[item];
      add('request', place === null ? name : this.link(place, name), ' ', element('button', {
        textContent: isOut ? 'show all' : 'show only it',
        onclick: () => {
          this.timeline.focus = isOut ? 0 : data.request[item];
          this.choose(item, false);
        }}));
      if (data.kind[item] === Kind.request) {
        add('ended', outcome);
        for (const [key, value] of facts) add(key, value);
      }
    }
    if (data.batch[item] !== 0) {
      const [id, place, members] = data.batches[data.batch[item] - 1];
      add('batch', place === null ? id : this.link(place, id), ` of ${countText(members.length)} ${members.length === 1 ? 'request' : 'requests'}`);
      if (data.kind[item] === Kind.batch) {
        for (const member of members.slice(0, 20)) add('', data.requests[member][2] === null ? data.requests[member][0] : this.link(data.requests[member][2]));
      }
    }
    if (data.cause[item] >= 0) add(data.kind[item] === Kind.blame ? 'evidence' : 'launched by', this.link(data.cause[item]),
      data.kind[item] === Kind.blame ? '' : `, ${timeText(data.begin[item] - data.begin[data.cause[item]])} before`);
    for (const effect of effects.slice(0, 20)) add('launched', this.link(effect));
    if (effects.length > 20) add('', `and ${effects.length >= 100 ? 'many' : effects.length - 20} more`);
    for (const [name, value] of data.args(item)) add(name || 'argument', value);
    if (data.site[item] !== 0) {
      const [path, line, where] = data.sites[data.site[item] - 1];
      if (path) add('source', `${path}${line ? `:${line}` : ''}${where ? ` in ${where}` : ''}`);
    }
    section.replaceChildren(element('h2', {textContent: data.fullName(item)}), list);
  }

  lossesOf() {
    const lines = this.data.files.flatMap((file) => {
      const shown = file.losses.slice(0, 50).map(([who, reason, from, to]) =>
        `${who}: ${reason}, from ${timeText(from - file.window[0])} to ${timeText(to - file.window[0])}`);
      const more = file.loss_count - shown.length;
      return more > 0 ? [...shown, `and ${countText(more)} more of ${file.name}: see pitot info`] : shown;
    }).map((text) => element('li', {textContent: text}));
    return lines.length === 0 ? [] : [element('h3', {textContent: 'Lost records'}), element('ul', {}, ...lines)];
  }

  // ---- sums

  // `area` null: nothing is selected.
  showSums(area) {
    const section = $('sums');
    const all = element('button', {textContent: 'Add up the whole trace', onclick: () => this.selectAll()});
    if (!area) {
      section.replaceChildren(element('p', {className: 'soft', textContent: 'Drag across bars to add up their time: how often each name occurs, its time in all, and its own time without what is inside it.'}), all);
      return;
    }
    const tables = sumsOf(this.data, area.lanes, area.from, area.to);
    const parts = [element('h2', {textContent: `${timeText(area.to - area.from)} of ${countText(area.lanes.length)} ${area.lanes.length === 1 ? 'lane' : 'lanes'}`}),
      element('p', {className: 'soft', textContent: 'Bars are cut at the edges. Self is the time without what is inside.'})];
    for (const {title, rows} of tables) {
      const table = element('table', {}, element('tr', {}, ...['Name', 'Count', 'Total', 'Self'].map((text) => element('th', {textContent: text}))));
      const sum = rows.reduce((one, row) => ({count: one.count + row.count, self: one.self + row.self}), {count: 0, self: 0});
      const line = (name, count, total, self) => element('tr', {}, element('td', {}, name), element('td', {textContent: countText(count)}),
        element('td', {textContent: total === null ? '' : timeText(total), title: total === null ? '' : `${countText(total)} ns`}),
        element('td', {textContent: timeText(self), title: `${countText(self)} ns`}));
      for (const row of rows.slice(0, 100)) {
        const full = this.data.strings[row.name];
        table.append(line(element('button', {textContent: this.data.head.briefs[row.name] ?? full, title: `Search for ${full}`, onclick: () => {
          $('query').value = full;
          this.search();
        }}), row.count, row.total, row.self));
      }
      if (rows.length > 100) table.append(element('tr', {}, element('td', {colSpan: 4, textContent: `and ${countText(rows.length - 100)} more names`})));
      const all = line('all', sum.count, null, sum.self);
      all.className = 'sum';
      table.append(all);
      parts.push(element('h3', {textContent: title}), table);
    }
    if (tables.length === 0) parts.push(element('p', {textContent: 'Nothing is in this area.'}));
    section.replaceChildren(...parts, element('p', {}, all));
  }
  selectAll() {
    this.select({from: this.data.windowBegin, to: this.data.windowEnd, top: 0, bottom: this.timeline.height});
  }
  select(area) {
    const lanes = this.timeline.parts.filter((part) => part.type === 'lane' && part.y < area.bottom && part.y + part.height > area.top).map((part) => part.lane);
    this.timeline.area = area;
    this.showSums({...area, lanes: area.top <= 0 && area.bottom >= this.timeline.height ? this.data.lanes : lanes});
    this.showTab('sums');
    this.timeline.draw();
  }

  // ---- search

  search() {
    const {data, timeline} = this;
    const query = $('query').value.trim().toLowerCase();
    timeline.hitRequests = null;
    timeline.hits = null;
    this.hitCount = 0;
    if (query !== '') {
      const briefs = data.head.briefs;
      timeline.hits = Uint8Array.from(data.strings, (text, i) =>
        (text.toLowerCase().includes(query) || briefs[i]?.toLowerCase().includes(query) ? 1 : 0));
      timeline.hitRequests = Uint8Array.from(data.requests, (request) => (request[0].toLowerCase().includes(query) ? 1 : 0));
      
      for (let i = 0; i < data.count; ++i) this.hitCount += timeline.isHit(i);
    }
    $('found').textContent = query === '' ? '' : this.hitCount === 0 ? 'none' : countText(this.hitCount);
    timeline.draw();
  }
  // The next match by begin, or with -1 the one before; around at the end.
  step(direction) {
    const {data, timeline} = this;
    if (!timeline.hits || this.hitCount === 0) return;
    const isAfter = (a, b) => data.begin[a] > data.begin[b] || (data.begin[a] === data.begin[b] && a > b);
    const from = timeline.item;
    let next = -1, farthest = -1;
    for (let i = 0; i < data.count; ++i) {
      if (!timeline.isHit(i)) continue;
      if (farthest < 0 || isAfter(farthest, i) === direction > 0) farthest = i;
      if (from >= 0 && (i === from || isAfter(i, from) !== direction > 0)) continue;
      if (next < 0 || isAfter(next, i) === direction > 0) next = i;
    }
    this.choose(next >= 0 ? next : farthest, true);
    let place = 0;
    for (let i = 0; i < data.count; ++i) place += timeline.isHit(i) && !isAfter(i, timeline.item) ? 1 : 0;
    $('found').textContent = `${countText(place)} of ${countText(this.hitCount)}`;
  }

  // ---- tabs, overview, size

  showTab(tab) {
    for (const button of document.querySelectorAll('[role=tab]')) {
      const isIt = button.dataset.tab === tab;
      button.setAttribute('aria-selected', String(isIt));
      $(button.dataset.tab).hidden = !isIt;
    }
  }

  // How full threads and streams were all along, waits included, and the part that is shown.
  drawOverview() {
    const canvas = $('overview'), context = canvas.getContext('2d'), {data, timeline} = this;
    const width = canvas.width, height = canvas.height;
    if (width === 0) return;
    const span = data.windowEnd - data.windowBegin;
    if (this.busy?.length !== width) {
      this.busy = new Float64Array(width);
      const rows = data.lanes.filter((lane) => /^(Threads|GPU)/.test(lane.group) && lane.rows.length > 0).map((lane) => lane.rows[0]);
      for (const [first, last] of rows) {
        let place = first;
        for (let x = 0; x < width; ++x) {
          const from = data.windowBegin + x / width * span, to = from + span / width;
          place = firstAbove(data.rowEnd, from, place, last);
          const end = firstNotBelow(data.rowBegin, to, place, last);
          if (end <= place) continue;
          const busy = data.rowBusy[end] - data.rowBusy[place] - Math.max(0, from - data.rowBegin[place]) - Math.max(0, data.rowEnd[end - 1] - to);
          this.busy[x] += Math.max(0, busy) / (to - from) / rows.length;
        }
      }
      const most = this.busy.reduce((a, b) => Math.max(a, b), 0) || 1;
      this.busy = this.busy.map((busy) => busy / most);
    }
    const theme = timeline.theme;
    context.fillStyle = theme.page;
    context.fillRect(0, 0, width, height);
    context.fillStyle = theme.code;
    for (let x = 0; x < width; ++x) context.fillRect(x, height * (1 - 0.9 * this.busy[x]), 1, height);
    const xOf = (ns) => (ns - data.windowBegin) / span * width;
    const left = Math.max(0, xOf(timeline.from)), right = Math.min(width, xOf(timeline.to));
    context.fillStyle = theme.page;
    context.globalAlpha = 0.72;
    context.fillRect(0, 0, left, height);
    context.fillRect(right, 0, width - right, height);
    context.globalAlpha = 1;
    context.fillStyle = theme.text;
    context.fillRect(Math.min(left, width - 2), 0, 2, height);
    context.fillRect(Math.max(0, right - 2), 0, 2, height);
  }

  resize() {
    const overview = $('overview');
    overview.width = Math.round(overview.clientWidth * (window.devicePixelRatio || 1));
    overview.height = Math.round(overview.clientHeight * (window.devicePixelRatio || 1));
    this.busy = null;
    this.timeline.resize();
    this.drawOverview();
  }

  // ---- mouse, touch, keys

  listen() {
    const scroll = $('scroll'), canvas = $('timeline'), {timeline} = this;
    new ResizeObserver(() => this.resize()).observe(scroll);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      timeline.readTheme();
      this.resize();
    });
    scroll.addEventListener('scroll', () => timeline.draw());
    scroll.addEventListener('wheel', (event) => this.wheel(event), {passive: false});
    canvas.addEventListener('pointerdown', (event) => this.press(event));
    canvas.addEventListener('pointermove', (event) => this.move(event));
    canvas.addEventListener('pointerup', (event) => this.release(event));
    canvas.addEventListener('pointercancel', () => this.drag = null);
    canvas.addEventListener('pointerleave', () => {
      $('tip').hidden = true;
      this.pointerX = undefined;
    });
    this.touches = new Map();
    const jump = (event) => {
      if (event.buttons === 0) return;
      const at = this.data.windowBegin + event.offsetX / $('overview').clientWidth * (this.data.windowEnd - this.data.windowBegin);
      const half = (timeline.to - timeline.from) / 2;
      timeline.setView(at - half, at + half);
    };
    $('overview').addEventListener('pointerdown', jump);
    $('overview').addEventListener('pointermove', jump);
    for (const button of document.querySelectorAll('[role=tab]')) button.addEventListener('click', () => this.showTab(button.dataset.tab));
    $('in').addEventListener('click', () => timeline.zoom(0.6));
    $('out').addEventListener('click', () => timeline.zoom(1 / 0.6));
    $('all').addEventListener('click', () => this.showAll());
    $('keys').addEventListener('click', () => $('help').showModal());
    $('query').addEventListener('input', () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.search(), 120);
    });
    $('search').addEventListener('submit', (event) => {
      event.preventDefault();
      clearTimeout(this.typing);
      this.search();
      this.step(1);
    });
    $('previous').addEventListener('click', () => this.step(-1));
    document.addEventListener('keydown', (event) => this.keyDown(event));
    document.addEventListener('keyup', (event) => this.keys.delete(event.key.toLowerCase()));
    window.addEventListener('blur', () => this.keys.clear());
  }

  wheel(event) {
    const {timeline} = this;
    const unit = event.deltaMode === 1 ? 20 : 1;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      timeline.zoom(Math.exp(event.deltaY * unit * 0.004), event.offsetX);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      timeline.pan((event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX) * unit / (timeline.width - timeline.left));
    }
  }

  press(event) {
    const {timeline} = this;
    $('scroll').focus({preventScroll: true});
    $('timeline').setPointerCapture(event.pointerId);
    this.touches.set(event.pointerId, event.offsetX);
    const isMove = event.shiftKey || event.button === 1 || event.pointerType === 'touch';
    this.drag = {x: event.offsetX, y: event.offsetY, from: timeline.from, to: timeline.to, scroll: $('scroll').scrollTop, isMove, isFar: false};
    if (event.button === 1) event.preventDefault();
  }
  move(event) {
    const {timeline, drag} = this;
    this.pointerX = event.offsetX;
    if (!drag || !this.touches.has(event.pointerId)) return this.showTip(event);
    $('tip').hidden = true;
    if (this.touches.size === 2) {
      const [a, b] = this.touches.values();
      this.touches.set(event.pointerId, event.offsetX);
      const [c, d] = this.touches.values();
      timeline.zoom(Math.max(20, Math.abs(a - b)) / Math.max(20, Math.abs(c - d)), (c + d) / 2);
      drag.isFar = true;
      return undefined;
    }
    drag.isFar ||= Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > 4;
    if (!drag.isFar) return undefined;
    if (drag.isMove) {
      const by = (drag.x - event.offsetX) / (timeline.width - timeline.left) * (drag.to - drag.from);
      timeline.setView(drag.from + by, drag.to + by);
      $('scroll').scrollTop = drag.scroll + drag.y - event.offsetY;
      return undefined;
    }
    timeline.area = this.areaOf(event, drag);
    timeline.draw();
    return undefined;
  }
  areaOf(event, drag) {
    const {timeline} = this;
    const xs = [Math.max(drag.x, timeline.left), Math.min(Math.max(event.offsetX, timeline.left), timeline.width)].sort((a, b) => a - b);
    const ys = [drag.y, event.offsetY].sort((a, b) => a - b).map((y) => y - rulerHeight + $('scroll').scrollTop);
    const isOnRuler = drag.y < rulerHeight;
    return {from: Math.round(timeline.nsOf(xs[0])), to: Math.round(timeline.nsOf(xs[1])), top: isOnRuler ? 0 : ys[0], bottom: isOnRuler ? timeline.height : ys[1]};
  }
  release(event) {
    const {timeline, drag} = this;
    this.touches.delete(event.pointerId);
    if (this.touches.size > 0) return;
    this.drag = null;
    if (!drag) return;
    if (drag.isFar) {
      if (!drag.isMove) this.select(this.areaOf(event, drag));
      return;
    }
    const part = timeline.partAt(event.offsetY - rulerHeight + $('scroll').scrollTop);
    if (event.offsetY >= rulerHeight && part && (part.type === 'group' || event.offsetX < timeline.left)) return this.fold(part);
    timeline.area = null;
    this.showSums(null);
    this.choose(timeline.itemAt(event.offsetX, event.offsetY), false);
  }
  fold(part) {
    const {timeline} = this;
    const toggle = (set, key) => (set.has(key) ? set.delete(key) : set.add(key));
    if (part.type === 'group') toggle(timeline.folded, part.key);
    if (part.type === 'lane') toggle(timeline.full, part.lane);
    timeline.layOut();
    timeline.fitSpacer();
    timeline.draw();
  }

  showTip(event) {
    const item = this.timeline.itemAt(event.offsetX, event.offsetY), tip = $('tip');
    tip.hidden = item < 0;
    if (item < 0) return;
    tip.replaceChildren(element('b', {textContent: this.data.briefName(item).slice(0, 200)}),
      ` ${this.data.kind[item] === Kind.instant ? '' : timeText(this.data.end[item] - this.data.begin[item])}`);
    const isRight = event.clientX > innerWidth * 0.6;
    tip.style.left = isRight ? '' : `${event.clientX + 14}px`;
    tip.style.right = isRight ? `${innerWidth - event.clientX + 10}px` : '';
    tip.style.top = `${Math.min(event.clientY + 16, innerHeight - 60)}px`;
  }

  showAll() {
    const {timeline, data} = this;
    timeline.setView(data.windowBegin, data.windowEnd);
  }

  keyDown(event) {
    const key = event.key.toLowerCase(), {timeline} = this;
    if (event.key === 'Escape') {
      $('query').value = '';
      $('query').blur();
      this.search();
      timeline.area = null;
      timeline.focus = 0;
      this.showSums(null);
      this.choose(-1, false);
      return;
    }
    if (event.target === $('query') && event.key === 'Enter' && event.shiftKey) {
      event.preventDefault();
      this.step(-1);
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === 'INPUT' || $('help').open) return;
    if (key === '/') {
      event.preventDefault();
      $('query').focus();
    } else if (key === '?') {
      $('help').showModal();
    } else if (key === '0') {
      this.showAll();
    } else if (key === 'n' || key === 'p') {
      this.step(key === 'n' && !event.shiftKey ? 1 : -1);
    } else if (key === 'f') {
      if (timeline.item >= 0) timeline.setView(...this.around(this.data.begin[timeline.item], this.data.end[timeline.item]));
      else if (timeline.area) timeline.setView(timeline.area.from, timeline.area.to);
    } else if (['w', 'a', 's', 'd', 'arrowleft', 'arrowright'].includes(key)) {
      event.preventDefault();
      const isFirst = this.keys.size === 0;
      this.keys.add(key);
      if (isFirst) this.glide(performance.now() - 60);
    }
  }
  // Moves as long as keys are down.
  glide(before) {
    if (this.keys.size === 0) return;
    const now = performance.now(), seconds = Math.min(0.1, (now - before) / 1000), {timeline} = this;
    if (this.keys.has('w')) timeline.zoom(Math.exp(-2.5 * seconds), this.pointerX);
    if (this.keys.has('s')) timeline.zoom(Math.exp(2.5 * seconds), this.pointerX);
    if (this.keys.has('a') || this.keys.has('arrowleft')) timeline.pan(-1.2 * seconds);
    if (this.keys.has('d') || this.keys.has('arrowright')) timeline.pan(1.2 * seconds);
    requestAnimationFrame(() => this.glide(now));
  }
}

globalThis.pitotView = readBlock().then((bytes) => new Page(new Data(bytes)));
pitotView.catch((error) => {
  $('facts').textContent = `This browser cannot show the trace (${error.message}). It needs DecompressionStream: Chrome 80, Firefox 113, Safari 16.4 or later.`;
});
