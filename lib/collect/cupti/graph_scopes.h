// SPDX-License-Identifier: Apache-2.0
//
// The scopes in which nodes of CUDA graphs were captured: a replay has kernels, but no scope of its own. A table of
// fixed size, in which the entry used longest ago gives way. So it does not need to know when graphs are destroyed, nor
// about executable graphs that outlive the captured ones.
#ifndef PITOT_LIB_COLLECT_CUPTI_GRAPH_SCOPES_H_
#define PITOT_LIB_COLLECT_CUPTI_GRAPH_SCOPES_H_

#include <atomic>
#include <cstdint>

#include "collect/cupti/api.h"

namespace pitot::cupti {

class GraphScopes {
 public:
  // Reserves `bytes` of addresses, and takes memory as nodes come. If there are none, no node has a path.
  explicit GraphScopes(uint64_t bytes) noexcept;
  ~GraphScopes();
  GraphScopes(const GraphScopes&) = delete;
  GraphScopes& operator=(const GraphScopes&) = delete;

  // Adds a node: a new one, on the thread that captures or builds the graph, or a copy, when a graph becomes
  // executable. Cost: about 1 us, and nothing when the graph runs. Threads: any, lock-free.
  void OnNode(const Api& api, uint32_t callback_id, const GraphData& data) noexcept;
  // The index of the Name of the node's scope path, "forward / layer 3 / attention"; 0: unknown. Threads: any,
  // wait-free.
  uint32_t PathOf(uint64_t node) noexcept;
  // Gives a node a path, not 0. In a full bucket, the node made or asked for longest ago gives way. It happens
  // to hardly one in a million of the nodes made last, up to a quarter of the table. Threads: any, lock-free.
  void Add(uint64_t node, uint32_t path) noexcept;

  // Nodes that gave way to others, including nodes of destroyed graphs.
  uint64_t forgotten() const noexcept { return forgotten_.load(std::memory_order_relaxed); }
  // Nodes with room in the table.
  uint64_t capacity() const noexcept { return uint64_t{count_} * kWays; }
  // Memory really taken, at most.
  uint64_t bytes() const noexcept;

 private:
  static constexpr uint32_t kWays = 16;
  static constexpr uint32_t kPathBits = 14;
  // A word is the rest of the node's hash, and its path; 0: free. Two nodes of a bucket have the same rest once in
  // 2^50.
  struct Bucket {
    std::atomic<uint64_t> words[kWays];
    std::atomic<uint32_t> used[kWays];  // when, by now_
  };
  struct Place {
    Bucket* bucket;
    uint64_t tag;  // in the upper bits of a word
  };

  Place PlaceOf(uint64_t node) const noexcept;

  Bucket* buckets_ = nullptr;
  uint32_t count_ = 0;
  std::atomic<uint32_t> now_{0};  // nodes added
  std::atomic<uint64_t> added_{0}, forgotten_{0};
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_GRAPH_SCOPES_H_
