// SPDX-License-Identifier: Apache-2.0
//
// Which collector lost records of a GPU for lack of memory, and which of its options loses less. A trace has no column
// for the collector: OpenCL's devices have ordinals of their own, and its reasons begin with its name.
#ifndef PITOT_LIB_BASE_MEMORY_OPTION_H_
#define PITOT_LIB_BASE_MEMORY_OPTION_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace pitot::base {

inline constexpr uint32_t kFirstOpenClOrdinal = 100;  // apart from CUDA's
inline constexpr std::string_view kOpenClReason = "OpenCL ";

// The reasons that more memory helps with, after the collector's name.
inline constexpr std::string_view kForMemory[] = {"overwritten",         "decoded too late",
                                                  "no buffer for CUPTI", "an incident holds the memory",
                                                  "no room to keep it",  "no room in the incident"};

// The collectors that lost records for lack of memory.
class MemoryOptions {
 public:
  // Adds a loss, whatever its reason. `ordinal`: its device's; UINT32_MAX: unknown.
  void Add(std::string_view reason, uint32_t ordinal) {
    const bool says_opencl = reason.starts_with(kOpenClReason);
    if (says_opencl) reason.remove_prefix(kOpenClReason.size());
    if (std::find(std::begin(kForMemory), std::end(kForMemory), reason) == std::end(kForMemory)) return;
    const bool is_opencl = says_opencl || (ordinal != UINT32_MAX && ordinal >= kFirstOpenClOrdinal);
    (is_opencl ? has_opencl_ : has_cupti_) = true;
  }
  // Null: more memory does not help.
  const char* Text() const {
    if (has_cupti_ && has_opencl_) return "CuptiOptions::memory_bytes and OpenClOptions::memory_bytes";
    if (has_opencl_) return "OpenClOptions::memory_bytes";
    return has_cupti_ ? "CuptiOptions::memory_bytes" : nullptr;
  }
  bool has_cupti() const { return has_cupti_; }
  bool has_opencl() const { return has_opencl_; }

 private:
  bool has_cupti_ = false, has_opencl_ = false;
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_MEMORY_OPTION_H_
