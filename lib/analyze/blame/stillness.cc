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

std::vector<int64_t> ReadingsOf(const Trace& trace) {
  std::vector<int64_t> readings;
  for (size_t row = 0; row < trace.samples.counter.size(); ++row) {
    const model::CounterRow& counter = trace.counters[trace.samples.counter[row]];
    if (counter.device == kNone && base::IsHostCounter(trace.strings[counter.name]))
      readings.push_back(trace.samples.at_ns[row]);
  }
  std::sort(readings.begin(), readings.end());
  readings.erase(std::unique(readings.begin(), readings.end()), readings.end());
  return readings;
}

// How long tasks of the machine waited for a CPU between the readings around that time; 0 if it is not known.
int64_t CpuPressureNs(const Trace& trace, Interval when) {
  const std::string name = base::HostCounter(base::kCpuPressure);
  int64_t before_ns = INT64_MIN, after_ns = INT64_MAX;
  double before = 0, after = 0;
  for (size_t row = 0; row < trace.samples.counter.size(); ++row) {
    const int64_t at_ns = trace.samples.at_ns[row];
    if (trace.strings[trace.counters[trace.samples.counter[row]].name] != name) continue;
    if (at_ns <= when.begin_ns && at_ns > before_ns) {
      before_ns = at_ns;
      before = trace.samples.value[row];
    } else if (at_ns >= when.end_ns && at_ns < after_ns) {
      after_ns = at_ns;
      after = trace.samples.value[row];
    }
  }
  return before_ns == INT64_MIN || after_ns == INT64_MAX ? 0 : static_cast<int64_t>(after - before);
}

// Times without a reading, that need a reason.
std::vector<Interval> FindLate(const std::vector<int64_t>& readings) {
  if (readings.size() < kLeastReadings) return {};
  std::vector<int64_t> steps;
  for (size_t i = 1; i < readings.size(); ++i) steps.push_back(readings[i] - readings[i - 1]);
  const int64_t least_ns = std::max(kLeastNs, kIntervals * base::Median(std::move(steps)));
  std::vector<Interval> late;
  for (size_t i = 1; i < readings.size(); ++i) {
    if (readings[i] - readings[i - 1] >= least_ns) late.push_back({readings[i - 1], readings[i]});
  }
  return late;
}

}  // namespace

Stillness::Stillness(const Trace& trace) {
  const std::vector<Interval> late = FindLate(ReadingsOf(trace));
  if (late.empty()) return;
  std::vector<std::vector<int64_t>> moments(late.size());  // in which something began or ended
  const auto mark = [&](int64_t at_ns) {
    const auto after =
        std::partition_point(late.begin(), late.end(), [&](Interval one) { return one.end_ns <= at_ns; });
    if (after == late.end() || after->begin_ns > at_ns) return;
    std::vector<int64_t>& in = moments[static_cast<size_t>(after - late.begin())];
    if (in.size() <= kMostMoments) in.push_back(at_ns);
  };
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    mark(trace.events.begin_ns[event]);
    mark(trace.EventEnd(event));
  }
  // A request may have arrived before anybody in the process looked.
  for (const model::RequestRow& request : trace.requests) mark(trace.RequestEnd(request));
  for (const model::MemberRow& member : trace.members) mark(member.join_ns);
  for (const model::HandoffRow& handoff : trace.handoffs) {
    mark(handoff.enqueue_ns);
    mark(handoff.take_ns);
  }
  for (size_t i = 0; i < late.size(); ++i) {
    if (moments[i].size() > kMostMoments) continue;
    moments[i].push_back(late[i].begin_ns);
    moments[i].push_back(late[i].end_ns);
    std::sort(moments[i].begin(), moments[i].end());
    const bool has_cpus = 2 * CpuPressureNs(trace, late[i]) < late[i].end_ns - late[i].begin_ns;
    for (size_t m = 1; m < moments[i].size(); ++m) {
      if (moments[i][m] - moments[i][m - 1] < kLeastNs) continue;
      still_.push_back({moments[i][m - 1], moments[i][m]});
      if (has_cpus) with_cpus_.push_back(still_.back());
    }
  }
}

int64_t Stillness::NsOf(const model::Intervals& still, int64_t begin_ns, int64_t end_ns) {
  auto at = std::partition_point(still.begin(), still.end(), [&](Interval one) { return one.end_ns <= begin_ns; });
  int64_t ns = 0;
  for (; at != still.end() && at->begin_ns < end_ns; ++at)
    ns += std::min(at->end_ns, end_ns) - std::max(at->begin_ns, begin_ns);
  return ns;
}

}  // namespace pitot::blame
