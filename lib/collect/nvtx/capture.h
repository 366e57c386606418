// SPDX-License-Identifier: Apache-2.0
//
// NVTX in: Pitot, as the tool, puts these functions into the slots of every emitting library. They run on the host's
// threads and write to their rings. Their handles are numbers or places here, never memory of a library, because a
// library may be unloaded at any time.
#ifndef PITOT_LIB_COLLECT_NVTX_CAPTURE_H_
#define PITOT_LIB_COLLECT_NVTX_CAPTURE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "collect/nvtx/abi.h"
#include "trace/rings.h"

namespace pitot::nvtx {

// Limit of names for others' texts in the process's table of names, which holds the host's, too.
inline constexpr uint32_t kMaxNames = 4096;
inline constexpr uint32_t kMaxDomains = trace::kMaxOwners;  // including the two for none and for those beyond
inline constexpr uint32_t kMaxRangesUnderWay = 1024;        // begun by a start; any thread may end them

// Losses since capturing began, by reason.
struct Counts {
  std::atomic<uint64_t> names_folded{0};        // texts beyond kMaxNames: "(other)"
  std::atomic<uint64_t> domains_folded{0};      // creations beyond kMaxDomains: "(other)"
  std::atomic<uint64_t> unknown_handles{0};     // of domains and strings: "(unknown)"
  std::atomic<uint64_t> bad_attributes{0};      // null, or too short: "(unnamed)"
  std::atomic<uint64_t> payloads_unknown{0};    // of unknown types, or of the payload extension and not NCCL's
  std::atomic<uint64_t> pops_without_push{0};   // nothing to end; the push may have come before the recording
  std::atomic<uint64_t> ends_without_start{0};  // likewise for starts
  std::atomic<uint64_t> starts_refused{0};      // beyond kMaxRangesUnderWay
  void Clear() noexcept;
};
Counts& GetCounts() noexcept;

// Lets libraries find the tool from now on. A library that looked before found none, and never looks again.
void BeginCapture() noexcept;
// Ignores events from now on. Libraries still find the tool.
void EndCapture() noexcept;

// Whether a slot holds one of our functions.
bool IsOurSlot(const void* slot) noexcept;
// Files of the libraries that found us, in order.
std::string AttachedObjects();

// A started range not ended yet. Its texts are in the process's table of names.
struct RangeUnderWay {
  uint32_t name, domain;
  uint64_t begin_ticks;
};
// Fills `ranges`, which has room for kMaxRangesUnderWay.
void FindRangesUnderWay(std::vector<RangeUnderWay>* ranges) noexcept;

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_CAPTURE_H_
