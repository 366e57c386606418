// SPDX-License-Identifier: Apache-2.0
//
// Where the time of a trace's requests went, of many at once: what analyzers that ask about requests share.
#ifndef PITOT_ANALYZE_WALKS_H_
#define PITOT_ANALYZE_WALKS_H_

#include <stdint.h>

#include <vector>

#include "pitot/analyze/why.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Rows of requests that began and ended in the trace and are no part of another in it (a parent elsewhere sent a
// traceparent), by begin. Throws std::bad_alloc.
PITOT_EXPORT std::vector<uint32_t> WholeRequests(const model::Trace& trace);

struct Walks {
  static constexpr uint32_t kMost = 1024;
  uint64_t whole = 0;  // requests that could be walked
  // Of these, by begin; where there are more than kMost, evenly spaced. Those that could not be walked are missing.
  // Without segments and detours, which may outweigh the trace: FindBlame has them.
  std::vector<RequestBlame> blames;
};
// Of the trace that `index` was made of. Ends, with fewer, once `is_over` says so, which is asked before each walk;
// null: it has time. Throws std::bad_alloc. Cost: a walk each.
PITOT_EXPORT Walks FindWalks(const BlameIndex& index, bool (*is_over)(void* context) = nullptr,
                             void* is_over_context = nullptr);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_WALKS_H_
