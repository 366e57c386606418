// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/decode.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace pitot::cupti {
namespace {

// Of the kinds that differ only in where their fields are.
struct Fields {
  uint32_t start, end, device, context, stream, correlation;
};

StreamKey StreamOf(const uint8_t* record, const Fields& at) {
  return {Field<uint32_t>(record, at.device), Field<uint32_t>(record, at.context), Field<uint32_t>(record, at.stream)};
}

constexpr uint32_t kNoStream = ~0u;

uint32_t CopyDetail(const uint8_t* record) {
  using namespace memcpy_record;
  static_assert(kCopyKind == memcpy_peer::kCopyKind && kSource == memcpy_peer::kSource &&
                kDestination == memcpy_peer::kDestination && kBytes == memcpy_peer::kBytes);
  return static_cast<uint32_t>(record[kCopyKind]) << 16 | static_cast<uint32_t>(record[kSource]) << 8 |
         record[kDestination];
}

template <size_t kCount> const char* NameIn(const char* const (&names)[kCount], uint32_t i) {
  return i < kCount ? names[i] : names[0];
}

}  // namespace

uint32_t NameTable::Of(const char* name) {
  if (name == nullptr) return 0;
  const auto known = by_pointer_.find(name);
  if (known != by_pointer_.end() && names_[known->second].compare(0, kMostBytes, name, strnlen(name, kMostBytes)) == 0)
    return known->second;
  std::string text(name, strnlen(name, kMostBytes));
  const auto same = by_text_.find(text);
  uint32_t row = 0;
  if (same != by_text_.end()) {
    row = same->second;
  } else if (names_.size() >= most_) {
    return ++refused_, 0;
  } else {
    row = static_cast<uint32_t>(names_.size());
    names_.push_back(text);
    by_text_.emplace(std::move(text), row);
  }
  // As many pointers as names, or else a server that loads and unloads modules for ever would fill the memory.
  if (by_pointer_.size() >= most_) by_pointer_.clear();
  by_pointer_[name] = row;
  return row;
}

