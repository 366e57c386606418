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
  const char* const functions[] = {"RecordCollection", "RecordLockHeld", "RecordStep",
                                   "BeginStep",        "EndStep",        "RecordThreadsStopped"};
  for (size_t site = 1; seed % 3 == 0 && site < trace.sites.size(); ++site) {
    model::SiteRow& row = trace.sites[site];
    if (row.kind != SiteKind::kScope || random() % 2 == 0) continue;
    const size_t function = random() % 6;
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

// The trace with times a thousand times as long: random ones last a few microseconds.
inline model::Trace Stretched(model::Trace trace) {
  constexpr int64_t kTimes = 1'000;
  const auto all = [](auto& table, auto... times) {
    for (auto& row : table) ((row.*times *= row.*times == model::kOpen ? 1 : kTimes), ...);
  };
  const auto columns = [](auto&... times) {
    for (auto* column : {&times...}) {
      for (int64_t& time : *column) time *= time == model::kOpen ? 1 : kTimes;
    }
  };
  columns(trace.events.begin_ns, trace.events.duration_ns, trace.calls.begin_ns, trace.calls.duration_ns,
          trace.gpu.begin_ns, trace.gpu.duration_ns, trace.samples.at_ns);
  all(trace.requests, &model::RequestRow::begin_ns, &model::RequestRow::duration_ns,
      &model::RequestRow::first_token_ns);
  for (model::RequestRow& row : trace.requests) all(row.stages, &model::Stage::begin_ns, &model::Stage::duration_ns);
  all(trace.batches, &model::BatchRow::begin_ns, &model::BatchRow::duration_ns, &model::BatchRow::submitted_ns);
  all(trace.members, &model::MemberRow::join_ns, &model::MemberRow::leave_ns);
  all(trace.handoffs, &model::HandoffRow::enqueue_ns, &model::HandoffRow::take_ns);
  all(trace.asyncs, &model::AsyncRow::begin_ns, &model::AsyncRow::duration_ns);
  all(trace.tokens, &model::TokenRow::at_ns);
  all(trace.firings, &model::FiringRow::at_ns);
  all(trace.losses, &model::LossRow::begin_ns, &model::LossRow::end_ns);
  all(trace.gpu_losses, &model::GpuLossRow::begin_ns, &model::GpuLossRow::end_ns);
  all(trace.overheads, &model::OverheadRow::begin_ns, &model::OverheadRow::duration_ns);
  all(trace.depths, &model::DepthRow::begin_ns, &model::DepthRow::end_ns);
  trace.window_begin_ns *= kTimes;
  trace.window_end_ns *= kTimes;
  return trace;
}

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_SOUP_H_
