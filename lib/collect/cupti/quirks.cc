// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/quirks.h"

namespace pitot::cupti {
namespace {

// Numbers from cupti_version.h: 18 is CUDA 11.8, 19 12.0, 20 12.2, 21 12.3, 22 12.4, 23 12.5, 24 12.6, 26 12.8, 27
// 12.9, 28 12.9 Update 1. From 13.0 on they are major * 10000 + minor * 100 + update.
constexpr uint32_t kLastOf11 = 18, kFirstThatSaysCuda = 130000;

struct Row {
  Quirk quirk;
  uint32_t first, last;  // versions that have it
  const char* why;
};
// Source: CUPTI's release notes; for added functions and attributes, its headers.
constexpr Row kRows[] = {
    {Quirk::kNoPerThreadBuffers, 0, 20, "the attribute came with CUDA 12.3"},
    {Quirk::kNoFilteredRecords, 0, 22, "the functions came with CUDA 12.5"},
    {Quirk::kNeedsBuffer, 0, 26, "fixed in CUDA 12.9"},
    {Quirk::kRefused, 130000, 130000,
     "CUPTI 13.0 can deadlock and confuses graphs' launches; to record kernels: install CUDA 13.0 Update 1 or later"},
};

}  // namespace

const char* WhyQuirk(uint32_t version, Quirk quirk) noexcept {
  for (const Row& row : kRows) {
    if (row.quirk == quirk && version >= row.first && version <= row.last) return row.why;
  }
  return nullptr;
}

uint32_t CudaMajorOf(uint32_t version) noexcept {
  return version >= kFirstThatSaysCuda ? version / 10000 : version <= kLastOf11 ? 11 : 12;
}

}  // namespace pitot::cupti
