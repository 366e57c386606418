// SPDX-License-Identifier: Apache-2.0
//
// Selects the requests of a trace that teach what is normal. In a process the trace is a sample from between incidents,
// or the part of an incident's window before it. In a tool it is a dump.
#ifndef PITOT_ANALYZE_LEARN_H_
#define PITOT_ANALYZE_LEARN_H_

#include <stdint.h>

#include <vector>

#include "pitot/analyze/baseline.h"
#include "pitot/analyze/drift.h"
#include "pitot/analyze/why.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

struct LearnOptions {
  // Per route and size bucket, chosen by a hash of the ids. (A uniform sample, not the newest and not the slow
  // ones: docs/reference/why.md#in-the-process.)
  uint32_t most_per_cell = 16;
  int64_t ended_after_ns = INT64_MIN;  // requests that ended earlier are known already
  int64_t began_after_ns = INT64_MIN;  // requests that began earlier belong to the warm-up
  // If no request was open for `idle_ns`, CPU and GPU clocks may have gone down. Requests that begin in the `ramp_ns`
  // after it are left out.
  int64_t idle_ns = int64_t{5} * 1'000'000'000;
  int64_t ramp_ns = int64_t{1} * 1'000'000'000;
  // Ends LearnStays, like BlameOptions::is_over: asked before each walk, and now and then between. Null: only the
  // index's ends it.
  bool (*is_over)(void* context) = nullptr;
  void* is_over_context = nullptr;
};

// Returns the rows of ordinary requests, in order of rows. They began and ended in the trace, ended well, and lie
// outside of warm-up and ramps. They ended before any request that a trigger fired for had begun. They also ended in
// the last three quarters of the time the trace holds whole, and took at most a quarter of it. A request's length
// therefore has no influence on whether it is chosen. Throws std::bad_alloc.
PITOT_EXPORT std::vector<uint32_t> FindOrdinary(const model::Trace& trace, const LearnOptions& options);

// Walks one request and adds it and its scopes to `baseline`, and to `regimes` unless that is null. Adds nothing if the
// walk is not reliable.
// Errors: as FindBlame and Baseline::Add.
// Cost: a walk.
PITOT_EXPORT Status LearnRequest(const BlameIndex& index, uint32_t request, Baseline* baseline,
                                 Regimes* regimes) noexcept;

// Walks batches and tokens of the trace and adds them, with holds of locks, and with stays in queues, GPU work and
// scopes of the 16 names with most time, by the same rule. A hash chooses two of each kind, 64 batches in all; four
// tokens of each kind, 64 in all. Batches and tokens are left out if their walk is not reliable. Errors:
// kResourceExhausted (no memory, or the time is up; what was added stays), and those of FindBlame. Cost: at most 128
// walks, and O(n log n) in the events and tokens.
PITOT_EXPORT Status LearnStays(const BlameIndex& index, const LearnOptions& options, Baseline* baseline) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_LEARN_H_
