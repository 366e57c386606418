// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's records for tests, as filled by libraries of different ages.
#ifndef PITOT_TEST_COLLECT_CUPTI_FAKE_RECORDS_H_
#define PITOT_TEST_COLLECT_CUPTI_FAKE_RECORDS_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "collect/cupti/abi.h"
#include "collect/cupti/strides.h"

namespace fakes {

namespace cupti = pitot::cupti;

// Lengths of records, measured on the real libraries.
struct Generation {
  uint32_t version;
  uint32_t kernel, memcpy, memset, peer, overhead, graph, jit, call;

  cupti::Strides Strides() const {
    cupti::Strides strides{};
    strides[cupti::kConcurrentKernel] = kernel;
    strides[cupti::kMemcpy] = memcpy;
    strides[cupti::kMemset] = memset;
    strides[cupti::kMemcpyPeer] = peer;
    strides[cupti::kOverhead] = overhead;
    strides[cupti::kGraphTrace] = graph;
    strides[cupti::kJit] = jit;
    strides[cupti::kDriver] = strides[cupti::kRuntime] = call;
    return strides;
  }
};
inline constexpr Generation kCupti11{18, 200, 88, 88, 96, 40, 48, 64, 40};
inline constexpr Generation kCupti12{28, 208, 96, 88, 96, 56, 56, 72, 40};
inline constexpr Generation kCupti13{130001, 216, 96, 88, 96, 56, 56, 72, 40};

// A buffer being filled, record by record.
class FakeBuffer {
 public:
  explicit FakeBuffer(const Generation& generation) : strides_(generation.Strides()) {}

  FakeBuffer& Kernel(const char* name, uint64_t start, uint64_t end, uint32_t correlation, uint32_t stream = 7,
                     uint64_t graph_node = 0, uint32_t graph = 0) {
    using namespace cupti::kernel;
    Begin(cupti::kConcurrentKernel);
    Set<uint16_t>(kRegisters, 32), Set(kStart, start), Set(kEnd, end), Set(kDeviceId, 0u), Set(kContextId, 1u);
    Set(kStreamId, stream), Set(kCorrelation, correlation), Set(kName, name), Set(kGraphNode, graph_node);
    const uint32_t grid[] = {10, 20, 1}, block[] = {128, 1, 1};
    Set(kGridX, grid), Set(kBlockX, block), Set(kStaticShared, 1024u), Set(kDynamicShared, 2048u);
    if (strides_[cupti::kConcurrentKernel] >= kReadWithGraph) Set(kGraph, graph);
    return *this;
  }
  FakeBuffer& Memcpy(uint8_t kind, uint8_t source, uint8_t destination, uint64_t bytes, uint64_t start, uint64_t end,
                     uint32_t correlation, uint64_t graph_node = 0, uint32_t graph = 0) {
    using namespace cupti::memcpy_record;
    Begin(cupti::kMemcpy);
    Set(kCopyKind, kind), Set(kSource, source), Set(kDestination, destination), Set(kBytes, bytes);
    Set(kStart, start), Set(kEnd, end), Set(kContextId, 1u), Set(kStreamId, 7u), Set(kCorrelation, correlation);
    Set(kGraphNode, graph_node), Set(kGraph, graph);
    return *this;
  }
  // A copy between devices.
  FakeBuffer& Peer(uint64_t bytes, uint64_t start, uint64_t end, uint32_t correlation) {
    using namespace cupti::memcpy_peer;
    Begin(cupti::kMemcpyPeer);
    Set<uint8_t>(kCopyKind, 10), Set<uint8_t>(kSource, 3), Set<uint8_t>(kDestination, 3), Set(kBytes, bytes);
    Set(kStart, start), Set(kEnd, end), Set(kDeviceId, 1u), Set(kContextId, 2u), Set(kStreamId, 9u);
    Set(kCorrelation, correlation), Set(kGraphNode, uint64_t{6} << 32 | 4), Set(kGraph, 6u);
    return *this;
  }
  FakeBuffer& Jit(uint32_t operation, uint64_t start, uint64_t end, uint32_t correlation) {
    using namespace cupti::jit;
    Begin(cupti::kJit);
    Set(kOperation, operation), Set(kDeviceId, 1u), Set(kStart, start), Set(kEnd, end), Set(kCorrelation, correlation);
    return *this;
  }
  FakeBuffer& Memset(uint64_t bytes, uint64_t start, uint64_t end, uint32_t correlation, uint64_t graph_node = 0,
                     uint32_t graph = 0) {
    using namespace cupti::memset_record;
    Begin(cupti::kMemset);
    Set(kBytes, bytes), Set(kStart, start), Set(kEnd, end), Set(kContextId, 1u), Set(kStreamId, 7u);
    Set(kCorrelation, correlation), Set<uint16_t>(kMemoryKind, 3), Set(kGraphNode, graph_node), Set(kGraph, graph);
    return *this;
  }
  FakeBuffer& Graph(uint32_t graph, uint64_t start, uint64_t end, uint32_t correlation) {
    using namespace cupti::graph_trace;
    Begin(cupti::kGraphTrace);
    Set(kGraph, graph), Set(kStart, start), Set(kEnd, end), Set(kContextId, 1u), Set(kStreamId, 7u);
    Set(kCorrelation, correlation);
    return *this;
  }
  // With memory freed by the reader, if the generation has it.
  FakeBuffer& Overhead(uint32_t kind, uint64_t start, uint64_t end, size_t owned_bytes = 16) {
    using namespace cupti::overhead;
    Begin(cupti::kOverhead);
    Set(kOverheadKind, kind), Set(kStart, start), Set(kEnd, end);
    if (strides_[cupti::kOverhead] >= kReadWithData) Set(kOwnedData, malloc(owned_bytes));
    return *this;
  }
  FakeBuffer& Call(uint32_t kind, uint32_t callback, uint32_t thread, uint64_t start, uint64_t end,
                   uint32_t correlation) {
    using namespace cupti::api;
    Begin(kind);
    Set(kCallbackId, callback), Set(kThreadId, thread), Set(kStart, start), Set(kEnd, end);
    Set(kCorrelation, correlation);
    return *this;
  }
  // A record of an unknown kind, this many bytes long.
  FakeBuffer& Unknown(uint32_t kind, uint32_t bytes) {
    at_ = bytes_.size();
    bytes_.insert(bytes_.end(), bytes, 0);
    Set(0, kind);
    return *this;
  }

  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  void Begin(uint32_t kind) {
    at_ = bytes_.size();
    bytes_.insert(bytes_.end(), strides_[kind], 0);
    Set(0, kind);
  }
  template <class T> void Set(uint32_t offset, const T& value) {
    std::memcpy(&bytes_[at_ + offset], &value, sizeof value);
  }

  const cupti::Strides strides_;
  std::vector<uint8_t> bytes_;
  size_t at_ = 0;
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_CUPTI_FAKE_RECORDS_H_