const char* CopyKindName(uint32_t kind) {
  static constexpr const char* kNames[] = {"unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                           "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
  return NameIn(kNames, kind);
}

const char* MemoryKindName(uint32_t kind) {
  static constexpr const char* kNames[] = {"unknown", "pageable", "pinned",        "device",
                                           "array",   "managed",  "device static", "managed static"};
  return NameIn(kNames, kind);
}

const char* SynchronizationName(uint32_t type) {
  static constexpr const char* kNames[] = {"synchronize", "event synchronize", "stream wait event",
                                           "stream synchronize", "context synchronize"};
  return NameIn(kNames, type);
}

const char* OverheadName(uint32_t kind) {
  static constexpr const char* kNames[] = {"overhead",
                                           "CUPTI buffer flush",
                                           "CUPTI instrumentation",
                                           "CUPTI resource",
                                           "module loading",
                                           "lazy function loading",
                                           "command buffer full",
                                           "CUPTI buffer request",
                                           "unified memory initialisation"};
  if (kind == 1) return "driver compiler";
  return (kind & 0xffff) == 0 ? NameIn(kNames, kind >> 16) : kNames[0];
}

void Decoder::Decode(const uint8_t* buffer, size_t valid, std::vector<GpuRecord>* out) {
  size_t at = 0;
  while (valid - at >= sizeof(uint32_t)) {
    const uint8_t* const record = buffer + at;
    const auto kind = Field<uint32_t>(record, 0);
    const uint32_t stride = kind < strides_.size() ? strides_[kind] : 0;
    if (stride != 0) {
      if (stride > valid - at) break;
      Take(kind, record, out);
      at += stride;
      continue;
    }
    // A kind of which no length is known: the library steps over it.
    auto* next = const_cast<uint8_t*>(record);
    const Result result = api_->activity_get_next_record(const_cast<uint8_t*>(buffer), valid, &next);
    if (result == kMaxLimitReached) return void(++counts_.unknown);
    if (result != kSuccess || next <= record || next >= buffer + valid) break;
    ++counts_.unknown;
    at = static_cast<size_t>(next - buffer);
  }
  counts_.unreadable_bytes += valid - at;
}

void Decoder::Take(uint32_t kind, const uint8_t* record, std::vector<GpuRecord>* out) {
  Fields at{};
  GpuRecord made{};
  StreamKey stream{kNoStream, kNoStream, kNoStream};
  const auto read = [&](Activity activity, const Fields& fields) {
    at = fields;
    made.activity = activity;
    made.correlation = Field<uint32_t>(record, at.correlation);
  };
  switch (kind) {
    case kConcurrentKernel: {
      using namespace kernel;
      read(Activity::kKernel, {kStart, kEnd, kDeviceId, kContextId, kStreamId, kCorrelation});
      stream = StreamOf(record, at);
      KernelShape shape{};
      memcpy(shape.grid, record + kGridX, sizeof shape.grid);
      memcpy(shape.block, record + kBlockX, sizeof shape.block);
      shape.static_shared_bytes = Field<uint32_t>(record, kStaticShared);
      shape.dynamic_shared_bytes = Field<uint32_t>(record, kDynamicShared);
      shape.local_bytes_per_thread = Field<uint32_t>(record, kLocalPerThread);
      shape.registers = Field<uint16_t>(record, kRegisters);
      made.detail = tables_->shapes.Of(shape);
      made.name = tables_->names.Of(Field<const char*>(record, kName));
      const auto node = Field<uint64_t>(record, kGraphNode);
      made.node = static_cast<uint32_t>(node);
      made.graph = strides_[kind] >= kReadWithGraph && node != 0 ? Field<uint32_t>(record, kGraph)
                                                                 : static_cast<uint32_t>(node >> 32);
      break;
    }
    case kMemcpy: {
      using namespace memcpy_record;
      read(Activity::kMemcpy, {kStart, kEnd, kDeviceId, kContextId, kStreamId, kCorrelation});
      stream = StreamOf(record, at);
      made.value = Field<uint64_t>(record, kBytes);
      made.detail = CopyDetail(record);
      made.node = static_cast<uint32_t>(Field<uint64_t>(record, kGraphNode));
      made.graph = Field<uint32_t>(record, kGraph);
      break;
    }
    case kMemcpyPeer: {
      using namespace memcpy_peer;
      read(Activity::kMemcpy, {kStart, kEnd, kDeviceId, kContextId, kStreamId, kCorrelation});
      stream = StreamOf(record, at);
      made.value = Field<uint64_t>(record, kBytes);
      made.detail = CopyDetail(record);
      made.node = static_cast<uint32_t>(Field<uint64_t>(record, kGraphNode));
      made.graph = Field<uint32_t>(record, kGraph);
      break;
    }
    case kMemset: {
      using namespace memset_record;
      read(Activity::kMemset, {kStart, kEnd, kDeviceId, kContextId, kStreamId, kCorrelation});
      stream = StreamOf(record, at);
      made.value = Field<uint64_t>(record, kBytes);
      made.detail = Field<uint16_t>(record, kMemoryKind);
      made.node = static_cast<uint32_t>(Field<uint64_t>(record, kGraphNode));
      made.graph = Field<uint32_t>(record, kGraph);
      break;
    }
    case kGraphTrace: {
      using namespace graph_trace;
      read(Activity::kGraph, {kStart, kEnd, kDeviceId, kContextId, kStreamId, kCorrelation});
      stream = StreamOf(record, at);
      made.graph = Field<uint32_t>(record, kGraph);
      break;
    }
    case kSynchronization: {
      using namespace synchronization;
      read(Activity::kSynchronization, {kStart, kEnd, 0, kContextId, kStreamId, kCorrelation});
      stream.context = Field<uint32_t>(record, kContextId);
      stream.stream = Field<uint32_t>(record, kStreamId);
      made.detail = Field<uint32_t>(record, kType);
      break;
    }
    case kOverhead: {
      using namespace overhead;
      read(Activity::kOverhead, {kStart, kEnd, 0, 0, 0, 0});
      made.correlation = 0;
      made.detail = Field<uint32_t>(record, kOverheadKind);
      if (strides_[kind] >= kReadWithData) free(Field<void*>(record, kOwnedData));
      break;
    }
    case kJit: {
      using namespace jit;
      read(Activity::kJit, {kStart, kEnd, kDeviceId, 0, 0, kCorrelation});
      stream.device = Field<uint32_t>(record, kDeviceId);
      made.detail = Field<uint32_t>(record, kOperation);
      break;
    }
    case kDriver:
    case kRuntime: {
      using namespace api;
      read(Activity::kCall, {kStart, kEnd, 0, 0, 0, kCorrelation});
      made.value = Field<uint32_t>(record, kThreadId);
      made.detail = Field<uint32_t>(record, kCallbackId) | (kind == kDriver ? 1u << 31 : 0);
      break;
    }
    default:
      return;
  }
  const auto start = Field<uint64_t>(record, at.start), end = Field<uint64_t>(record, at.end);
  ++counts_.records;
  if (start == 0 || end < start) return void(++counts_.bad_timestamps);
  made.begin_ns = clock_->MonotonicNs(start);
  made.duration_ns = static_cast<int64_t>(end - start);
  made.stream = static_cast<uint16_t>(tables_->streams.Of(stream));
  out->push_back(made);
}

}  // namespace pitot::cupti
