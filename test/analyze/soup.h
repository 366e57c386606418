// SPDX-License-Identifier: Apache-2.0
//
// Random traces that no server could have made, for rules that must hold for any rows.
#ifndef PITOT_TEST_ANALYZE_SOUP_H_
#define PITOT_TEST_ANALYZE_SOUP_H_

#include <cstddef>
#include <cstdint>
#include <random>

#include "pitot/model/trace.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

// Rows of all kinds that contradict each other; waits, releases and calls with meaningful names.
inline model::Trace Soup(uint32_t seed) {
  model::Trace trace = RandomTrace(seed, 20 + seed % 300);
  std::mt19937 random(seed);
  const model::StringId release = trace.strings.Add("release");
  for (size_t site = 0; site < trace.sites.size(); ++site) {
    model::SiteRow& row = trace.sites[site];
    const bool is_wait = row.kind == SiteKind::kLeaf || site == 0;
    if (!is_wait && row.kind != SiteKind::kInstant) continue;
    row.kind = is_wait ? SiteKind::kWait : SiteKind::kInstant;
    row.name = is_wait ? row.name : release;
    row.name_is_first_arg = false;
    row.arg_types = {ArgType::kUint, ArgType::kName, ArgType::kUint, ArgType::kUint};
    row.arg_names.assign(4, 0);
    for (uint32_t event = 0; event < trace.events.size(); ++event) {
      if (trace.events.site[event] != site) continue;
      trace.events.args[event] = static_cast<uint32_t>(trace.arg_values.size());
      const uint64_t request = trace.requests.empty() ? 0 : trace.requests[random() % trace.requests.size()].id;
      trace.arg_values.insert(trace.arg_values.end(), {random() % 10, 1 + random() % 3, random() % 7, request});
    }
  }
  // Evidence of an interpreter (pitot/interpreter.h), in a third of them.
  const char* const functions[] = {"RecordCollection", "RecordLockHeld", "RecordStep", "BeginStep", "EndStep"};
  for (size_t site = 1; seed % 3 == 0 && site < trace.sites.size(); ++site) {
    model::SiteRow& row = trace.sites[site];
    if (row.kind != SiteKind::kScope || random() % 2 == 0) continue;
    const size_t function = random() % 5;
    row.file = trace.strings.Add("pitot/interpreter.h");
    row.function = trace.strings.Add(functions[function]);
    row.name_is_first_arg = false;
    row.arg_types = {ArgType::kUint, function == 2 ? ArgType::kUint : ArgType::kName, ArgType::kName, ArgType::kUint};
    row.arg_names.assign(4, 0);
    for (uint32_t event = 0; event < trace.events.size(); ++event) {
      if (trace.events.site[event] != site) continue;
      trace.events.args[event] = static_cast<uint32_t>(trace.arg_values.size());
      const uint64_t request = trace.requests.empty() ? 0 : trace.requests[random() % trace.requests.size()].id;
      trace.arg_values.insert(trace.arg_values.end(),
                              {random() % 4, function == 2 ? request : 1 + random() % 3, 1 + random() % 3, 0});
    }
  }
  const char* const names[] = {"cudaLaunchKernel", "cudaStreamSynchronize", "cudaFree", "cudaMalloc", "cudaMemcpy"};
  for (model::StringId& name : trace.calls.name) name = trace.strings.Add(names[random() % 5]);
  return trace;
}

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_SOUP_H_
