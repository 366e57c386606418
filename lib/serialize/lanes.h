// SPDX-License-Identifier: Apache-2.0
//
// Rows for slices that overlap: viewers show nested slices of a row, and lose others.
#ifndef PITOT_LIB_SERIALIZE_LANES_H_
#define PITOT_LIB_SERIALIZE_LANES_H_

#include <stdint.h>

#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace pitot::serialize {

// Assigns rows: overlapping slices get different ones.
class Lanes {
 public:
  // Returns a row that is free from `begin_ns` to `end_ns`. Calls must come in the order of `begin_ns`.
  uint32_t Take(int64_t begin_ns, int64_t end_ns) {
    uint32_t lane = count_;
    if (!busy_.empty() && busy_.top().first <= begin_ns) {
      lane = busy_.top().second;
      busy_.pop();
    } else {
      ++count_;
    }
    busy_.emplace(end_ns, lane);
    return lane;
  }

 private:
  using Busy = std::pair<int64_t, uint32_t>;  // end, lane
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy_;
  uint32_t count_ = 0;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_LANES_H_
