// SPDX-License-Identifier: Apache-2.0
#include "assemble/usage.h"

#include <iterator>

#include "base/host_counters.h"

namespace pitot::assemble {
namespace {

struct Source {
  base::CounterName name;
  uint64_t (*value)(const trace::Usage&);
  bool is_always;  // otherwise only after a change
};
constexpr Source kSources[] = {
    {base::kOnCpu, [](const trace::Usage& usage) { return usage.cpu_ns; }, true},
    {base::kRunQueueDelay, [](const trace::Usage& usage) { return usage.runqueue_ns; }, true},
    {base::kVoluntary, [](const trace::Usage& usage) { return uint64_t{usage.voluntary_switches}; }, true},
    {base::kInvoluntary, [](const trace::Usage& usage) { return uint64_t{usage.involuntary_switches}; }, false},
    {base::kMinorFaults, [](const trace::Usage& usage) { return uint64_t{usage.minor_faults}; }, false},
    {base::kMajorFaults, [](const trace::Usage& usage) { return uint64_t{usage.major_faults}; }, false},
};

}  // namespace

void AddUsages(const std::vector<RawUsage>& usages, TraceBuilder* trace) {
  uint32_t counters[std::size(kSources)] = {};
  const RawUsage* last = nullptr;
  for (auto at = usages.rbegin(); at != usages.rend(); ++at) {
    if (last == nullptr || last->tid != at->tid) {
      last = nullptr;
      for (size_t i = 0; i < std::size(kSources); ++i)
        counters[i] =
            trace->AddCounter(kNoRow, base::ThreadCounter(at->tid, kSources[i].name).c_str(), kSources[i].name.unit);
    }
    for (size_t i = 0; i < std::size(kSources); ++i) {
      const uint64_t value = kSources[i].value(at->usage);
      if (value == trace::Usage::kUnknown) continue;
      if (last == nullptr || kSources[i].is_always || value != kSources[i].value(last->usage))
        trace->AddSample(counters[i], at->at_ns, static_cast<double>(value));
    }
    last = &*at;
  }
}

}  // namespace pitot::assemble
