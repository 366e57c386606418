// SPDX-License-Identifier: Apache-2.0
//
// The walk of one request of a made trace, and quantities of GPUs over time for it.
#ifndef PITOT_TEST_ANALYZE_BLAME_OF_H_
#define PITOT_TEST_ANALYZE_BLAME_OF_H_

#include <catch2/catch.hpp>
#include <cstdint>
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
inline analyze::RequestBlame BlameOf(const model::Trace& trace, uint32_t request) {
  REQUIRE(FindInconsistency(trace) == "");
  analyze::BlameIndex index;
  REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
  analyze::RequestBlame blame;
  REQUIRE(FindBlame(index, request, &blame).ok());
  CHECK(blame.blame.Total() == trace.requests[request].duration_ns);
  return blame;
}

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_BLAME_OF_H_
