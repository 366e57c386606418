// SPDX-License-Identifier: Apache-2.0
//
// In which scopes the nodes of CUDA graphs were captured: a replay has kernels, but no scope of its own.
#ifndef PITOT_LIB_COLLECT_CUPTI_GRAPH_SCOPES_H_
#define PITOT_LIB_COLLECT_CUPTI_GRAPH_SCOPES_H_

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "collect/cupti/api.h"

namespace pitot::cupti {

class GraphScopes {
 public:
  // A node is made, on the thread that captures or builds the graph; or copied, when a graph becomes executable. Cost:
  // about 1 us, and nothing when the graph runs. Threads: any.
  void OnNode(const Api& api, uint32_t callback_id, const GraphData& data) noexcept;
  // The index of the Name of the scopes' path, "forward / layer 3 / attention"; 0: unknown. Threads: any.
  uint32_t PathOf(uint64_t node_id) const;
  uint64_t refused() const;

 private:
  static constexpr size_t kMostNodes = 1 << 18;  // 16 MB; those that come later have no path

  mutable std::mutex mutex_;  // taken by threads that capture; CUPTI is not called with it
  std::unordered_map<uint64_t, uint32_t> paths_;
  uint64_t refused_ = 0;
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_GRAPH_SCOPES_H_
