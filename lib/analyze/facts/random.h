// SPDX-License-Identifier: Apache-2.0
//
// Random draws that are the same each time.
#ifndef PITOT_LIB_ANALYZE_FACTS_RANDOM_H_
#define PITOT_LIB_ANALYZE_FACTS_RANDOM_H_

#include <cstddef>
#include <cstdint>

#include "pitot/export.h"

namespace pitot::facts {

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // `size` is not 0.
  size_t Below(size_t size) { return static_cast<size_t>(Next() % size); }

 private:
  uint64_t state_ = 1;
};

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_RANDOM_H_
