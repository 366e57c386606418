// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/graph_scopes.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/memory_order.h"
#include "pitot/extend/call.h"
#include "trace/names.h"

namespace pitot::cupti {
namespace {

using base::kRelaxed;
constexpr uint64_t kPage = 4096;

}  // namespace

GraphScopes::GraphScopes(uint64_t bytes) noexcept {
  static_assert(trace::kMaxNames <= 1u << kPathBits);
  const auto count = static_cast<uint32_t>(std::clamp<uint64_t>(bytes / sizeof(Bucket), 1, 1u << 24));
  // Zeroes are free places.
  void* const memory =
      mmap(nullptr, count * sizeof(Bucket), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) buckets_ = static_cast<Bucket*>(memory), count_ = count;
}

GraphScopes::~GraphScopes() {
  if (buckets_ != nullptr) munmap(static_cast<void*>(buckets_), count_ * sizeof(Bucket));
}

GraphScopes::Place GraphScopes::PlaceOf(uint64_t node) const noexcept {
  uint64_t hash = node * 0x9e3779b97f4a7c15u;
  hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
  hash ^= hash >> 32;
  return {&buckets_[(hash >> 32) * count_ >> 32], hash << kPathBits};
}

void GraphScopes::OnNode(const Api& api, uint32_t callback_id, const GraphData& data) noexcept {
  uint64_t node = 0, original = 0;
  if (api.get_graph_node_id == nullptr || api.get_graph_node_id(data.node, &node) != kSuccess) return;
  const bool is_copy = callback_id == kGraphNodeCloned;
  if (is_copy && api.get_graph_node_id(data.original_node, &original) != kSuccess) return;
  const uint32_t path = is_copy ? PathOf(original) : OpenScopePath().index;
  if (path != 0) Add(node, path);
}

void GraphScopes::Add(uint64_t node, uint32_t path) noexcept {
  if (buckets_ == nullptr) return void(forgotten_.fetch_add(1, kRelaxed));
  const auto [bucket, tag] = PlaceOf(node);
  const uint32_t now = now_.fetch_add(1, kRelaxed) + 1;
  added_.fetch_add(1, kRelaxed);
  for (;;) {
    // Its own place, or the first free one (they fill in order), or the one used longest ago.
    uint32_t at = 0;
    uint64_t there = 0;
    bool is_taken = true;
    for (uint32_t i = 0; i < kWays && is_taken; ++i) {
      const uint64_t word = bucket->words[i].load(kRelaxed);
      is_taken = word != 0 && word >> kPathBits != tag >> kPathBits;
      // By their difference, because they wrap.
      const auto older = static_cast<int32_t>(bucket->used[at].load(kRelaxed) - bucket->used[i].load(kRelaxed));
      if (i == 0 || !is_taken || older > 0) at = i, there = word;
    }
    // Set first, so that another thread adding meanwhile finds another that is older.
    bucket->used[at].store(now, kRelaxed);
    if (!bucket->words[at].compare_exchange_strong(there, tag | path, kRelaxed)) continue;
    if (is_taken) forgotten_.fetch_add(1, kRelaxed);
    return;
  }
}

uint32_t GraphScopes::PathOf(uint64_t node) noexcept {
  if (buckets_ == nullptr) return 0;
  const auto [bucket, tag] = PlaceOf(node);
  for (uint32_t i = 0; i < kWays; ++i) {
    const uint64_t word = bucket->words[i].load(kRelaxed);
    if (word == 0 || word >> kPathBits != tag >> kPathBits) continue;
    bucket->used[i].store(now_.load(kRelaxed), kRelaxed);  // a running graph is needed
    return static_cast<uint32_t>(word & ((1u << kPathBits) - 1));
  }
  return 0;
}

uint64_t GraphScopes::bytes() const noexcept {
  // A bucket may begin on one page and end on the next.
  return std::min(count_ * sizeof(Bucket), added_.load(kRelaxed) * 2 * kPage);
}

}  // namespace pitot::cupti
