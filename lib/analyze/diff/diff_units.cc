// SPDX-License-Identifier: Apache-2.0
#include "analyze/diff/diff_units.h"

#include <algorithm>

#include "base/call_class.h"
#include "model/kernel_name.h"
#include "pitot/analyze/walks.h"
#include "pitot/model/classes.h"
#include "pitot/model/index.h"

namespace pitot::diff {

using model::kNone;
using model::Trace;

namespace {

constexpr uint64_t kMostWalked = 2048;

std::vector<model::Interval> StepsOf(const Trace& trace) {
  std::vector<model::Interval> steps;
  const model::Steps are_steps(trace);
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.events.duration_ns[event] > 0 && are_steps.Is(event))
      steps.push_back({trace.events.begin_ns[event], trace.EventEnd(event)});
  }
  std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  // Other threads may record the same steps.
  const auto overlaps = [](const model::Interval& a, const model::Interval& b) { return b.begin_ns < a.end_ns; };
  steps.erase(std::unique(steps.begin(), steps.end(), overlaps), steps.end());
  return steps;
}

}  // namespace

DiffPer FindPer(const Trace& before, const Trace& after) {
  const auto has_units = [](const Trace& trace) { return !WholeRequests(trace).empty(); };
  if (has_units(before) && has_units(after)) return DiffPer::kRequest;
  return StepsOf(before).empty() || StepsOf(after).empty() ? DiffPer::kTrace : DiffPer::kStep;
}

DiffUnits::DiffUnits(const Trace& trace, DiffPer per)
    : trace_(trace), per_(per), unit_of_(trace.requests.size(), kNone) {
  if (per == DiffPer::kTrace) times_ = {{trace.window_begin_ns, trace.window_end_ns}};
  if (per == DiffPer::kStep) times_ = StepsOf(trace);
  for (const uint32_t row : per == DiffPer::kRequest ? WholeRequests(trace) : std::vector<uint32_t>()) {
    unit_of_[row] = size();
    times_.push_back({trace.requests[row].begin_ns, trace.RequestEnd(trace.requests[row])});
    requests_.push_back(row);
  }
  requests_.resize(times_.size(), kNone);
  sample_of_.assign(times_.size(), kNone);
  const uint64_t wanted = std::min(size(), kMostSamples);
  for (uint64_t i = 0; i < wanted; ++i) {
    const auto unit = static_cast<uint32_t>(i * size() / wanted);
    sample_of_[unit] = static_cast<uint32_t>(i);
    samples_.push_back(unit);
  }
}

uint32_t DiffUnits::UnitAt(int64_t at_ns) const {
  const auto after = std::partition_point(times_.begin(), times_.end(),
                                          [&](const model::Interval& time) { return time.begin_ns <= at_ns; });
  if (after == times_.begin() || (after - 1)->end_ns <= at_ns) return kNone;
  return static_cast<uint32_t>(after - times_.begin()) - 1;
}

uint32_t Ledger::Of(const std::string& name) {
  const auto [found, is_new] = rows_.try_emplace(name, static_cast<uint32_t>(entries_.size()));
  if (is_new) entries_.push_back({name, {}, {}});
  return found->second;
}

void Ledger::Add(uint32_t entry, uint32_t unit, int64_t ns, uint32_t parts, bool is_counted) {
  Entry& to = entries_[entry];
  to.amount.total_ns += ns / parts;
  if (is_counted) to.amount.count_millionths += 1'000'000 / parts;
  const uint32_t sample = units_->SampleOf(unit);
  if (sample == kNone) return;
  if (to.values.empty()) to.values.resize(units_->samples().size());
  to.values[sample] += static_cast<double>(ns) / parts;
}

namespace {

// Calls f(unit, parts) for each unit that a row of `gpu` was for.
template <class F> void ForEachOfGpu(const Trace& trace, const DiffUnits& units, uint32_t row, F f) {
  if (trace.gpu.kind[row] == model::GpuKind::kSpan) return;
  const uint32_t call = trace.gpu.call[row];
  if (call == kNone) return units.ForEach(kNone, kNone, trace.gpu.begin_ns[row], f);
  units.ForEach(trace.calls.request[call], trace.calls.batch[call], trace.calls.begin_ns[call], f);
}

}  // namespace

std::vector<double> GpuTimesOf(const Trace& trace, const DiffUnits& units) {
  std::vector<double> times(units.size());
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    ForEachOfGpu(trace, units, row, [&](uint32_t unit, uint32_t parts) {
      times[unit] += static_cast<double>(trace.gpu.duration_ns[row]) / parts;
    });
  }
  return times;
}

