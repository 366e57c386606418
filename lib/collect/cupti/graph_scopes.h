// SPDX-License-Identifier: Apache-2.0
//
// In which scopes the nodes of CUDA graphs were captured: a replay has kernels, but no scope of its own. A table of
// fixed size, in which what was used longest ago gives way: nothing needs to be known of when graphs are destroyed, nor
// of executable ones that outlive those that were captured.
#ifndef PITOT_LIB_COLLECT_CUPTI_GRAPH_SCOPES_H_
#define PITOT_LIB_COLLECT_CUPTI_GRAPH_SCOPES_H_

#include <atomic>
#include <cstdint>

#include "collect/cupti/api.h"

namespace pitot::cupti {

class GraphScopes {
 public:
  // Takes `bytes` of addresses, and memory as nodes come. Where there is none no node has a path.
  explicit GraphScopes(uint64_t bytes) noexcept;
  ~GraphScopes();
  GraphScopes(const GraphScopes&) = delete;
  GraphScopes& operator=(const GraphScopes&) = delete;

  // A node is made, on the thread that captures or builds the graph; or copied, when a graph becomes executable. Cost:
  // about 1 us, and nothing when the graph runs. Threads: any, lock-free.
  void OnNode(const Api& api, uint32_t callback_id, const GraphData& data) noexcept;
  // The index of the Name of the scopes' path, "forward / layer 3 / attention"; 0: unknown. Threads: any, wait-free.
  uint32_t PathOf(uint64_t node) noexcept;
  // Gives a node a path, not 0. Where its bucket is full the node gives way that was made or asked for longest ago: of
  // so many nodes as a quarter of the table holds, those made last, hardly one in a million does. Threads: any,
  // lock-free.
  void Add(uint64_t node, uint32_t path) noexcept;

  // How many nodes gave way to others, those of graphs that are gone among them.
  uint64_t forgotten() const noexcept { return forgotten_.load(std::memory_order_relaxed); }
  // Nodes that it has room for.
  uint64_t capacity() const noexcept { return uint64_t{count_} * kWays; }
  // Memory that was really taken, at most.
  uint64_t bytes() const noexcept;

 private:
  static constexpr uint32_t kWays = 16;
  static constexpr uint32_t kPathBits = 14;
  // A word is what is left of the node's hash, and its path; 0: free. Two nodes of a bucket with the same one there are
  // in 2^50.
  struct Bucket {
    std::atomic<uint64_t> words[kWays];
    std::atomic<uint32_t> used[kWays];  // when, of now_
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
