// SPDX-License-Identifier: Apache-2.0
// Sums of a selection, by the rules of `pitot top`: whole ns, cut at the edges of the selection.

const families = [
  {title: 'Scopes, operators and waits', kinds: [Kind.scope, Kind.operator, Kind.wait], nests: true, isOfThread: true},
  {title: 'Calls of the GPU\'s API', kinds: [Kind.call, Kind.waitingCall], nests: true},
  {title: 'GPU work', kinds: [Kind.kernel, Kind.copy, Kind.set, Kind.graph]},
  {title: 'GPU work between CUDA events', kinds: [Kind.span]},
  {title: 'Requests', kinds: [Kind.request]},
  {title: 'Stages of requests', kinds: [Kind.stage]},
  {title: 'Batches', kinds: [Kind.batch]},
  {title: 'Stays in queues', kinds: [Kind.queue]},
  {title: 'Asynchronous spans', kinds: [Kind.async]},
  {title: 'Driver and profiler', kinds: [Kind.overhead]},
  {title: 'Steps of the slow request', kinds: [Kind.blame]},
  {title: 'Instants', kinds: [Kind.instant]},
];

// Adds the items of one lane to `rows`, a map from names to {count, total, self}.
function sumLane(data, lane, family, begin, end, rows) {
  if (family.isOfThread) begin = Math.max(begin, lane.known);
  const until = new Map();  // by name: time of a name within itself counts once
  const names = [], ends = [];  // of the open items, the innermost last
  let now = -Infinity;
  const advance = (to) => {
    while (names.length > 0 && now < to) {
      const top = ends[ends.length - 1];
      if (top > now) {
        const at = Math.min(top, to);
        rows.get(names[names.length - 1]).self += at - now;
        now = at;
      }
      if (top > now) continue;
      names.pop();
      ends.pop();
    }
    now = to;
  };
  for (let i = lane.first; i < lane.first + lane.items; ++i) {
    if (data.begin[i] >= end) break;
    if (!family.kinds.includes(data.kind[i])) continue;
    if (data.begin[i] < begin && data.end[i] <= begin) continue;
    const from = Math.max(data.begin[i], begin), to = Math.min(data.end[i], end);
    const name = data.name[i];
    let row = rows.get(name);
    if (!row) rows.set(name, row = {name, count: 0, total: 0, self: 0});
    ++row.count;
    if (!family.nests || !lane.nests) {
      row.total += to - from;
      row.self += to - from;
      continue;
    }
    row.total += Math.max(0, to - Math.max(from, until.get(name) ?? -Infinity));
    until.set(name, Math.max(until.get(name) ?? -Infinity, to));
    advance(from);
    if (to > from) {
      names.push(name);
      ends.push(to);
    }
  }
  advance(Infinity);
}

// For each family with items in the selection: its title and rows, the largest first.
function sumsOf(data, lanes, begin, end) {
  const tables = [];
  for (const family of families) {
    const rows = new Map();
    for (const lane of lanes) {
      const [first, last] = data.files[lane.file].window;  // as `pitot top`: nothing outside of it counts
      sumLane(data, lane, family, Math.max(begin, first), Math.min(end, last), rows);
    }
    const sorted = [...rows.values()].sort((a, b) => b.self - a.self || b.count - a.count);
    if (sorted.length > 0) tables.push({title: family.title, rows: sorted});
  }
  return tables;
}
