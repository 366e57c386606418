// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/dump.h"

#include <array>
#include <string>

#include "pitot/model/trace.h"
#include "serialize/crc32c.h"
#include "serialize/dump_format.h"
#include "serialize/wire.h"

PITOT_NAMESPACE_BEGIN
namespace {

using dump_format::ChunkType;
using serialize::WireBuffer;
using serialize::ZigZag;

// Row + 1, so that none is 0.
uint32_t RowPlusOne(uint32_t row) { return row + 1; }
uint64_t Length(int64_t duration_ns) { return static_cast<uint64_t>(duration_ns) + 1; }
uint64_t Uint(int64_t value) { return static_cast<uint64_t>(value); }

uint64_t EncodeArg(ArgType type, model::ArgValue value) {
  if (type == ArgType::kInt) return ZigZag(static_cast<int64_t>(value));
  if (type == ArgType::kDouble) return __builtin_bswap64(value);
  return value;
}

// Frames payloads as chunks.
class ChunkWriter {
 public:
  explicit ChunkWriter(ByteSink* sink) : sink_(sink) {}
  bool ok() const { return ok_; }
  uint32_t chunks() const { return chunks_; }

  void Write(ChunkType type, const WireBuffer& payload) {
    head_.Clear();
    head_.RawFixed32(dump_format::kMagic);
    head_.RawFixed32(static_cast<uint32_t>(type));  // type and, above it, no flags
    head_.RawFixed32(static_cast<uint32_t>(payload.size()));
    head_.RawFixed32(chunks_++);
    const uint32_t crc = serialize::ExtendCrc32c(0, head_.data(), head_.size());
    head_.RawFixed32(serialize::ExtendCrc32c(crc, payload.data(), payload.size()));
    ok_ = ok_ && sink_->Write(head_.data(), head_.size()) && sink_->Write(payload.data(), payload.size());
  }

 private:
  ByteSink* sink_;
  WireBuffer head_;
  uint32_t chunks_ = 0;
  bool ok_ = true;
};

// One table's rows on their way into chunks: columns are filled side by side, then written one after another as packed
// fields. `last` is what deltas of a column are to.
class TableWriter {
 public:
  TableWriter(ChunkWriter* out, ChunkType type, bool has_first_row)
      : out_(out), type_(type), has_first_row_(has_first_row) {}

  void Put(uint32_t field, uint64_t value) { columns_[field].RawVarint(value); }
  void PutDelta(uint32_t field, int64_t value) {
    columns_[field].RawZigZag(value - last_[field]);
    last_[field] = value;
  }
  void PutFixed(uint32_t field, uint64_t value) { columns_[field].RawFixed64(value); }
  void PutDouble(uint32_t field, double value) { columns_[field].RawDouble(value); }
  // A field of the chunk rather than of its rows.
  void SetScalar(uint32_t field, uint64_t value) { scalar_field_ = field, scalar_ = value; }

  // Ends a row; writes a chunk when there is enough for one.
  void EndRow() {
    ++rows_in_chunk_;
    if (rows_in_chunk_ % kRowsPerCheck == 0 && Bytes() >= dump_format::kPayloadGoalBytes) Flush();
  }
  // Ends a row whose columns may hold a lot, or that should not be lost with many others.
  void EndBigRow() {
    ++rows_in_chunk_;
    if (Bytes() >= dump_format::kBigRowsGoalBytes) Flush();
  }
  void Flush() {
    if (rows_in_chunk_ == 0) return;
    payload_.Clear();
    if (has_first_row_) payload_.Varint(dump_format::kFirstRow, rows_);
    if (scalar_field_ != 0) payload_.Varint(scalar_field_, scalar_);
    for (uint32_t field = 0; field < columns_.size(); ++field) {
      if (columns_[field].size() != 0) payload_.Bytes(field, columns_[field].data(), columns_[field].size());
      columns_[field].Clear();
    }
    out_->Write(type_, payload_);
    rows_ += rows_in_chunk_;
    rows_in_chunk_ = 0;
    last_ = {};
  }
  // Flushes; returns how many rows there were.
  uint64_t Finish() {
    Flush();
    return rows_;
  }

