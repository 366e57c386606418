// SPDX-License-Identifier: Apache-2.0
//
// NVTX in: the functions that Pitot, as the tool, puts into the slots of every library that emits. They run on the
// host's threads and write to their rings. Handles they give out are numbers or places here, never memory of a library:
// one may be unloaded at any time.
#ifndef PITOT_LIB_COLLECT_NVTX_CAPTURE_H_
#define PITOT_LIB_COLLECT_NVTX_CAPTURE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "collect/nvtx/abi.h"
#include "trace/rings.h"

namespace pitot::nvtx {

// Names that others' texts may take in the process's table of names, which is the host's, too.
inline constexpr uint32_t kMaxNames = 4096;
inline constexpr uint32_t kMaxDomains = trace::kMaxOwners;  // with the two that stand for none and for those beyond
inline constexpr uint32_t kMaxRangesUnderWay = 1024;        // begun by a start, which any thread may end

// What was lost since capturing began, and why.
struct Counts {
  std::atomic<uint64_t> names_folded{0};        // texts beyond kMaxNames: "(other)"
  std::atomic<uint64_t> domains_folded{0};      // creations beyond kMaxDomains: "(other)"
  std::atomic<uint64_t> unknown_handles{0};     // of domains and strings: "(unknown)"
  std::atomic<uint64_t> bad_attributes{0};      // null, or too short to say anything: "(unnamed)"
  std::atomic<uint64_t> payloads_unknown{0};    // of the payload extension, and not NCCL's
  std::atomic<uint64_t> pops_without_push{0};   // nothing to end; one that began before the recording, maybe
  std::atomic<uint64_t> ends_without_start{0};  // the same of starts
  std::atomic<uint64_t> starts_refused{0};      // beyond kMaxRangesUnderWay
  void Clear() noexcept;
};
Counts& GetCounts() noexcept;

// From then on libraries that look for a tool find one; before, they find none, for good.
void BeginCapture() noexcept;
// Events are ignored from then on. Libraries still find the tool.
void EndCapture() noexcept;

// Whether a slot holds a function of ours.
bool IsOurSlot(const void* slot) noexcept;
// The files of the libraries that found us, in order.
std::string AttachedObjects();

// What a start began and nothing has ended. Its texts are of the process's table of names.
struct RangeUnderWay {
  uint32_t name, domain;
  uint64_t begin_ticks;
};
// Fills `ranges`, which has room for kMaxRangesUnderWay.
void FindRangesUnderWay(std::vector<RangeUnderWay>* ranges) noexcept;

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_CAPTURE_H_
