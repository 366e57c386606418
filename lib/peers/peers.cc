// SPDX-License-Identifier: Apache-2.0
#include "peers/peers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/sort_runs.h"

namespace pitot::peers {

using model::GpuKind;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

namespace {

bool Begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

// The value Python's JSON parser reads, to the last bit: the double nearest to the decimal number.
double NearestUs(int64_t ns) {
  constexpr int64_t kExact = int64_t{1} << 53;  // within it a division of doubles rounds once, and is much faster
  if (-kExact <= ns && ns <= kExact) return static_cast<double>(ns) / 1000;
  return static_cast<double>(static_cast<long double>(ns) / 1000);
}

int64_t GpuEnd(const Trace& trace, uint32_t row) { return trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]; }

std::vector<uint32_t> Steps(const Trace& trace) {
  std::vector<bool> is_step;
  for (const model::SiteRow& site : trace.sites) is_step.push_back(model::IsProfilerStep(trace.strings[site.name]));
  std::vector<uint32_t> steps;
  for (uint32_t row = 0; row < trace.events.size(); ++row) {
    if (is_step[trace.events.site[row]]) steps.push_back(row);
  }
  return steps;
}

// Counts different names, as HTA does: "ProfilerStep#7" is one.
size_t CountStepNames(const Trace& trace) {
  std::set<uint32_t> names;
  for (const uint32_t row : Steps(trace)) names.insert(trace.events.site[row]);
  return names.size();
}

HtaType TypeOfKernel(std::string_view name) {
  if (Begins(name, "nccl") || Begins(name, "hip") || Begins(name, "hccl") ||
      name.find("ncclKernel") != std::string_view::npos)
    return HtaType::kCommunication;
  return Begins(name, "dma") ? HtaType::kMemory : HtaType::kComputation;
}

// Adds the GPU's waits for a stream, from the counters made by ReadKineto.
void AddSyncs(const Trace& trace, std::vector<HtaRow>* rows) {
  for (uint32_t i = 0; i + 1 < trace.samples.size(); ++i) {
    const uint32_t counter = trace.samples.counter[i];
    if (trace.samples.value[i] <= 0 || trace.samples.counter[i + 1] != counter ||
        !Begins(trace.strings[trace.counters[counter].name], "waits for "))
      continue;
    const int64_t begin_ns = trace.samples.at_ns[i];
    rows->push_back({ToHta(begin_ns, trace.samples.at_ns[i + 1] - begin_ns), HtaType::kOther, kNone});
  }
}

}  // namespace

HtaTime ToHta(int64_t begin_ns, int64_t duration_ns) {
  const double begin_us = NearestUs(begin_ns), duration_us = NearestUs(duration_ns);
  const auto first_us = static_cast<int64_t>(std::ceil(begin_us));
  return {first_us, static_cast<int64_t>(std::floor(begin_us + duration_us)) - first_us};
}

std::vector<HtaRow> HtaRows(const Trace& trace) {
  const bool needs_call = CountStepNames(trace) >= 2;
  std::vector<std::optional<HtaType>> types(trace.strings.size());  // of kernels, by name
  std::vector<HtaRow> rows;
  rows.reserve(trace.gpu.size());
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.kind[row] == GpuKind::kSpan || (needs_call && trace.gpu.call[row] == kNone)) continue;
    HtaType type = HtaType::kMemory;
    if (trace.gpu.kind[row] == GpuKind::kKernel) {
      std::optional<HtaType>& known = types[trace.gpu.name[row]];
      if (!known) known = TypeOfKernel(trace.strings[trace.gpu.name[row]]);
      type = *known;
    }
    rows.push_back({ToHta(trace.gpu.begin_ns[row], trace.gpu.duration_ns[row]), type, row});
  }
  AddSyncs(trace, &rows);
  base::SortRuns(&rows, [](const HtaRow& a, const HtaRow& b) { return a.time.begin_us < b.time.begin_us; });
  return rows;
}

HtaMerged HtaMerge(const std::vector<HtaRow>& rows) {
  HtaMerged merged;
  if (rows.empty()) return merged;
  merged.begin_us = rows.front().time.begin_us;
  int64_t begin_us = merged.begin_us, end_us = rows.front().time.EndUs(), latest_us = end_us;
  for (const HtaRow& row : rows) {
    if (row.time.begin_us > latest_us) {
      merged.total_us += end_us - begin_us;
      begin_us = row.time.begin_us;
      end_us = row.time.EndUs();
    }
    end_us = std::max(end_us, row.time.EndUs());
    latest_us = std::max(latest_us, row.time.EndUs());
  }
  merged.total_us += end_us - begin_us;
  merged.end_us = end_us;
  return merged;
}

TraceLensTotals TraceLensMerge(const Trace& trace, const std::vector<uint32_t>& rows) {
  std::vector<std::pair<double, double>> times;
  for (const uint32_t row : rows) {
    const double begin_us = NearestUs(trace.gpu.begin_ns[row]);
    times.emplace_back(begin_us, begin_us + NearestUs(trace.gpu.duration_ns[row]));
  }
  std::stable_sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  TraceLensTotals totals;
  if (times.empty()) return totals;
  std::vector<std::pair<double, double>> merged = {times.front()};
  for (const auto& time : times) {
    if (time.first > merged.back().second) merged.push_back(time);
    merged.back().second = std::max(merged.back().second, time.second);
  }
  totals.total_us = merged.back().second - merged.front().first;
  for (const auto& time : merged) totals.busy_us += time.second - time.first;
  return totals;
}

