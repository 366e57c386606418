// SPDX-License-Identifier: Apache-2.0
//
// Where the time of many requests of a trace went, for all analyzers that ask about requests.
#ifndef PITOT_ANALYZE_WALKS_H_
#define PITOT_ANALYZE_WALKS_H_

#include <stdint.h>

#include <vector>

#include "pitot/analyze/why.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Returns the rows of requests that began and ended in the trace, by begin. Parts of another request in it are left out
// (a parent elsewhere, named by a traceparent, does not count). Throws std::bad_alloc.
PITOT_EXPORT std::vector<uint32_t> WholeRequests(const model::Trace& trace);

struct Walks {
  static constexpr uint32_t kMost = 1024;
  uint64_t whole = 0;  // requests that could be walked
  // Their blame, by begin; at most kMost, evenly spaced. Requests whose walk failed are missing. Segments and detours
  // are dropped, since they may outweigh the trace: FindBlame has them.
  std::vector<RequestBlame> blames;
};
// Walks requests of the trace that `index` was made of. Asks `is_over` (null: never) before each walk, and ends with
// fewer once it returns true. Throws std::bad_alloc.
// Cost: a walk each.
PITOT_EXPORT Walks FindWalks(const BlameIndex& index, bool (*is_over)(void* context) = nullptr,
                             void* is_over_context = nullptr);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_WALKS_H_
