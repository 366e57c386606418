// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/decode.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/safe_read.h"
#include "collect/cupti/owned_memory.h"

namespace pitot::cupti {
namespace {

constexpr uint32_t kAbsent = 0;  // offset 0, where every record has its kind

// Offsets of the fields that most kinds have.
struct Layout {
  Activity activity;
  uint32_t start, end, device = kAbsent, context = kAbsent, stream = kAbsent, correlation = kAbsent, bytes = kAbsent,
                       node = kAbsent, graph = kAbsent;
};

// Null: the kind is not kept.
const Layout* LayoutOf(uint32_t kind) {
  static constexpr Layout kKernelLayout{Activity::kKernel,  kernel::kStart,    kernel::kEnd,         kernel::kDeviceId,
                                        kernel::kContextId, kernel::kStreamId, kernel::kCorrelation, kAbsent,
                                        kernel::kGraphNode};
  static constexpr Layout kMemcpyLayout{
      Activity::kMemcpy,         memcpy_record::kStart,    memcpy_record::kEnd,         memcpy_record::kDeviceId,
      memcpy_record::kContextId, memcpy_record::kStreamId, memcpy_record::kCorrelation, memcpy_record::kBytes,
      memcpy_record::kGraphNode, memcpy_record::kGraph};
  static constexpr Layout kPeerLayout{Activity::kMemcpy,         memcpy_peer::kStart,     memcpy_peer::kEnd,
                                      memcpy_peer::kDeviceId,    memcpy_peer::kContextId, memcpy_peer::kStreamId,
                                      memcpy_peer::kCorrelation, memcpy_peer::kBytes,     memcpy_peer::kGraphNode,
                                      memcpy_peer::kGraph};
  static constexpr Layout kMemsetLayout{
      Activity::kMemset,         memset_record::kStart,    memset_record::kEnd,         memset_record::kDeviceId,
      memset_record::kContextId, memset_record::kStreamId, memset_record::kCorrelation, memset_record::kBytes,
      memset_record::kGraphNode, memset_record::kGraph};
  static constexpr Layout kGraphLayout{Activity::kGraph,
                                       graph_trace::kStart,
                                       graph_trace::kEnd,
                                       graph_trace::kDeviceId,
                                       graph_trace::kContextId,
                                       graph_trace::kStreamId,
                                       graph_trace::kCorrelation,
                                       kAbsent,
                                       kAbsent,
                                       graph_trace::kGraph};
  static constexpr Layout kOverheadLayout{Activity::kOverhead, overhead::kStart, overhead::kEnd};
  static constexpr Layout kJitLayout{Activity::kJit, jit::kStart, jit::kEnd,        jit::kDeviceId,
                                     kAbsent,        kAbsent,     jit::kCorrelation};
  static constexpr Layout kCallLayout{Activity::kCall, api::kStart, api::kEnd,        kAbsent,
                                      kAbsent,         kAbsent,     api::kCorrelation};
  switch (kind) {
    case kConcurrentKernel:
      return &kKernelLayout;
    case kMemcpy:
      return &kMemcpyLayout;
    case kMemcpyPeer:
      return &kPeerLayout;
    case kMemset:
      return &kMemsetLayout;
    case kGraphTrace:
      return &kGraphLayout;
    case kOverhead:
      return &kOverheadLayout;
    case kJit:
      return &kJitLayout;
    case kDriver:
    case kRuntime:
      return &kCallLayout;
    default:
      return nullptr;
  }
}

Stamper StamperOf(Activity activity) {
  const bool is_of_host = activity == Activity::kCall || activity == Activity::kOverhead || activity == Activity::kJit;
  return is_of_host ? Stamper::kHost : Stamper::kGpu;
}

// A field's value, or `otherwise` if the kind does not have it.
template <class T> T FieldOr(const uint8_t* record, uint32_t offset, T otherwise) {
  return offset != kAbsent ? Field<T>(record, offset) : otherwise;
}

uint32_t CopyDetail(const uint8_t* record) {
  using namespace memcpy_record;
  static_assert(kCopyKind == memcpy_peer::kCopyKind && kSource == memcpy_peer::kSource &&
                kDestination == memcpy_peer::kDestination);
  return static_cast<uint32_t>(record[kCopyKind]) << 16 | static_cast<uint32_t>(record[kSource]) << 8 |
         record[kDestination];
}

KernelShape ShapeOf(const uint8_t* record) {
  using namespace kernel;
  KernelShape shape{};
  memcpy(shape.grid, record + kGridX, sizeof shape.grid);
  memcpy(shape.block, record + kBlockX, sizeof shape.block);
  shape.static_shared_bytes = Field<uint32_t>(record, kStaticShared);
  shape.dynamic_shared_bytes = Field<uint32_t>(record, kDynamicShared);
  shape.local_bytes_per_thread = Field<uint32_t>(record, kLocalPerThread);
  shape.registers = Field<uint16_t>(record, kRegisters);
  return shape;
}

template <size_t kCount> const char* NameIn(const char* const (&names)[kCount], uint32_t i) {
  return i < kCount ? names[i] : names[0];
}

}  // namespace

uint32_t NameTable::Of(const char* name) {
  if (name == nullptr) return 0;
  const auto known = by_pointer_.find(name);
  if (known != by_pointer_.end()) return known->second;
  std::string text;
  if (!base::ReadString(reinterpret_cast<uintptr_t>(name), kMostBytes, &text)) text = "(unloaded)";
  const auto same = by_text_.find(text);
  uint32_t row = 0;
  if (same != by_text_.end()) {
    row = same->second;
  } else if (names_.is_full() || text_bytes_ + text.size() + kNameBytes > most_text_bytes_) {
    ++refused_;
  } else {
    row = names_.size();
    text.shrink_to_fit();
    names_.Add(std::move(text));
    text_bytes_ += names_[row].size() + kNameBytes;
    by_text_.emplace(names_[row], row);
  }
  if (by_pointer_.size() >= most_pointers_) by_pointer_.clear();
  by_pointer_[name] = row;
  pointers_ = std::max<uint64_t>(pointers_, by_pointer_.size());
  return row;
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
      try {
        Take(kind, record, out);
      } catch (const std::bad_alloc&) {
        ForEachOwned(strides_, record, valid - at, free);  // nobody comes back to it
        throw;
      }
      free(OwnedBy(kind, stride, record));
      at += stride;
      continue;
    }
    // A kind of unknown length: the library steps over it.
    auto* next = const_cast<uint8_t*>(record);
    const Result result = api_->activity_get_next_record(const_cast<uint8_t*>(buffer), valid, &next);
    if (result == kMaxLimitReached) return void(++counts_.unknown);
    if (result != kSuccess || next <= record || next >= buffer + valid) break;
    ++counts_.unknown;
    at = static_cast<size_t>(next - buffer);
  }
  counts_.unreadable_bytes += valid - at;
}