bool HtaLaunches(std::string_view call) {
  for (const std::string_view name :
       {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"}) {
    if (call == name) return true;
  }
  return false;
}

std::vector<uint32_t> TraceLensRows(const Trace& trace) {
  std::vector<uint32_t> rows, linked;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.kind[row] == GpuKind::kSpan) continue;
    rows.push_back(row);
    if (trace.gpu.call[row] != kNone) linked.push_back(row);
  }
  return linked.empty() ? rows : linked;
}

Intervals TbSteps(const Trace& trace, const model::LaunchIndex& launches) {
  Intervals steps;
  for (const uint32_t row : Steps(trace)) steps.push_back({trace.events.begin_ns[row], trace.EventEnd(row)});
  if (steps.empty()) return {{trace.window_begin_ns, trace.window_end_ns}};

  // Calls inside a step, by beginning: the GPU work they launched belongs to the step.
  std::vector<uint32_t> calls(trace.calls.size());
  std::iota(calls.begin(), calls.end(), 0);
  std::stable_sort(calls.begin(), calls.end(),
                   [&](uint32_t a, uint32_t b) { return trace.calls.begin_ns[a] < trace.calls.begin_ns[b]; });
  struct Device {
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    uint64_t rows = 0;
  };
  std::vector<Device> devices(steps.size());
  std::vector<bool> is_of_step(trace.gpu.size());
  for (size_t step = 0, call = 0; step < steps.size() && call < calls.size();) {
    const uint32_t row = calls[call];
    const int64_t begin_ns = trace.calls.begin_ns[row];
    if (begin_ns >= steps[step].end_ns && begin_ns >= steps[step].begin_ns) {
      ++step;
      continue;
    }
    ++call;
    if (begin_ns < steps[step].begin_ns || begin_ns + trace.calls.duration_ns[row] > steps[step].end_ns) continue;
    for (const uint32_t gpu_row : launches.Gpu(row)) {
      devices[step].begin_ns = std::min(devices[step].begin_ns, trace.gpu.begin_ns[gpu_row]);
      devices[step].end_ns = std::max(devices[step].end_ns, GpuEnd(trace, gpu_row));
      ++devices[step].rows;
      is_of_step[gpu_row] = true;
    }
  }
  if (std::none_of(devices.begin(), devices.end(), [](const Device& device) { return device.rows != 0; })) return steps;

  // Other work that ended before the first step's own GPU work began delays the beginning of the step.
  int64_t before_ns = steps[0].begin_ns;
  for (uint32_t row = 0; row < trace.gpu.size() && devices[0].rows != 0; ++row) {
    if (!is_of_step[row] && GpuEnd(trace, row) < devices[0].begin_ns)
      before_ns = std::max(before_ns, GpuEnd(trace, row));
  }
  for (size_t step = 0; step < steps.size(); ++step) {
    steps[step].begin_ns = std::max(steps[step].begin_ns, before_ns);
    steps[step].end_ns = std::max({steps[step].end_ns, devices[step].end_ns, steps[step].begin_ns});
    before_ns = steps[step].end_ns;
  }
  size_t last = steps.size();
  while (last > 0 && devices[last - 1].rows == 0) --last;
  // With less than four fifths of the rows of the step before, the profiler may have missed the step's end.
  if (last > 1 && 5 * devices[last - 1].rows < 4 * devices[last - 2].rows) --last;
  steps.resize(last);
  return steps;
}

std::vector<Intervals> TbRoles(const Trace& trace, const model::IntervalSets& sets) {
  std::vector<std::vector<Interval>> roles(kTbRoles);
  const auto add = [](std::vector<Interval>* role, const Intervals& set) {
    role->insert(role->end(), set.begin(), set.end());
  };
  for (uint32_t device = 0; device <= trace.devices.size(); ++device) {
    const uint32_t of = device == trace.devices.size() ? kNone : device;
    add(&roles[0], sets.Gpu(of, model::GpuClass::kCompute));
    add(&roles[1], sets.Gpu(of, model::GpuClass::kMemcpy));
    add(&roles[2], sets.Gpu(of, model::GpuClass::kMemset));
    add(&roles[3], sets.Gpu(of, model::GpuClass::kCommunication));
  }
  for (const model::HostClass of :
       {model::HostClass::kSynchronization, model::HostClass::kAllocation, model::HostClass::kApi})
    add(&roles[4], sets.Host(of));
  add(&roles[5], sets.Host(model::HostClass::kLoader));
  for (const model::HostClass of : {model::HostClass::kOperator, model::HostClass::kScope})
    add(&roles[6], sets.Host(of));
  std::vector<Intervals> united;
  for (std::vector<Interval>& role : roles) united.push_back(Union(std::move(role)));
  return united;
}

}  // namespace pitot::peers
