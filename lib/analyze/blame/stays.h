// SPDX-License-Identifier: Apache-2.0
//
// The time that somebody else waited for, walked by the rules of requests, and the usual time of such: of batches,
// requests, holds of locks and scopes. The process learned it before the window (Trace::norms), or it is the median of
// others in the trace.
#ifndef PITOT_LIB_ANALYZE_BLAME_STAYS_H_
#define PITOT_LIB_ANALYZE_BLAME_STAYS_H_

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "analyze/blame/walk.h"
#include "pitot/depth.h"
#include "pitot/model/intervals.h"

namespace pitot::blame {

// Walks it. RequestBlame::request is kNone, except for a request's stay without a batch. O(s log n) for s segments.
// Throws Over or std::bad_alloc.
RequestBlame WalkStay(const Index& index, const Stay& stay);

// Comparable things.
struct LikeKey {
  model::NormKind kind = model::NormKind::kBatch;
  model::StringId name = 0;
  uint32_t much = 0;
  auto operator<=>(const LikeKey&) const = default;
};
// The nearest likeness of a batch: about as much work (a power of two of Join's); if unknown, as many members (steps:
// about as many).
LikeKey LikenessOf(const model::Trace& trace, const model::BatchRow& batch);

// What like things took: medians. `count` 0: too few are known.
struct Norm {
  uint32_t count = 0;
  int64_t total_ns = 0;
  BlameVector parts;  // their walks, part by part
  bool has_parts = false;
  bool is_kept = false;  // learned before the window
};

// Each kind is computed once, at the first question, from 32 like things all over the trace. A median learned before
// counts instead, if it rests on as many, or on more than the trace has. For one thread.
class Norms {
 public:
  explicit Norms(const Index& index);

  // Batches of its nearest likeness, otherwise any of its executor. How long a batch waits for members is its policy's
  // choice: the part is at least as long as in batches closed for the same reason. O(batches), and 64 walks.
  Norm OfBatch(uint32_t batch);
  // Requests of its route and size that ended. O(requests), and 32 walks.
  const Norm& OfRequest(uint32_t request);
  // How long a lock is held after others waited for it. O(n) in its waits.
  const Norm& OfHold(model::StringId lock);
  // Scopes of its name. O(events).
  const Norm& OfScope(uint32_t event);
  // Stays in a queue, from the hand-over until it was taken. O(hand-overs).
  const Norm& OfQueue(model::StringId queue);

 private:
  struct Key {
    LikeKey like;
    Depth depth;
    auto operator<=>(const Key&) const = default;
  };
  // `of_trace` is asked only if what was learned does not count.
  template <class OfTrace> const Norm& Choose(const Key& key, const OfTrace& of_trace);
  void FindLike();
  const BlameVector& WalkOf(uint32_t batch);
  const Norm& OfLike(const LikeKey& like, Depth depth);
  Norm OfWalks(const LikeKey& like);

  const Index& index_;
  std::map<Key, Norm> kept_, chosen_;
  bool has_like_ = false;
  std::map<LikeKey, std::vector<uint32_t>> alike_;  // batches
  std::map<uint32_t, BlameVector> walks_;           // by batch
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_STAYS_H_
