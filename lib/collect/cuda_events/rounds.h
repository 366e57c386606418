// SPDX-License-Identifier: Apache-2.0
//
// A round of the collector's thread: looks for the driver, makes pools, and turns pairs finished by the GPU into spans.
#ifndef PITOT_LIB_COLLECT_CUDA_EVENTS_ROUNDS_H_
#define PITOT_LIB_COLLECT_CUDA_EVENTS_ROUNDS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "collect/cuda_events/divide.h"
#include "collect/cuda_events/history.h"
#include "collect/cuda_events/pools.h"

namespace pitot::cuda_events {

class Rounds {
 public:
  // Both must outlive it. Throws bad_alloc.
  Rounds(Pools* pools, History* history);

  void Round() noexcept;
  // The last round: parks all pools.
  void Close() noexcept;
  // Whether there is something to do soon.
  bool HasWork() noexcept;
  // If not: when there will be, even if the host wakes nobody.
  int64_t due_ns() const noexcept { return look_again_ns_ != 0 ? look_again_ns_ : INT64_MAX; }
  // Unfinished spans of the last round: how many, and when the first of them began. Threads: any.
  uint32_t under_way() const noexcept { return under_way_.load(std::memory_order_relaxed); }
  int64_t oldest_ns() const noexcept { return oldest_ns_.load(std::memory_order_relaxed); }

 private:
  bool FindDriver() noexcept;
  void Prepare() noexcept;
  void MakePools() noexcept;
  void FindRoom() noexcept;
  bool Poll(Pool* pool) noexcept;
  struct Stamp {
    int64_t at_ns = 0, error_ns = 0;
  };
  int TimeOf(const Pool& pool, void* event, int64_t earliest_ns, int64_t latest_ns, Stamp* stamp) noexcept;
  int SpanOf(const Pool& pool, const Pair& pair, Span* span) noexcept;
  struct Finished {
    Pair* pair;
    uint32_t word, own_word;  // as it was, and while the thread works with it
    Span span;
  };
  void AddOther(const Pair& pair, uint32_t word) noexcept;
  bool GiveBack() noexcept;
  void FindGraphs(Pool* pool) noexcept;
  void FindScopesOf(const Finished& finished, void* graph) noexcept;
  bool IsAlone(const Finished& finished) const noexcept;
  bool IsSure(const Finished& finished) noexcept;
  int Measure(const Pool& pool, Anchor* anchor) noexcept;
  bool Renew(Pool* pool) noexcept;

  Pools& pools_;
  History& history_;
  int64_t look_again_ns_ = 0;  // for the requested driver, not found so far; 0: nothing was requested
  bool is_prepared_ = false;
  // For one pool in a round. None of these grows.
  struct Other {  // a span that is not finished, in which a graph may run
    uint32_t stream;
    int64_t recorded_ns;
  };
  std::vector<Finished> finished_;
  std::vector<Other> others_;
  std::vector<Replayed> scopes_;
  std::vector<const Replayed*> open_;
  uint32_t seen_under_way_ = 0;
  int64_t seen_oldest_ns_ = 0;
  std::atomic<uint32_t> under_way_{0};
  std::atomic<int64_t> oldest_ns_{0};
};

}  // namespace pitot::cuda_events

#endif  // PITOT_LIB_COLLECT_CUDA_EVENTS_ROUNDS_H_