Ledger GpuLedger(const Trace& trace, const DiffUnits& units) {
  Ledger ledger(units);
  std::unordered_map<model::StringId, uint32_t> kernels;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    const model::GpuKind kind = trace.gpu.kind[row];
    uint32_t entry = kNone;
    ForEachOfGpu(trace, units, row, [&](uint32_t unit, uint32_t parts) {
      if (entry == kNone && kind == model::GpuKind::kKernel) {
        const auto [found, is_new] = kernels.try_emplace(trace.gpu.name[row], kNone);
        if (is_new) found->second = ledger.Of(model::ReadKernelName(trace.strings[trace.gpu.name[row]]).full);
        entry = found->second;
      } else if (entry == kNone) {
        entry = ledger.Of(kind == model::GpuKind::kGraph ? "graph" : model::ActivityName(trace, row));
      }
      ledger.Add(entry, unit, trace.gpu.duration_ns[row], parts);
    });
  }
  return ledger;
}

Ledger HostLedger(const Trace& trace, const DiffUnits& units) {
  Ledger ledger(units);
  const model::Steps steps(trace);
  std::unordered_map<std::string_view, uint32_t> names;
  const auto entry_of = [&](uint32_t event) {
    const auto [found, is_new] = names.try_emplace(trace.EventName(event), kNone);
    if (is_new) found->second = ledger.Of(std::string(trace.EventName(event)));
    return found->second;
  };
  for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
    for (const model::Segment& segment : model::FlattenThread(trace, thread)) {
      const uint32_t event = segment.event;
      if (steps.Is(event)) continue;
      units.ForEach(trace.events.request[event], trace.events.batch[event], segment.begin_ns,
                    [&](uint32_t unit, uint32_t parts) {
                      ledger.Add(entry_of(event), unit, segment.end_ns - segment.begin_ns, parts,
                                 segment.begin_ns == trace.events.begin_ns[event]);
                    });
    }
  }
  return ledger;
}

std::string LikeOf(const Trace& trace, uint32_t request) {
  if (request == kNone) return "";
  const model::RequestRow& row = trace.requests[request];
  std::string like(trace.strings[row.route]);
  if (like.empty()) like = "(no route)";
  return row.size_bucket == 0 ? like : like + ", size " + std::to_string(row.size_bucket);
}

Ledger SizeLedger(const Trace& trace, const DiffUnits& units) {
  Ledger ledger(units);
  for (uint32_t unit = 0; unit < units.size(); ++unit) {
    const model::Interval time = units.time(unit);
    ledger.Add(ledger.Of(LikeOf(trace, units.request(unit))), unit, time.end_ns - time.begin_ns, 1);
  }
  return ledger;
}

Ledger StageLedger(const Trace& trace, const DiffUnits& units) {
  Ledger ledger(units);
  for (uint32_t unit = 0; unit < units.size(); ++unit) {
    if (units.request(unit) == kNone) continue;
    int64_t left_ns = units.time(unit).end_ns - units.time(unit).begin_ns;
    for (const model::Stage& stage : trace.requests[units.request(unit)].stages) {
      const int64_t ns = std::clamp<int64_t>(stage.duration_ns, 0, left_ns);
      ledger.Add(ledger.Of(std::string(trace.strings[stage.name])), unit, ns, 1);
      left_ns -= ns;
    }
    if (left_ns > 0) ledger.Add(ledger.Of("(no stage)"), unit, left_ns, 1);
  }
  return ledger;
}

Ledger BlameLedger(const Trace& trace, const DiffUnits& units, uint64_t* walked) {
  Ledger ledger(units);
  *walked = 0;
  BlameIndex index;
  if (!BlameIndex::Make(trace, BlameOptions(), &index).ok()) return ledger;
  const uint64_t wanted = std::min<uint64_t>(units.size(), kMostWalked);
  for (uint64_t i = 0; i < wanted; ++i) {
    const auto unit = static_cast<uint32_t>(i * units.size() / wanted);
    RequestBlame blame;
    if (units.request(unit) == kNone || !FindBlame(index, units.request(unit), &blame).ok()) continue;
    ++*walked;
    // Counted by segment: more launches are more, not longer, segments, as their gate says.
    for (const BlameSegment& segment : blame.segments) {
      if (segment.end_ns != segment.begin_ns)
        ledger.Add(ledger.Of(BlameName(segment.blame)), unit, segment.end_ns - segment.begin_ns, 1);
    }
  }
  return ledger;
}

Counts CountsOf(const Trace& trace, const DiffUnits& units) {
  const size_t n = units.size();
  Counts counts{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)};
  const auto add = [&](uint32_t call, double amount, std::vector<double>* to) {
    units.ForEach(trace.calls.request[call], trace.calls.batch[call], trace.calls.begin_ns[call],
                  [&](uint32_t unit, uint32_t parts) { (*to)[unit] += amount / parts; });
  };
  const model::WaitingCalls waiting(trace);
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    const base::CallClass of = base::CallClassOf(trace.strings[trace.calls.name[call]]);
    if (of == base::CallClass::kLaunch) add(call, 1, &counts.launches);
    if (waiting.Has(call)) add(call, 1, &counts.waits);
    if (base::IsAllocation(of)) add(call, 1, &counts.allocations);
  }
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.kind[row] == model::GpuKind::kMemcpy && trace.gpu.call[row] != kNone)
      add(trace.gpu.call[row], static_cast<double>(trace.gpu.bytes[row]), &counts.bytes_copied);
  }
  return counts;
}

}  // namespace pitot::diff
