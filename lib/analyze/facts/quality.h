// SPDX-License-Identifier: Apache-2.0
//
// Faults of the trace itself, and the answers they make less sure.
#ifndef PITOT_LIB_ANALYZE_FACTS_QUALITY_H_
#define PITOT_LIB_ANALYZE_FACTS_QUALITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/recorded.h"
#include "pitot/extend/analyzer.h"
#include "pitot/model/indexes.h"
#include "pitot/model/trace.h"

namespace pitot::facts {

// Beyond these limits a trace is damaged.
struct QualityLimits {
  double unmatched_share = 0.01;  // GPU rows without a call; Pitot's
  double instant_share = 0.01;    // GPU rows without a duration; Pitot's
  int64_t skew_ns = 1000;         // GPU rows that began before their calls by more: its clock's grain is up to 1 us
  int64_t late_ns = 200'000;      // a launch's least latency beyond this is too large: more than any seen; Pitot's
  uint32_t least_launches = 100;  // needed for that
  double overhead_share = 0.05;   // of the window, with the profiling library at work; Pitot's
  double endless_share = 0.05;    // of requests, with a lost end; Pitot's
};

inline constexpr double kLeastMultiplier = 0.5;

struct Damage {
  const char* code = "";  // "a39.lost_gpu_records"
  std::string subject;
  std::string caveat;  // "GPU records were lost in 12.0 % of the window"
  const char* advice = "";
  const char* metric = "";
  double value = 0;
  const char* limit = "";  // the threshold of a39 it exceeds
  uint32_t spoils = 0;     // bits of kReads...: the answers it spoils
  double multiplier = 1;   // of their confidence, at least kLeastMultiplier
  model::Interval where;
  // GPU work that is missing, by number, as an estimate: what looks idle may have been at work.
  double missing_launches = 0;  // of launches without work in the trace
  double set_aside = 0;         // records that cannot be true
};

// Whether the clock of every GPU can be right against the host's: work begins after its launch, and some of it soon
// after. O(n) of the GPU's rows.
bool AreGpuTimesKnown(const model::Trace& trace, const QualityLimits& limits);

using model::AreWaitsRecorded;
using model::DepthOf;

// Whether events of threads are missing: not requests without room, nor scopes closed on another thread.
inline bool AreEventsLost(model::LossReason reason) {
  return reason != model::LossReason::kOpenRequests && reason != model::LossReason::kClosedElsewhere;
}

// The damages of the trace, the worst first. O(n) of the GPU's rows.
std::vector<Damage> FindDamages(const model::Trace& trace, const QualityLimits& limits);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_QUALITY_H_
