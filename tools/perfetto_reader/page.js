// SPDX-License-Identifier: Apache-2.0
// Runs Perfetto's trace processor in its worker and speaks its protocol: a stream of messages, each written as field 1 of
// perfetto.protos.TraceProcessorRpcStream (protos/perfetto/trace_processor/trace_processor.proto gives the numbers used here).
'use strict';

const WIRE_VARINT = 0;
const WIRE_FIXED64 = 1;
const WIRE_BYTES = 2;
const WIRE_FIXED32 = 5;

// TraceProcessorRpc
const SEQ = 1;
const REQUEST = 2;
const FATAL_ERROR = 5;
const APPEND_DATA = 101;
const QUERY_ARGS = 103;
const APPEND_RESULT = 201;
const QUERY_RESULT = 203;
const FINALIZE_RESULT = 212;
// TraceProcessorRpc.TraceProcessorMethod
const METHOD_APPEND = 1;
const METHOD_FINALIZE = 2;
const METHOD_QUERY = 3;
// QueryResult.CellsBatch.CellType
const CELL_NULL = 1;
const CELL_VARINT = 2;
const CELL_FLOAT64 = 3;
const CELL_STRING = 4;
const CELL_BLOB = 5;

const utf8 = {encode: (s) => new TextEncoder().encode(s), decode: (b) => new TextDecoder().decode(b)};

