// SPDX-License-Identifier: Apache-2.0
//
// The walk of one request of a made trace, and quantities of GPUs over time for it.
#ifndef PITOT_TEST_ANALYZE_BLAME_OF_H_
#define PITOT_TEST_ANALYZE_BLAME_OF_H_

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pitot/analyze/why.h"
#include "pitot/model/trace.h"

namespace pitot::test {

using CounterValues = std::vector<std::pair<int64_t, double>>;  // from ms on

// `device`: its row; kNone: the process's.
inline void AddCounter(model::Trace* trace, uint32_t device, std::string_view name, const CounterValues& values) {
  const auto row = static_cast<uint32_t>(trace->counters.size());
  trace->counters.push_back({device, trace->strings.Add(name), trace->strings.Add("%")});
  for (const auto& [at_ms, value] : values) {
    trace->samples.counter.push_back(row);
    trace->samples.at_ns.push_back(at_ms * 1'000'000);
    trace->samples.value.push_back(value);
  }
}

// Checks that the trace is consistent, and that the parts add up.
inline analyze::RequestBlame BlameOf(const model::Trace& trace, uint32_t request,
                                     const analyze::BlameOptions& options = {}) {
  REQUIRE(FindInconsistency(trace) == "");
  analyze::BlameIndex index;
  REQUIRE(analyze::BlameIndex::Make(trace, options, &index).ok());
  analyze::RequestBlame blame;
  const Status status = FindBlame(index, request, &blame);
  INFO(status.message());
  REQUIRE(status.ok());
  const int64_t ns = trace.requests[request].duration_ns;
  if (ns != model::kOpen) CHECK(blame.blame.Total() == ns);
  return blame;
}

// "executor_busy 3; host_blocked_lock 12": the segments in their order, in whole units of `unit_ns`.
inline std::string SegmentsText(const analyze::RequestBlame& blame, int64_t unit_ns = 1'000) {
  std::string text;
  for (const analyze::BlameSegment& segment : blame.segments) {
    if (!text.empty()) text += "; ";
    text += BlameName(segment.blame) + (" " + std::to_string((segment.end_ns - segment.begin_ns) / unit_ns));
  }
  return text;
}

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_BLAME_OF_H_
