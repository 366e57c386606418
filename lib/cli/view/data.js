// SPDX-License-Identifier: Apache-2.0
// The data block: lanes of items in columns (docs/reference/formats/view.md).
// Every text of a trace is untrusted. It reaches the page by textContent and fillText only.

const Kind = {
  scope: 0, operator: 1, wait: 2, instant: 3, call: 4, waitingCall: 5, kernel: 6, copy: 7, set: 8, graph: 9, span: 10,
  request: 11, stage: 12, batch: 13, queue: 14, async: 15, watch: 16, overhead: 17, blame: 18,
};
const kindNames = ['scope', 'operator', 'wait', 'instant', 'call', 'call that waits for a GPU', 'kernel', 'copy', 'memory set',
  'CUDA graph', 'GPU work between two CUDA events', 'request', 'stage of a request', 'batch', 'stay in a queue',
  'asynchronous span', 'watcher\'s record', 'driver or profiler', 'step of the request\'s time'];

async function readBlock() {
  const element = document.getElementById('data');
  const text = atob(element.textContent);
  element.remove();
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Fills `into` with numbers of 7 bits a byte. Exact up to 2^53.
function unpack(bytes, at, into) {
  for (let i = 0; i < into.length; ++i) {
    let byte = bytes[at++];
    let value = byte & 127;
    for (let scale = 128; byte >= 128; scale *= 128) {
      byte = bytes[at++];
      value += (byte & 127) * scale;
    }
    into[i] = value;
  }
  return into;
}
const unzigzag = (value) => (value % 2 === 0 ? value / 2 : -(value + 1) / 2);

// The first place from `from` to `to` - 1 whose value is more than `value`; otherwise `to`.
function firstAbove(values, value, from, to) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] > value) to = middle;
    else from = middle + 1;
  }
  return from;
}
const firstNotBelow = (values, value, from, to) => {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] >= value) to = middle;
    else from = middle + 1;
  }
  return from;
};

class Data {
  constructor(bytes) {
    this.bytes = bytes;
    const size = new DataView(bytes.buffer).getUint32(0, true);
    this.head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
    this.places = {};
    let at = 4 + size;
    for (const [name, length] of Object.entries(this.head.columns)) {
      this.places[name] = at;
      at += length;
    }
    this.files = this.head.files;
    this.strings = this.head.strings;
    this.count = this.head.items;
    this.readItems();
    this.readCounters();
    this.makeRows();
    this.requests = this.files.flatMap((file) => file.requests);
    this.batches = this.files.flatMap((file) => file.batches);
    this.sites = this.files.flatMap((file) => file.sites);
    this.windowBegin = Math.min(...this.files.map((file) => file.window[0]));
    this.windowEnd = Math.max(...this.files.map((file) => file.window[1]), this.windowBegin + 1);
  }

  column(name, into) {
    return unpack(this.bytes, this.places[name], into);
  }

  readItems() {
    const n = this.count;
    const begin = this.column('begin', new Float64Array(n));
    const end = this.column('duration', new Float64Array(n));
    this.lanes = this.head.lanes;
    let first = 0;
    for (const lane of this.lanes) {
      lane.first = first;
      first += lane.items;
      let before = 0;
      for (let i = lane.first; i < first; ++i) {
        before += unzigzag(begin[i]);
        begin[i] = before;
        end[i] += before;
      }
    }
    this.begin = begin;
    this.end = end;
    this.name = this.column('name', new Uint32Array(n));
    this.kind = this.column('kind', new Uint8Array(n));
    this.open = new Uint8Array(n);
    this.level = this.column('level', new Uint32Array(n));
    this.request = this.column('request', new Uint32Array(n));  // 0: none
    this.batch = this.column('batch', new Uint32Array(n));
    this.site = this.column('site', new Uint32Array(n));
    const cause = this.column('cause', new Float64Array(n));
    this.cause = new Int32Array(n);  // -1: none
    this.argAt = this.column('arg_bytes', new Uint32Array(n));  // then the end of its bytes
    let last = 0, args = 0;
    for (let i = 0; i < n; ++i) {
      this.open[i] = this.kind[i] & 1;
      this.kind[i] >>= 1;
      if (cause[i] !== 0) last += unzigzag(cause[i] - 1);
      this.cause[i] = cause[i] === 0 ? -1 : last;
      args += this.argAt[i];
      this.argAt[i] = args;
    }
  }

