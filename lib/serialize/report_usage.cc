// SPDX-License-Identifier: Apache-2.0
#include "serialize/report_usage.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/columns.h"
#include "model/recorded.h"
#include "pitot/model/classes.h"

namespace pitot::report {
namespace {

using base::Count;
using base::Duration;
using base::Plural;
using model::Interval;
using model::kNone;
using model::RequestRow;
using model::Trace;

}  // namespace

UsageReport::UsageReport(const Trace& trace, const model::RequestIndex& index, const HostReport& host)
    : trace_(trace),
      index_(index),
      host_(host),
      has_gpu_(model::HasGpu(trace)),
      has_operations_(model::HasGpuWork(trace)),
      are_waits_recorded_(model::AreWaitsRecorded(trace)) {}

std::string UsageReport::Of(uint32_t request, const std::set<uint32_t>& threads) const {
  const std::string cpu = CpuTime(request, threads), allocations = Allocations(request);
  if (cpu.empty() && allocations.empty())
    return has_gpu_ ? "CPU time and allocations by the driver not recorded" : "CPU time not recorded";
  return (cpu.empty() ? "CPU time not recorded" : cpu) + (!allocations.empty() ? "; " + allocations
                                                          : has_gpu_ ? "; allocations by the driver not recorded"
                                                                     : "");
}

model::Intervals UsageReport::TimesOf(uint32_t thread, uint32_t request) const {
  const RequestRow& row = trace_.requests[request];
  const Interval ran{row.begin_ns, trace_.RequestEnd(row)};
  std::vector<Interval> batches;
  for (const uint32_t batch : index_.Batches(request)) {
    const model::BatchRow& of = trace_.batches[batch];
    if (of.thread == thread) batches.push_back({of.begin_ns, trace_.BatchEnd(of)});
  }
  const bool is_of_batches = !batches.empty() && thread != row.begin_thread && thread != row.end_thread;
  const model::Intervals whole = model::Union({ran});
  return is_of_batches ? model::Intersection(whole, model::Union(std::move(batches))) : whole;
}

// "" if it was not recorded.
std::string UsageReport::CpuTime(uint32_t request, const std::set<uint32_t>& threads) const {
  int64_t all_ns = 0;
  size_t known = 0;
  for (const uint32_t thread : threads) {
    const model::Intervals times = TimesOf(thread, request);
    const std::optional<int64_t> ns = host_.CpuNs(thread, times);
    if (!ns) continue;
    ++known;
    all_ns += *ns;
  }
  if (known == 0) return "";
  const std::string all = Plural(threads.size(), "thread");
  return Duration(all_ns) + " of CPU time on " +
         (known == threads.size() ? "its " + all : Count(known) + " of its " + all);
}

// "" if they were not recorded, or there is no GPU.
std::string UsageReport::Allocations(uint32_t request) const {
  const RequestRow& row = trace_.requests[request];
  const bool is_deep =
      has_operations_ && model::DepthOf(trace_, row.begin_ns, trace_.RequestEnd(row)) >= Depth::kKernels;
  if (!has_gpu_ || !(are_waits_recorded_ || is_deep)) return "";
  const auto batches = index_.Batches(request);  // in order
  uint64_t allocations = 0, frees = 0;
  int64_t ns = 0;
  std::unordered_map<model::StringId, bool> names;  // whether they are of allocations
  for (uint32_t call = 0; call < trace_.calls.size(); ++call) {
    const uint32_t batch = trace_.calls.batch[call];
    const bool is_its = batch == kNone ? trace_.calls.request[call] == request
                                       : std::binary_search(batches.begin(), batches.end(), batch);
    if (!is_its) continue;
    const std::string_view name = trace_.strings[trace_.calls.name[call]];
    const auto [known, is_new] = names.try_emplace(trace_.calls.name[call]);
    if (is_new) known->second = model::IsAllocation(name);
    if (!known->second) continue;
    ++(name.find("Free") != std::string_view::npos ? frees : allocations);
    ns += trace_.CallEnd(call) - trace_.calls.begin_ns[call];
  }
  if (allocations + frees == 0) return "no allocations by the driver";
  return Plural(allocations, "allocation") + " and " + Plural(frees, "free") + " by the driver, " + Duration(ns) +
         " in all";
}

}  // namespace pitot::report