// The fields of one kind of activity alone.
void Decoder::TakeDetail(uint32_t kind, const uint8_t* record, GpuRecord* made) {
  switch (made->activity) {
    case Activity::kKernel:
      made->detail = tables_->shapes.Of(ShapeOf(record));
      made->name = static_cast<uint16_t>(tables_->names.Of(Field<const char*>(record, kernel::kName)));
      break;
    case Activity::kMemcpy:
      made->detail = CopyDetail(record);
      break;
    case Activity::kMemset:
      made->detail = Field<uint16_t>(record, memset_record::kMemoryKind);
      break;
    case Activity::kGraph:
      break;
    case Activity::kOverhead:
      made->detail = Field<uint32_t>(record, overhead::kOverheadKind);
      break;
    case Activity::kJit:
      made->detail = Field<uint32_t>(record, jit::kOperation);
      break;
    case Activity::kCall:
      ++counts_.calls;
      made->value = Field<uint32_t>(record, api::kThreadId);
      made->detail = Field<uint32_t>(record, api::kCallbackId) | (kind == kDriver ? 1u << 31 : 0);
      break;
  }
}

void Decoder::Take(uint32_t kind, const uint8_t* record, std::vector<GpuRecord>* out) {
  const Layout* const at = LayoutOf(kind);
  if (at == nullptr) return;
  constexpr uint32_t kUnknownStream = ~0u;
  const StreamKey stream{FieldOr(record, at->device, kUnknownStream), FieldOr(record, at->context, kUnknownStream),
                         FieldOr(record, at->stream, kUnknownStream)};
  // The upper half of a node's number is its graph's.
  const auto node = FieldOr<uint64_t>(record, at->node, 0);
  GpuRecord made{};
  made.activity = at->activity;
  made.correlation = FieldOr(record, at->correlation, 0u);
  made.value = FieldOr<uint64_t>(record, at->bytes, 0);
  made.node = static_cast<uint32_t>(node);
  made.graph = FieldOr(record, at->graph, static_cast<uint32_t>(node >> 32));
  if (node != 0 && scopes_ != nullptr) made.scope_path = static_cast<uint16_t>(scopes_->PathOf(node));
  TakeDetail(kind, record, &made);
  const auto start = Field<uint64_t>(record, at->start), end = Field<uint64_t>(record, at->end);
  ++counts_.records;
  int64_t end_ns = 0;
  const Stamper by = StamperOf(made.activity);
  const Conversion of_start = clock_->ToMonotonic(start, by, &made.begin_ns),
                   of_end = clock_->ToMonotonic(end, by, &end_ns);
  if (of_start == Conversion::kNotPlaced || of_end == Conversion::kNotPlaced) return void(++counts_.unplaced);
  // If the times are on both sides of a step, the end may be the smaller number.
  const bool is_well = start != 0 && of_start != Conversion::kNoTime && of_end != Conversion::kNoTime &&
                       made.begin_ns >= 0 && end_ns >= made.begin_ns;
  if (!is_well) return void(++counts_.bad_timestamps);
  counts_.is_by_cycles = of_start == Conversion::kByCycles;
  made.duration_ns = end_ns - made.begin_ns;
  made.stream = static_cast<uint16_t>(tables_->streams.Of(stream));
  out->push_back(made);
}

}  // namespace pitot::cupti
