// SPDX-License-Identifier: Apache-2.0
//
// Differences between versions of CUPTI, by the number from cuptiGetVersion. All code that depends on a version asks
// here. Lengths of records are found out instead (strides.h), and a function missing in a library is null (api.h).
// Behaviour measured for CUPTI 13.0 Update 1 and assumed for every version, such as the order of switches, is in
// control.cc.
#ifndef PITOT_LIB_COLLECT_CUPTI_QUIRKS_H_
#define PITOT_LIB_COLLECT_CUPTI_QUIRKS_H_

#include <cstdint>

namespace pitot::cupti {

enum class Quirk : uint8_t {
  kRefused,             // better left alone
  kNeedsBuffer,         // crashes if it asks for a buffer and gets none
  kNoPerThreadBuffers,  // threads share them
  kNoFilteredRecords,   // single calls of the CUDA API cannot be had as records
};

// Null: the version does not have it. Otherwise the reason, in words; for kRefused also the remedy.
const char* WhyQuirk(uint32_t version, Quirk quirk) noexcept;
inline bool HasQuirk(uint32_t version, Quirk quirk) noexcept { return WhyQuirk(version, quirk) != nullptr; }

// The CUDA of a CUPTI: 11, 12, 13.
uint32_t CudaMajorOf(uint32_t version) noexcept;

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_QUIRKS_H_
