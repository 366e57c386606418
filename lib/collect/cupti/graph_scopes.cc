// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/graph_scopes.h"

#include <new>

#include "trace/calls.h"

namespace pitot::cupti {

void GraphScopes::OnNode(const Api& api, uint32_t callback_id, const GraphData& data) noexcept {
  uint64_t node = 0, original = 0;
  if (api.get_graph_node_id == nullptr || api.get_graph_node_id(data.node, &node) != kSuccess) return;
  const bool is_copy = callback_id == kGraphNodeCloned;
  if (is_copy && api.get_graph_node_id(data.original_node, &original) != kSuccess) return;
  const uint32_t here = is_copy ? 0 : trace::OpenScopePath().index;
  if (!is_copy && here == 0) return;
  try {
    const std::lock_guard lock(mutex_);
    uint32_t path = here;
    if (is_copy) {
      const auto found = paths_.find(original);
      if (found == paths_.end()) return;
      path = found->second;
    }
    if (paths_.size() >= kMostNodes) return void(++refused_);
    paths_[node] = path;
  } catch (const std::bad_alloc&) {
    // A node without a path.
  }
}

uint32_t GraphScopes::PathOf(uint64_t node_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = paths_.find(node_id);
  return found != paths_.end() ? found->second : 0;
}

uint64_t GraphScopes::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace pitot::cupti
