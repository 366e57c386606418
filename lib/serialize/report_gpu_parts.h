// SPDX-License-Identifier: Apache-2.0
//
// How a request's time divides between the host and GPUs, as far as both were recorded.
#ifndef PITOT_LIB_SERIALIZE_REPORT_GPU_PARTS_H_
#define PITOT_LIB_SERIALIZE_REPORT_GPU_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pitot/model/index.h"
#include "pitot/model/trace.h"

namespace pitot::report {

// Parts of a request's time, ns, which add up to it. What is in an earlier part is not in a later one.
struct GpuParts {
  int64_t worked_ns = 0;     // GPUs, for it
  int64_t launching_ns = 0;  // the host was in a call that puts work on a GPU
  int64_t waiting_ns = 0;    // in one that waits for a GPU
  int64_t calling_ns = 0;    // in another
  int64_t neither_ns = 0;
  int64_t unknown_ns = 0;  // not all was recorded, and nothing says that GPUs worked for it
  bool IsAny() const { return worked_ns + launching_ns + waiting_ns + calling_ns != 0; }
};

class GpuPartsIndex {
 public:
  // Both must outlive it. O(n log n).
  GpuPartsIndex(const model::Trace& trace, const model::CoverageIndex& coverage);
  // Of calls in the contexts of its batches, while it was a member, and in its own. O(calls and GPU records).
  GpuParts Of(uint32_t request) const;
  // In whole us, which add up; "" where neither calls nor work of GPUs are known to be its.
  std::string Text(uint32_t request) const;

 private:
  const model::Trace& trace_;
  const model::CoverageIndex& coverage_;
  const model::WaitingCalls waiting_;
  // When kernels and calls were recorded; and when calls were lost.
  model::Intervals deep_;
  std::vector<model::Interval> lost_;
};

}  // namespace pitot::report

#endif  // PITOT_LIB_SERIALIZE_REPORT_GPU_PARTS_H_
