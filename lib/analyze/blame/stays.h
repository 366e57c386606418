// SPDX-License-Identifier: Apache-2.0
//
// The time that somebody else waited for, walked by the rules of requests, and what such time usually is: of batches,
// requests, holds of locks and scopes, by others of the trace.
#ifndef PITOT_LIB_ANALYZE_BLAME_STAYS_H_
#define PITOT_LIB_ANALYZE_BLAME_STAYS_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "analyze/blame/walk.h"

namespace pitot::blame {

// Walks it. RequestBlame::request is kNone, except for a request's stay without a batch. O(s log n) for s segments.
// Throws Over or std::bad_alloc.
RequestBlame WalkStay(const Index& index, const Stay& stay);

// What like things took: medians. `count` 0: too few are known.
struct Norm {
  uint32_t count = 0;
  int64_t total_ns = 0;
  BlameVector parts;  // their walks, part by part
  bool has_parts = false;
};

// Each kind is computed once, when it is first asked for, from 32 like things all over the trace. For one thread.
class Norms {
 public:
  explicit Norms(const Index& index) : index_(index) {}

  // Batches of its executor with about as much work (a power of two of what Join said), otherwise with as many members
  // (steps: about as many), otherwise any. O(batches), and 32 walks.
  const Norm& OfBatch(uint32_t batch);
  // Requests of its route and size that ended. O(requests), and 32 walks.
  const Norm& OfRequest(uint32_t request);
  // How long a lock is held after others waited for it. O(n) in its waits.
  const Norm& OfHold(model::StringId lock);
  // Scopes of its name. O(events).
  const Norm& OfScope(uint32_t event);

 private:
  using LikeKey = std::tuple<model::StringId, uint32_t, uint32_t>;  // executor, a kind of likeness, how much
  void FindLike();
  const BlameVector& WalkOf(uint32_t batch);

  const Index& index_;
  bool has_like_ = false;
  std::vector<LikeKey> like_;                       // of each batch
  std::map<LikeKey, std::vector<uint32_t>> alike_;  // batches
  std::map<LikeKey, Norm> batches_;
  std::map<uint32_t, BlameVector> walks_;  // by batch
  const Norm none_;
  std::map<std::pair<model::StringId, uint32_t>, Norm> requests_;  // by route and size
  std::map<model::StringId, Norm> holds_, scopes_;
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_STAYS_H_