 private:
  static constexpr uint32_t kMaxFields = dump_format::requests::kEnd;
  static constexpr uint32_t kRowsPerCheck = 64;

  size_t Bytes() const {
    size_t bytes = 0;
    for (const WireBuffer& column : columns_) bytes += column.size();
    return bytes;
  }

  ChunkWriter* out_;
  ChunkType type_;
  bool has_first_row_;
  uint32_t scalar_field_ = 0;
  uint64_t scalar_ = 0;
  std::array<WireBuffer, kMaxFields> columns_;
  std::array<int64_t, kMaxFields> last_{};
  WireBuffer payload_;
  uint64_t rows_ = 0;
  uint64_t rows_in_chunk_ = 0;
};

void WriteHeader(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::header;
  WireBuffer payload;
  payload.Varint(field::kVersionMajor, dump_format::kVersionMajor);
  payload.Varint(field::kVersionMinor, dump_format::kVersionMinor);
  payload.Int(field::kPid, trace.pid);
  payload.Varint(field::kProcessName, trace.process_name);
  payload.Int(field::kWindowBegin, trace.window_begin_ns);
  payload.Int(field::kWindowEnd, trace.window_end_ns);
  payload.Int(field::kMonotonic, trace.clock.monotonic_ns);
  payload.Int(field::kRealtime, trace.clock.realtime_ns);
  payload.Int(field::kBoottime, trace.clock.boottime_ns);
  payload.Varint(field::kCycleCounter, trace.clock.cycle_counter);
  payload.Double(field::kTicksPerNs, trace.clock.ticks_per_ns);
  payload.Int(field::kPairWidth, trace.clock.pair_width_ns);
  out->Write(ChunkType::kHeader, payload);
}

uint64_t WriteStrings(const model::Trace& trace, ChunkWriter* out) {
  WireBuffer sizes, text, payload;
  uint32_t first = 0;
  const uint32_t count = trace.strings.size();
  for (uint32_t id = 0; id < count; ++id) {
    sizes.RawVarint(trace.strings[id].size());
    text.RawBytes(trace.strings[id].data(), trace.strings[id].size());
    if (id + 1 < count && sizes.size() + text.size() < dump_format::kPayloadGoalBytes) continue;
    payload.Clear();
    payload.Varint(dump_format::kFirstRow, first);
    payload.Bytes(dump_format::strings::kSize, sizes.data(), sizes.size());
    payload.Bytes(dump_format::strings::kText, text.data(), text.size());
    out->Write(ChunkType::kStrings, payload);
    sizes.Clear();
    text.Clear();
    first = id + 1;
  }
  return count;
}

uint64_t WriteSites(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::sites;
  TableWriter table(out, ChunkType::kSites, true);
  for (const model::SiteRow& site : trace.sites) {
    table.Put(field::kKind, static_cast<uint64_t>(site.kind));
    table.Put(field::kName, site.name);
    table.Put(field::kFile, site.file);
    table.Put(field::kFunction, site.function);
    table.Put(field::kLine, site.line);
    table.Put(field::kFlags,
              (site.unloaded ? field::kUnloaded : 0) | (site.name_is_first_arg ? field::kNameIsFirstArg : 0));
    table.Put(field::kArgCount, site.arg_names.size());
    for (const model::StringId name : site.arg_names) table.Put(field::kArgName, name);
    for (const ArgType type : site.arg_types) table.Put(field::kArgType, static_cast<uint64_t>(type));
    table.EndBigRow();
  }
  return table.Finish();
}

uint64_t WriteThreads(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::threads;
  TableWriter table(out, ChunkType::kThreads, true);
  for (const model::ThreadRow& thread : trace.threads) {
    table.Put(field::kNumber, thread.number);
    table.Put(field::kTid, Uint(thread.tid));
    table.Put(field::kName, thread.name);
    table.Put(field::kExited, thread.exited);
    table.Put(field::kHistoryBegin, Uint(thread.history_begin_ns));
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteRequests(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::requests;
  TableWriter table(out, ChunkType::kRequests, true);
  for (const model::RequestRow& request : trace.requests) {
    table.PutFixed(field::kId, request.id);
    table.Put(field::kParentId, request.parent_id);
    table.PutFixed(field::kTraceIdHigh, request.trace_id_high);
    table.PutFixed(field::kTraceIdLow, request.trace_id_low);
    table.Put(field::kRoute, request.route);
    table.Put(field::kSizeBucket, request.size_bucket);
    table.PutDelta(field::kBegin, request.begin_ns);
    table.Put(field::kLength, Length(request.duration_ns));
    table.Put(field::kFlags,
              (request.begin_known ? field::kBeginKnown : 0) | (request.end_known ? field::kEndKnown : 0));
    table.Put(field::kOutcome, static_cast<uint64_t>(request.outcome));
    table.Put(field::kBeginThread, RowPlusOne(request.begin_thread));
    table.Put(field::kEndThread, RowPlusOne(request.end_thread));
    table.Put(field::kDeadline, Uint(request.deadline_ns));
    table.Put(field::kOutputTokens, request.output_tokens);
    table.Put(field::kFirstToken, Uint(request.first_token_ns));
    table.Put(field::kMaxTokenGap, Uint(request.max_token_gap_ns));
    table.Put(field::kLabelCount, request.labels.size());
    for (const model::Label& label : request.labels) {
      table.Put(field::kLabelKey, label.key);
      table.Put(field::kLabelValue, label.value);
    }
    table.Put(field::kSizeCount, request.sizes.size());
    for (const model::Size& size : request.sizes) {
      table.Put(field::kSizeName, size.name);
      table.PutDouble(field::kSizeValue, size.value);
    }
    table.Put(field::kStageCount, request.stages.size());
    for (const model::Stage& stage : request.stages) {
      table.Put(field::kStageName, stage.name);
      table.PutDelta(field::kStageBegin, stage.begin_ns);
      table.Put(field::kStageLength, Length(stage.duration_ns));
    }
    table.EndBigRow();
  }
  return table.Finish();
}

uint64_t WriteBatches(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::batches;
  TableWriter table(out, ChunkType::kBatches, true);
  for (const model::BatchRow& batch : trace.batches) {
    table.PutFixed(field::kId, batch.id);
    table.Put(field::kExecutor, batch.executor);
    table.Put(field::kThread, RowPlusOne(batch.thread));
    table.PutDelta(field::kBegin, batch.begin_ns);
    table.Put(field::kLength, Length(batch.duration_ns));
    table.Put(field::kSubmitted, Uint(batch.submitted_ns));
    table.Put(field::kClose, batch.close);
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteMembers(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::members;
  TableWriter table(out, ChunkType::kMembers, false);
  for (const model::MemberRow& member : trace.members) {
    table.Put(field::kBatch, member.batch);
    table.Put(field::kRequest, member.request);
    table.PutDelta(field::kJoin, member.join_ns);
    table.Put(field::kLeave, Uint(member.leave_ns));
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteHandoffs(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::handoffs;
  TableWriter table(out, ChunkType::kHandoffs, false);
  for (const model::HandoffRow& handoff : trace.handoffs) {
    table.Put(field::kRequest, handoff.request);
    table.Put(field::kQueue, handoff.queue);
    table.Put(field::kFromThread, RowPlusOne(handoff.from_thread));
    table.Put(field::kToThread, RowPlusOne(handoff.to_thread));
    table.PutDelta(field::kEnqueue, handoff.enqueue_ns);
    table.Put(field::kTake, Uint(handoff.take_ns));
    table.Put(field::kBatch, RowPlusOne(handoff.batch));
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteAsyncs(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::asyncs;
  TableWriter table(out, ChunkType::kAsyncs, false);
  for (const model::AsyncRow& async : trace.asyncs) {
    table.Put(field::kSite, async.site);
    table.Put(field::kRequest, async.request);
    table.Put(field::kBeginThread, RowPlusOne(async.begin_thread));
    table.Put(field::kEndThread, RowPlusOne(async.end_thread));
    table.PutDelta(field::kBegin, async.begin_ns);
    table.Put(field::kLength, Length(async.duration_ns));
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteTokens(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::tokens;
  TableWriter table(out, ChunkType::kTokens, false);
  for (const model::TokenRow& token : trace.tokens) {
    table.Put(field::kRequest, token.request);
    table.Put(field::kThread, RowPlusOne(token.thread));
    table.PutDelta(field::kAt, token.at_ns);
    table.Put(field::kCount, token.count);
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteLosses(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::losses;
  TableWriter table(out, ChunkType::kLosses, false);
  for (const model::LossRow& loss : trace.losses) {
    table.Put(field::kThread, RowPlusOne(loss.thread));
    table.Put(field::kReason, static_cast<uint64_t>(loss.reason));
    table.Put(field::kBegin, Uint(loss.begin_ns));
    table.Put(field::kEndNs, Uint(loss.end_ns));
    table.Put(field::kEvents, loss.events);
    table.Put(field::kBytes, loss.bytes);
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteFirings(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::firings;
  TableWriter table(out, ChunkType::kFirings, false);
  for (const model::FiringRow& firing : trace.firings) {
    table.Put(field::kAt, Uint(firing.at_ns));
    table.PutFixed(field::kRequestId, firing.request_id);
    table.Put(field::kCause, firing.cause);
    table.Put(field::kDetail, firing.detail);
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteAttributes(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::attributes;
  TableWriter table(out, ChunkType::kAttributes, false);
  for (const model::Attribute& attribute : trace.attributes) {
    table.Put(field::kKey, attribute.key);
    table.Put(field::kValue, attribute.value);
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteEvents(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::events;
  const model::EventColumns& events = trace.events;
  TableWriter table(out, ChunkType::kEvents, false);
  for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
    table.Flush();
    table.SetScalar(field::kThread, thread);
    const uint32_t first = trace.threads[thread].first_event, last = first + trace.threads[thread].event_count;
    for (uint32_t event = first; event < last; ++event) {
      table.PutDelta(field::kBegin, events.begin_ns[event]);
      table.Put(field::kLength, Length(events.duration_ns[event]));
      table.Put(field::kSite, events.site[event]);
      table.PutDelta(field::kRequest, RowPlusOne(events.request[event]));
      table.PutDelta(field::kBatch, RowPlusOne(events.batch[event]));
      const std::vector<ArgType>& types = trace.sites[events.site[event]].arg_types;
      const uint32_t first_arg = events.args[event];
      const size_t count = first_arg == model::kNone ? 0 : types.size();
      table.Put(field::kArgCount, count);
      for (size_t i = 0; i < count; ++i) table.Put(field::kArg, EncodeArg(types[i], trace.arg_values[first_arg + i]));
      table.EndRow();
    }
    if (!out->ok()) break;
  }
  return table.Finish();
}

uint64_t WriteDevices(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::devices;
  TableWriter table(out, ChunkType::kDevices, true);
  for (const model::DeviceRow& device : trace.devices) {
    table.Put(field::kOrdinal, device.ordinal);
    table.Put(field::kName, device.name);
    table.Put(field::kMultiprocessors, device.multiprocessors);
    table.Put(field::kThreads, device.threads_per_multiprocessor);
    table.Put(field::kBlocks, device.blocks_per_multiprocessor);
    table.Put(field::kRegisters, device.registers_per_multiprocessor);
    table.Put(field::kShared, device.shared_bytes_per_multiprocessor);
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteStreams(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::streams;
  TableWriter table(out, ChunkType::kStreams, true);
  for (const model::StreamRow& stream : trace.streams) {
    table.Put(field::kDevice, RowPlusOne(stream.device));
    table.Put(field::kContext, stream.context);
    table.Put(field::kStream, stream.stream);
    table.Put(field::kName, stream.name);
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteShapes(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::shapes;
  TableWriter table(out, ChunkType::kShapes, true);
  for (const model::KernelShape& shape : trace.shapes) {
    for (const uint32_t blocks : shape.grid) table.Put(field::kGrid, blocks);
    for (const uint32_t threads : shape.block) table.Put(field::kBlock, threads);
    table.Put(field::kStaticShared, shape.static_shared_bytes);
    table.Put(field::kDynamicShared, shape.dynamic_shared_bytes);
    table.Put(field::kLocal, shape.local_bytes_per_thread);
    table.Put(field::kRegisters, shape.registers_per_thread);
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteCalls(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::calls;
  const model::CallColumns& calls = trace.calls;
  TableWriter table(out, ChunkType::kCalls, true);
  for (uint32_t call = 0; call < calls.size(); ++call) {
    table.Put(field::kThread, RowPlusOne(calls.thread[call]));
    table.PutDelta(field::kBegin, calls.begin_ns[call]);
    table.Put(field::kLength, Length(calls.duration_ns[call]));
    table.PutDelta(field::kRequest, RowPlusOne(calls.request[call]));
    table.PutDelta(field::kBatch, RowPlusOne(calls.batch[call]));
    table.Put(field::kName, calls.name[call]);
    table.Put(field::kStream, RowPlusOne(calls.stream[call]));
    table.Put(field::kDevice, RowPlusOne(calls.device[call]));
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteGpu(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::gpu;
  const model::GpuColumns& gpu = trace.gpu;
  TableWriter table(out, ChunkType::kGpu, false);
  for (uint32_t stream = 0; stream < trace.streams.size() && out->ok(); ++stream) {
    table.Flush();
    table.SetScalar(field::kStream, stream);
    const uint32_t first = trace.streams[stream].first_event, last = first + trace.streams[stream].event_count;
    for (uint32_t event = first; event < last; ++event) {
      table.PutDelta(field::kBegin, gpu.begin_ns[event]);
      table.Put(field::kDuration, Uint(gpu.duration_ns[event]));
      table.Put(field::kKind, static_cast<uint64_t>(gpu.kind[event]));
      table.Put(field::kName, gpu.name[event]);
      table.PutDelta(field::kCall, RowPlusOne(gpu.call[event]));
      table.Put(field::kShape, RowPlusOne(gpu.shape[event]));
      table.Put(field::kBytes, gpu.bytes[event]);
      table.Put(field::kGraph, gpu.graph[event]);
      table.Put(field::kNode, gpu.node[event]);
      table.Put(field::kScopePath, gpu.scope_path[event]);
      table.EndRow();
    }
  }
  return table.Finish();
}

uint64_t WriteOverheads(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::overheads;
  TableWriter table(out, ChunkType::kOverheads, false);
  for (const model::OverheadRow& overhead : trace.overheads) {
    table.PutDelta(field::kBegin, overhead.begin_ns);
    table.Put(field::kDuration, Uint(overhead.duration_ns));
    table.Put(field::kName, overhead.name);
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteDepths(ChunkType type, const std::vector<model::DepthRow>& rows, ChunkWriter* out) {
  namespace field = dump_format::depths;
  TableWriter table(out, type, false);
  for (const model::DepthRow& row : rows) {
    table.PutDelta(field::kBegin, row.begin_ns);
    table.Put(field::kDuration, Uint(row.end_ns - row.begin_ns));
    table.Put(field::kDepth, static_cast<uint64_t>(row.depth));
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteDepths(const model::Trace& trace, ChunkWriter* out) {
  return WriteDepths(ChunkType::kDepths, trace.depths, out);
}

uint64_t WriteOperatorDepths(const model::Trace& trace, ChunkWriter* out) {
  return WriteDepths(ChunkType::kOperatorDepths, trace.operator_depths, out);
}

uint64_t WriteGpuLosses(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::gpu_losses;
  TableWriter table(out, ChunkType::kGpuLosses, false);
  for (const model::GpuLossRow& loss : trace.gpu_losses) {
    table.Put(field::kStream, RowPlusOne(loss.stream));
    table.Put(field::kReason, loss.reason);
    table.Put(field::kBegin, Uint(loss.begin_ns));
    table.Put(field::kEndNs, Uint(loss.end_ns));
    table.Put(field::kRecords, loss.records);
    table.Put(field::kDevice, RowPlusOne(loss.device));
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteCounters(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::counters;
  TableWriter table(out, ChunkType::kCounters, true);
  for (const model::CounterRow& counter : trace.counters) {
    table.Put(field::kDevice, RowPlusOne(counter.device));
    table.Put(field::kName, counter.name);
    table.Put(field::kUnit, counter.unit);
    table.EndRow();
  }
  return table.Finish();
}

uint64_t WriteSamples(const model::Trace& trace, ChunkWriter* out) {
  namespace field = dump_format::samples;
  const model::SampleColumns& samples = trace.samples;
  TableWriter table(out, ChunkType::kSamples, false);
  for (uint32_t i = 0; i < samples.size() && out->ok(); ++i) {
    table.Put(field::kCounter, samples.counter[i]);
    table.PutDelta(field::kAt, samples.at_ns[i]);
    table.PutDouble(field::kValue, samples.value[i]);
    table.EndRow();
  }
  return table.Finish();
}

class DumpSerializer final : public Serializer {
 public:
  explicit DumpSerializer(const char* file_name) : file_name_(file_name) {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }

  // What others refer to goes before them, and what is small before what is large, so that a truncated file says most.
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    ChunkWriter out(&sink);
    std::array<uint64_t, dump_format::kTableCount> rows{};
    const auto table = [&](ChunkType type, uint64_t (*write)(const model::Trace&, ChunkWriter*)) {
      rows[static_cast<size_t>(type)] = write(trace, &out);
    };
    WriteHeader(trace, &out);
    table(ChunkType::kStrings, WriteStrings);
    table(ChunkType::kAttributes, WriteAttributes);
    table(ChunkType::kFirings, WriteFirings);
    table(ChunkType::kSites, WriteSites);
    table(ChunkType::kThreads, WriteThreads);
    table(ChunkType::kLosses, WriteLosses);
    table(ChunkType::kRequests, WriteRequests);
    table(ChunkType::kBatches, WriteBatches);
    table(ChunkType::kMembers, WriteMembers);
    table(ChunkType::kHandoffs, WriteHandoffs);
    table(ChunkType::kAsyncs, WriteAsyncs);
    table(ChunkType::kTokens, WriteTokens);
    table(ChunkType::kDevices, WriteDevices);
    table(ChunkType::kStreams, WriteStreams);
    table(ChunkType::kShapes, WriteShapes);
    table(ChunkType::kOverheads, WriteOverheads);
    table(ChunkType::kDepths, WriteDepths);
    table(ChunkType::kGpuLosses, WriteGpuLosses);
    table(ChunkType::kCounters, WriteCounters);
    table(ChunkType::kOperatorDepths, WriteOperatorDepths);
    table(ChunkType::kEvents, WriteEvents);
    table(ChunkType::kCalls, WriteCalls);
    table(ChunkType::kGpu, WriteGpu);
    table(ChunkType::kSamples, WriteSamples);

    WireBuffer counts, trailer;
    for (const uint64_t count : rows) counts.RawVarint(count);
    trailer.Varint(dump_format::trailer::kChunks, out.chunks());
    trailer.Bytes(dump_format::trailer::kRows, counts.data(), counts.size());
    out.Write(ChunkType::kTrailer, trailer);
    return out.ok() ? Status() : Status(StatusCode::kIoError, "the dump could not be written");
  }

 private:
  std::string file_name_;
};

}  // namespace

std::unique_ptr<Serializer> MakeDumpSerializer(const char* file_name) noexcept try {
  return std::make_unique<DumpSerializer>(file_name);
} catch (...) {  // no memory
  return nullptr;
}

PITOT_NAMESPACE_END
