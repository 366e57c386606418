// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/stillness.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/host_counters.h"
#include "base/quantile.h"

namespace pitot::blame {

using model::Interval;
using model::kNone;
using model::Trace;

namespace {

// Pitot's host thread reads counters every 20 to 100 ms. It was late by this, and by so many of its usual intervals.
constexpr int64_t kLeastNs = 100'000'000;
constexpr int64_t kIntervals = 5;
constexpr size_t kLeastReadings = 20;
constexpr size_t kMostMoments = 64;  // in such a time; more are not looked at

std::vector<int64_t> ReadingsOf(const Trace& trace, const model::Parts& parts, uint32_t part) {
  std::vector<bool> is_of_host;  // by row of counters
  for (const model::CounterRow& counter : trace.counters) {
    const model::Parts::Name name = parts.Split(trace.strings[counter.name]);
    is_of_host.push_back(counter.device == kNone && name.part == part && base::IsHostCounter(name.own));
  }
  std::vector<int64_t> readings;
  for (size_t row = 0; row < trace.samples.counter.size(); ++row) {
    if (is_of_host[trace.samples.counter[row]]) readings.push_back(trace.samples.at_ns[row]);
  }
  std::sort(readings.begin(), readings.end());
  readings.erase(std::unique(readings.begin(), readings.end()), readings.end());
  return readings;
}

// A counter's values by the moment of the reading; empty if there are none.
using HostValues = std::vector<std::pair<int64_t, double>>;
HostValues CounterValues(const Trace& trace, const std::string& name) {
  const auto counter = std::find_if(trace.counters.begin(), trace.counters.end(),
                                    [&](const auto& row) { return trace.strings[row.name] == name; });
  const auto number = static_cast<uint32_t>(counter - trace.counters.begin());
  const std::vector<uint32_t>& of = trace.samples.counter;
  const auto [first, last] = std::equal_range(of.begin(), of.end(), number);
  HostValues readings;
  for (auto at = first; at != last; ++at) {
    const auto row = static_cast<size_t>(at - of.begin());
    readings.emplace_back(trace.samples.at_ns[row], trace.samples.value[row]);
  }
  return readings;
}

bool IsReadBefore(const std::pair<int64_t, double>& reading, int64_t at_ns) { return reading.first < at_ns; }

// How much it grew between the readings around that time; 0 if it is not known.
int64_t GrewNs(const HostValues& readings, Interval when) {
  const auto after = std::lower_bound(readings.begin(), readings.end(), when.end_ns, IsReadBefore);
  const auto before = std::lower_bound(readings.begin(), readings.end(), when.begin_ns + 1, IsReadBefore);
  if (before == readings.begin() || after == readings.end()) return 0;
  return static_cast<int64_t>(after->second - (before - 1)->second);
}

// How long the host thread meant to rest after a reading at that moment.
int64_t PlannedRestNs(const HostValues& rests, int64_t at_ns) {
  const auto after = std::lower_bound(rests.begin(), rests.end(), at_ns + 1, IsReadBefore);
  return after != rests.begin() ? static_cast<int64_t>((after - 1)->second) : 0;
}

// Times without a reading, that need a reason: a rest is one.
std::vector<Interval> FindLate(const std::vector<int64_t>& readings, const HostValues& rests) {
  std::vector<Interval> between;
  std::vector<int64_t> steps;
  for (size_t i = 1; i < readings.size(); ++i) {
    const int64_t rest_ns = PlannedRestNs(rests, readings[i - 1]);
    if (rest_ns == 0) steps.push_back(readings[i] - readings[i - 1]);
    between.push_back({readings[i - 1] + rest_ns, readings[i]});
  }
  if (steps.size() + 1 < kLeastReadings) return {};
  const int64_t least_ns = std::max(kLeastNs, kIntervals * base::Median(std::move(steps)));
  std::erase_if(between, [=](Interval one) { return one.end_ns - one.begin_ns < least_ns; });
  return between;
}

}  // namespace

Stillness::Stillness(const Trace& trace) {
  const model::Parts parts(trace);
  parts_ = parts.OfThreads();
  for (const uint32_t part : parts.All()) Find(trace, parts, &processes_.emplace_back(Process{part, {}, {}}));
}

void Stillness::Find(const Trace& trace, const model::Parts& parts, Process* process) const {
  const uint32_t part = process->part;
  const auto values = [&](const base::CounterName& what) {
    return CounterValues(trace, parts.NameOf(part, base::HostCounter(what)));
  };
  const std::vector<Interval> late = FindLate(ReadingsOf(trace, parts, part), values(base::kRest));
  if (late.empty()) return;
  std::vector<std::vector<int64_t>> moments(late.size());  // in which something began or ended
  const auto mark = [&](uint32_t thread, int64_t at_ns) {
    if (thread != kNone && parts_[thread] != part) return;
    const auto after =
        std::partition_point(late.begin(), late.end(), [&](Interval one) { return one.end_ns <= at_ns; });
    if (after == late.end() || after->begin_ns > at_ns) return;
    std::vector<int64_t>& in = moments[static_cast<size_t>(after - late.begin())];
    if (in.size() <= kMostMoments) in.push_back(at_ns);
  };
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    mark(trace.events.thread[event], trace.events.begin_ns[event]);
    mark(trace.events.thread[event], trace.EventEnd(event));
  }
  // A request may have arrived before anybody in the process looked.
  for (const model::RequestRow& request : trace.requests) mark(request.end_thread, trace.RequestEnd(request));
  for (const model::MemberRow& member : trace.members) mark(trace.batches[member.batch].thread, member.join_ns);
  for (const model::HandoffRow& handoff : trace.handoffs) {
    mark(handoff.from_thread, handoff.enqueue_ns);
    mark(handoff.to_thread, handoff.take_ns);
  }
  const HostValues pressure = values(base::kCpuPressure);
  for (size_t i = 0; i < late.size(); ++i) {
    if (moments[i].size() > kMostMoments) continue;
    moments[i].push_back(late[i].begin_ns);
    moments[i].push_back(late[i].end_ns);
    std::sort(moments[i].begin(), moments[i].end());
    const bool has_cpus = 2 * GrewNs(pressure, late[i]) < late[i].end_ns - late[i].begin_ns;
    for (size_t m = 1; m < moments[i].size(); ++m) {
      if (moments[i][m] - moments[i][m - 1] < kLeastNs) continue;
      process->still.push_back({moments[i][m - 1], moments[i][m]});
      if (has_cpus) process->with_cpus.push_back(process->still.back());
    }
  }
}

int64_t Stillness::NsOf(model::Intervals Process::*times, uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
  const uint32_t part = thread == kNone ? kNone : parts_[thread];
  const auto process =
      std::find_if(processes_.begin(), processes_.end(), [&](const Process& one) { return one.part == part; });
  if (process == processes_.end()) return 0;
  const model::Intervals& still = (*process).*times;
  auto at = std::partition_point(still.begin(), still.end(), [&](Interval one) { return one.end_ns <= begin_ns; });
  int64_t ns = 0;
  for (; at != still.end() && at->begin_ns < end_ns; ++at)
    ns += std::min(at->end_ns, end_ns) - std::max(at->begin_ns, begin_ns);
  return ns;
}

}  // namespace pitot::blame
