// SPDX-License-Identifier: Apache-2.0
//
// A hash of numbers. A header alone, because a library that links only pitot::trace has it, too.
#ifndef PITOT_LIB_BASE_MIX_H_
#define PITOT_LIB_BASE_MIX_H_

#include <stdint.h>

namespace pitot::base {

// splitmix64's finaliser: distinct in, distinct out; 0 for 0.
inline uint64_t Mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_MIX_H_
