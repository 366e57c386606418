// SPDX-License-Identifier: Apache-2.0
//
// Divides a request's time between the host and GPUs, as far as both were recorded.
#ifndef PITOT_LIB_SERIALIZE_REPORT_GPU_PARTS_H_
#define PITOT_LIB_SERIALIZE_REPORT_GPU_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pitot/model/index.h"
#include "pitot/model/trace.h"

namespace pitot::report {

// Parts of a request's time, which add up to it. Time in an earlier part is not in a later one.
struct GpuParts {
  int64_t worked_ns = 0;     // GPUs worked for it
  int64_t launching_ns = 0;  // the host was in a call that submits GPU work
  int64_t waiting_ns = 0;    // it was in a call that waits for a GPU
  int64_t calling_ns = 0;    // it was in another call
  int64_t neither_ns = 0;
  int64_t unknown_ns = 0;  // not fully recorded, and without known GPU work for it
  bool IsAny() const { return worked_ns + launching_ns + waiting_ns + calling_ns != 0; }
};

class GpuPartsIndex {
 public:
  // Both must outlive the index. O(n log n).
  GpuPartsIndex(const model::Trace& trace, const model::CoverageIndex& coverage);
  // By calls in the request's context, and in those of its batches while it was a member. O(calls + GPU records).
  GpuParts Of(uint32_t request) const;
  // In whole us that add up. "" if it has neither known calls nor known GPU work.
  std::string Text(uint32_t request) const;

 private:
  const model::Trace& trace_;
  const model::CoverageIndex& coverage_;
  const model::WaitingCalls waiting_;
  // The times when kernels and calls were recorded, and when calls were lost.
  model::Intervals deep_;
  std::vector<model::Interval> lost_;
};

}  // namespace pitot::report

#endif  // PITOT_LIB_SERIALIZE_REPORT_GPU_PARTS_H_
