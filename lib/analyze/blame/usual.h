// SPDX-License-Identifier: Apache-2.0
//
// How long similar batches and requests of the trace usually take.
#ifndef PITOT_LIB_ANALYZE_BLAME_USUAL_H_
#define PITOT_LIB_ANALYZE_BLAME_USUAL_H_

#include <map>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::blame {

// Lengths of batches by executor and number of members, without their windows, and of requests by route and size. Open
// rows and rows without a known beginning have no length; nor have iterations, because their requests change.
class Usual {
 public:
  // O(n) in the events, O(n log n) in batches and requests.
  explicit Usual(const model::Trace& trace);

  struct Lengths {
    uint32_t count = 0;
    int64_t median_ns = 0;
  };
  Lengths OfRequest(uint32_t request) const;
  Lengths OfBatch(uint32_t batch) const;
  int64_t BatchNs(uint32_t batch) const { return batch_ns_[batch]; }  // 0: it has no length

 private:
  using Key = std::pair<uint32_t, uint32_t>;
  static Lengths At(const std::map<Key, Lengths>& all, Key key) {
    const auto found = all.find(key);
    return found == all.end() ? Lengths{} : found->second;
  }

  const model::Trace& trace_;
  std::vector<int64_t> batch_ns_;
  std::map<Key, Lengths> batches_;   // by executor and members
  std::map<Key, Lengths> requests_;  // by route and size
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_USUAL_H_
