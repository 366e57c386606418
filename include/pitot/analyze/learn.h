// SPDX-License-Identifier: Apache-2.0
//
// Which requests of a trace teach what is normal. In a process that is a sample of what happens between incidents and
// what an incident's window holds from before it; in a tool a dump.
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
  // Of each route and size bucket, chosen by a hash of their ids. (analyzers.md section 2.8: not the newest, not the
  // slow ones, but a uniform sample.)
  uint32_t most_per_cell = 16;
  int64_t ended_after_ns = INT64_MIN;  // what ended earlier is known already
  int64_t began_after_ns = INT64_MIN;  // what began earlier belongs to the warm-up
  // Where no request was open for `idle_ns`, clocks of CPUs and GPUs may have gone down: what begins in the `ramp_ns`
  // after it is left out.
  int64_t idle_ns = int64_t{5} * 1'000'000'000;
  int64_t ramp_ns = int64_t{1} * 1'000'000'000;
};

// The rows of ordinary requests: they began and ended in the trace, well, and before anything that a trigger fired for
// had begun; outside of warm-up and ramps. They ended in the last three quarters of the time that the trace holds whole
// and took at most a quarter of it, so that how long a request took has no say in whether it is there. In order of
// rows. Throws std::bad_alloc.
PITOT_EXPORT std::vector<uint32_t> FindOrdinary(const model::Trace& trace, const LearnOptions& options);

// Walks one request and adds it to `baseline`, its scopes too, and (null: not) to `regimes`. Nothing is added where the
// walk is not reliable. Errors: as FindBlame and Baseline::Add. Cost: a walk.
PITOT_EXPORT Status LearnRequest(const BlameIndex& index, uint32_t request, Baseline* baseline,
                                 Regimes* regimes) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_LEARN_H_
