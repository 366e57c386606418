// SPDX-License-Identifier: Apache-2.0
//
// For join.cc: which GPUs of several traces are one, and numbers for those that are not.
#ifndef PITOT_LIB_READ_JOIN_DEVICES_H_
#define PITOT_LIB_READ_JOIN_DEVICES_H_

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::read {

// The UUID of each device; "" if the trace does not tell. A number or a name is none: each process numbers the GPUs
// that it sees, and names are of models.
std::vector<std::string> UuidsOf(const model::Trace& trace);

// Gives each number once.
class FreeNumbers {
 public:
  // `wanted` if it is free, otherwise the lowest free one. Cost: O(1) on average, whatever is wanted.
  uint32_t Take(uint32_t wanted) {
    ++steps_;
    if (taken_.insert(wanted).second) return wanted;
    while (!taken_.insert(lowest_).second) ++lowest_, ++steps_;
    return lowest_;
  }
  uint64_t steps() const { return steps_; }

 private:
  std::unordered_set<uint32_t> taken_;
  uint32_t lowest_ = 0;  // all below are taken
  uint64_t steps_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_JOIN_DEVICES_H_