  readCounters() {
    this.counters = this.head.counters;
    const count = this.counters.reduce((sum, counter) => sum + counter.samples, 0);
    const at = this.column('sample_at', new Float64Array(count));
    const values = new DataView(this.bytes.buffer, this.places.sample, 8 * count);
    let first = 0;
    for (const counter of this.counters) {
      counter.at = at.subarray(first, first + counter.samples);
      counter.values = new Float64Array(counter.samples);
      let before = 0;
      counter.least = 0;
      counter.most = 0;
      for (let i = 0; i < counter.samples; ++i) {
        before += unzigzag(counter.at[i]);
        counter.at[i] = before;
        const value = values.getFloat64(8 * (first + i), true);  // NaN: unknown from then on
        counter.values[i] = value;
        if (value < counter.least) counter.least = value;
        if (value > counter.most) counter.most = value;
      }
      first += counter.samples;
    }
  }

  // Each line of a lane is a run of places. Its items do not overlap, so that begins and ends ascend.
  makeRows() {
    const n = this.count;
    this.rowItem = new Uint32Array(n);
    this.rowBegin = new Float64Array(n);
    this.rowEnd = new Float64Array(n);
    this.rowBusy = new Float64Array(n + 1);  // the time of all items before this place
    let place = 0;
    for (const lane of this.lanes) {
      const counts = [];
      const drawn = (i) => this.level[i] < 254 || this.kind[i] >= Kind.kernel;
      for (let i = lane.first; i < lane.first + lane.items; ++i) {
        if (!drawn(i)) continue;
        while (counts.length <= this.level[i]) counts.push(0);
        ++counts[this.level[i]];
      }
      lane.rows = [];  // pairs of places
      for (const count of counts) {
        lane.rows.push([place, place]);
        place += count;
      }
      for (let i = lane.first; i < lane.first + lane.items; ++i) {
        if (!drawn(i)) continue;
        const at = lane.rows[this.level[i]][1]++;
        this.rowItem[at] = i;
        this.rowBegin[at] = this.begin[i];
        this.rowEnd[at] = this.end[i];
      }
    }
    for (let i = 0; i < n; ++i) this.rowBusy[i + 1] = this.rowBusy[i] + this.rowEnd[i] - this.rowBegin[i];
    this.makePyramid();
  }

  // The place of the longest item of each 16 places, of each 256, and so on.
  makePyramid() {
    const length = (place) => this.rowEnd[place] - this.rowBegin[place];
    this.pyramid = [];
    let below = this.rowItem.map((_, place) => place);
    while (below.length > 16) {
      const level = new Uint32Array(Math.ceil(below.length / 16));
      for (let i = 0; i < level.length; ++i) {
        let best = below[16 * i];
        for (let k = 16 * i + 1; k < Math.min(16 * i + 16, below.length); ++k) {
          if (length(below[k]) > length(best)) best = below[k];
        }
        level[i] = best;
      }
      this.pyramid.push(level);
      below = level;
    }
  }
  // The place of the longest item from place `from` to `to` - 1. O(log n).
  longest(from, to) {
    let best = from;
    while (from < to) {
      let level = 0, size = 1;
      while (level < this.pyramid.length && from % (16 * size) === 0 && from + 16 * size <= to) {
        ++level;
        size *= 16;
      }
      const place = level === 0 ? from : this.pyramid[level - 1][from / size];
      if (this.rowEnd[place] - this.rowBegin[place] > this.rowEnd[best] - this.rowBegin[best]) best = place;
      from += size;
    }
    return best;
  }

  laneOf(item) {
    return this.lanes.find((lane) => item >= lane.first && item < lane.first + lane.items);
  }
  fullName(item) {
    return this.strings[this.name[item]];
  }
  // As it is drawn: kernels without their parameters, requests with their id.
  briefName(item) {
    const name = this.head.briefs[this.name[item]] ?? this.fullName(item);
    return this.kind[item] === Kind.request ? `${name} ${this.requests[this.request[item] - 1][0]}` : name;
  }

  // Pairs of name and text.
  args(item) {
    const site = this.site[item] === 0 ? null : this.sites[this.site[item] - 1];
    let at = this.places.args + (item === 0 ? 0 : this.argAt[item - 1]);
    if (!site || at === this.places.args + this.argAt[item]) return [];
    const next = () => {
      let value = 0n, byte, shift = 0n;
      do {
        byte = this.bytes[at++];
        value |= BigInt(byte & 127) << shift;
        shift += 7n;
      } while (byte >= 128);
      return value;
    };
    return site[3].map(([name, type]) => {
      if (type >= 5) return [name, this.strings[Number(next())]];
      if (type === 3) {
        at += 8;
        return [name, String(new DataView(this.bytes.buffer, at - 8, 8).getFloat64(0, true))];
      }
      const value = next();
      if (type === 4) return [name, value === 0n ? 'false' : 'true'];
      return [name, String(type === 1 ? (value & 1n ? -(value >> 1n) - 1n : value >> 1n) : value)];
    });
  }
}
