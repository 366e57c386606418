// SPDX-License-Identifier: Apache-2.0
//
// In what versions of CUPTI differ, by the number that cuptiGetVersion says. All that asks for a version asks here. How
// long records are is found out instead (strides.h), and a function that a library lacks is null (api.h). What was
// measured of CUPTI 13.0 Update 1 and is kept with every version, such as the order of switches: control.cc.
#ifndef PITOT_LIB_COLLECT_CUPTI_QUIRKS_H_
#define PITOT_LIB_COLLECT_CUPTI_QUIRKS_H_

#include <cstdint>

namespace pitot::cupti {

enum class Quirk : uint8_t {
  kRefused,             // better left alone
  kNeedsBuffer,         // crashes where it asks for a buffer and gets none
  kNoPerThreadBuffers,  // threads share them
  kNoFilteredRecords,   // single calls of the CUDA API cannot be had as records
};

// Null: the version does not have it. Else why it is so, in words: of kRefused also what to do about it.
const char* WhyQuirk(uint32_t version, Quirk quirk) noexcept;
inline bool HasQuirk(uint32_t version, Quirk quirk) noexcept { return WhyQuirk(version, quirk) != nullptr; }

// The CUDA that a CUPTI comes with: 11, 12, 13.
uint32_t CudaMajorOf(uint32_t version) noexcept;

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_QUIRKS_H_