function concat(parts) {
  const out = new Uint8Array(parts.reduce((size, p) => size + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

function varint(value) {  // Only for sending: the value is below 2^53.
  const out = [];
  for (; value >= 128; value = Math.floor(value / 128)) out.push((value % 128) | 128);
  out.push(value);
  return Uint8Array.from(out);
}

const numberField = (id, value) => concat([varint(id * 8 + WIRE_VARINT), varint(value)]);
const bytesField = (id, bytes) => concat([varint(id * 8 + WIRE_BYTES), varint(bytes.length), bytes]);

class Cursor {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  done() {
    return this.at >= this.bytes.length;
  }
  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      if (this.done()) throw new Error('the trace processor sent a message ending inside a number');
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }
  take(size) {
    if (this.at + size > this.bytes.length) throw new Error('the trace processor sent a message ending too early');
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }
}

// Calls visit(id, value) for each field; value is a BigInt or the bytes.
function forEachField(bytes, visit) {
  const cursor = new Cursor(bytes);
  while (!cursor.done()) {
    const tag = Number(cursor.varint());
    const wire = tag % 8;
    let value;
    if (wire === WIRE_VARINT) value = cursor.varint();
    else if (wire === WIRE_BYTES) value = cursor.take(Number(cursor.varint()));
    else if (wire === WIRE_FIXED64) value = cursor.take(8);
    else if (wire === WIRE_FIXED32) value = cursor.take(4);
    else throw new Error(`the trace processor sent wire type ${wire}`);
    visit((tag - wire) / 8, value);
  }
}

function packedVarints(bytes) {
  const cursor = new Cursor(bytes);
  const out = [];
  while (!cursor.done()) out.push(cursor.varint());
  return out;
}

function packedDoubles(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({length: bytes.length / 8}, (_, i) => view.getFloat64(8 * i, true));
}

const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');

// One batch of a query's cells, row by row, each written as JSON text. A 64-bit integer does not fit a JavaScript number,
// and JSON.stringify() refuses BigInt. Infinities are written in the form of Python's json.
function cellsAsJson(batch) {
  let types = [];
  let integers = [];
  let doubles = [];
  let strings = [];
  const blobs = [];
  let isLast = false;
  forEachField(batch, (id, value) => {
    if (id === 1) types = packedVarints(value).map(Number);
    else if (id === 2) integers = packedVarints(value);
    else if (id === 3) doubles = packedDoubles(value);
    else if (id === 4) blobs.push(value);
    else if (id === 5) strings = utf8.decode(value).split('\0');
    else if (id === 6) isLast = value !== 0n;
  });
  const next = [0, 0, 0, 0, 0, 0];
  const cells = types.map((type) => {
    const i = next[type]++;
    switch (type) {
      case CELL_NULL: return 'null';
      case CELL_VARINT: return BigInt.asIntN(64, integers[i]).toString();
      case CELL_FLOAT64: return Number.isFinite(doubles[i]) ? JSON.stringify(doubles[i]) : String(doubles[i]);
      case CELL_STRING: return JSON.stringify(strings[i]);
      case CELL_BLOB: return `{"hex":"${hex(blobs[i])}"}`;
      default: throw new Error(`the trace processor sent a cell of type ${type}`);
    }
  });
  return {cells, isLast};
}

class TraceProcessor {
  constructor(workerUrl) {
    this.received = new Uint8Array(0);
    this.seq = 0;
    this.failure = null;
    this.pending = null;  // {onMessage, resolve, reject} of the one request in flight.
    this.worker = new Worker(workerUrl);
    this.worker.onerror = (e) => this.fail(new Error(`the trace processor crashed: ${e.message || 'worker did not start'}`));
    const channel = new MessageChannel();
    this.port = channel.port2;
    this.port.onmessage = (e) => {
      try {
        this.receive(e.data);
      } catch (error) {
        this.fail(error);
      }
    };
    this.worker.postMessage(channel.port1, [channel.port1]);
  }

  close() {
    this.worker.terminate();
  }

  // After a failure the stream of messages cannot be trusted any more: all later requests fail with the same error.
  fail(error) {
    this.failure = this.failure || error;
    this.pending?.reject(this.failure);
    this.pending = null;
  }

  // A message may come in pieces, and a piece may contain several messages.
  receive(piece) {
    this.received = this.received.length ? concat([this.received, piece]) : piece;
    while (this.received.length) {
      const cursor = new Cursor(this.received);
      let message;
      try {
        cursor.varint();
        message = cursor.take(Number(cursor.varint()));
      } catch (incomplete) {
        return;
      }
      this.received = this.received.subarray(cursor.at);
      this.handle(message);
    }
  }

  handle(message) {
    let done = false;
    forEachField(message, (id, value) => {
      if (id === FATAL_ERROR) throw new Error(utf8.decode(value));
      if (id >= APPEND_RESULT && this.pending) done = this.pending.onMessage(value) || done;
    });
    if (done) {
      const {resolve} = this.pending;
      this.pending = null;
      resolve();
    }
  }

  // Sends one request. onMessage gets the body of each answer, and returns whether it was the last.
  request(method, args, onMessage) {
    if (this.failure) return Promise.reject(this.failure);
    return new Promise((resolve, reject) => {
      this.pending = {onMessage, resolve, reject};
      this.port.postMessage(bytesField(1, concat([numberField(SEQ, ++this.seq), numberField(REQUEST, method), ...args])));
    });
  }

  async load(method, args, errorField) {
    let error = '';
    await this.request(method, args, (result) => {
      forEachField(result, (id, value) => {
        if (id === errorField) error = utf8.decode(value);
      });
      return true;
    });
    if (error) this.fail(new Error(error));
    if (this.failure) throw this.failure;
  }

  append(bytes) {
    return this.load(METHOD_APPEND, [bytesField(APPEND_DATA, bytes)], 2);
  }

  finalize() {
    return this.load(METHOD_FINALIZE, [], 1);
  }

  // Returns the result as the text of {"columns": [...], "rows": [[...], ...]} or of {"error": "..."}.
  async query(sql) {
    const columns = [];
    const rows = [];
    let error = '';
    await this.request(METHOD_QUERY, [bytesField(QUERY_ARGS, bytesField(1, utf8.encode(sql)))], (result) => {
      let isLast = false;
      forEachField(result, (id, value) => {
        if (id === 1) columns.push(utf8.decode(value));
        else if (id === 2) error = utf8.decode(value);
        else if (id === 3) {
          const batch = cellsAsJson(value);
          isLast = batch.isLast;
          for (let i = 0; i < batch.cells.length; i += columns.length) {
            rows.push(`[${batch.cells.slice(i, i + columns.length).join(',')}]`);
          }
        }
      });
      return isLast || error !== '';
    });
    return error ? JSON.stringify({error}) : `{"columns":${JSON.stringify(columns)},"rows":[${rows.join(',')}]}`;
  }
}

let processor = null;

async function openTrace(workerUrl, traceUrl) {
  processor?.close();
  processor = new TraceProcessor(workerUrl);
  const response = await fetch(traceUrl, {cache: 'no-store'});
  if (!response.ok) throw new Error(`cannot read the trace: HTTP ${response.status}`);
  // Piece by piece, so that a large trace is not held twice.
  for (const reader = response.body.getReader(); ;) {
    const {done, value} = await reader.read();
    if (done) break;
    await processor.append(value);
  }
  await processor.finalize();
}

function query(sql) {
  return processor.query(sql);
}
