// SPDX-License-Identifier: Apache-2.0
#include "simulator/slow.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/host_counters.h"

namespace simulator {
namespace {

constexpr double kMegahertz = 1980;  // of the clock if nothing holds it
constexpr int64_t kSampleNs = 100'000'000, kAtLeastEveryNs = 1'000'000'000;

uint32_t AddCounter(uint32_t device, const std::string& name, const char* unit, pitot::model::Trace* trace) {
  trace->counters.push_back({device, trace->strings.Add(name), trace->strings.Add(unit)});
  return static_cast<uint32_t>(trace->counters.size() - 1);
}

void AddSample(uint32_t counter, int64_t at_ns, double value, pitot::model::Trace* trace) {
  trace->samples.counter.push_back(counter);
  trace->samples.at_ns.push_back(at_ns);
  trace->samples.value.push_back(value);
}

}  // namespace

int64_t EndOfWork(int64_t begin_ns, int64_t work_ns, const std::vector<Slow>& slows) {
  int64_t at_ns = begin_ns;
  for (const Slow& slow : slows) {
    if (slow.end_ns <= at_ns) continue;
    if (const int64_t before_ns = slow.begin_ns - at_ns; before_ns > 0) {
      if (work_ns <= before_ns) break;
      work_ns -= before_ns;
      at_ns = slow.begin_ns;
    }
    const auto done_ns = static_cast<int64_t>(static_cast<double>(slow.end_ns - at_ns) * slow.speed);
    if (work_ns <= done_ns) return at_ns + std::llround(static_cast<double>(work_ns) / slow.speed);
    work_ns -= done_ns;
    at_ns = slow.end_ns;
  }
  return at_ns + work_ns;
}

int64_t LostNs(int64_t begin_ns, int64_t end_ns, const std::vector<Slow>& slows) {
  int64_t lost_ns = 0;
  for (const Slow& slow : slows) {
    const int64_t overlap_ns = std::min(end_ns, slow.end_ns) - std::max(begin_ns, slow.begin_ns);
    if (overlap_ns > 0) lost_ns += std::llround(static_cast<double>(overlap_ns) * (1 - slow.speed));
  }
  return lost_ns;
}

void AddClock(const std::vector<Slow>& slows, int64_t begin_ns, int64_t end_ns, pitot::model::Trace* trace) {
  const std::string gpu = "GPU 0 (simulated): ";
  const auto add = [&](const std::string& name, const char* unit, const auto& value_at) {
    const uint32_t counter = AddCounter(pitot::model::kNone, gpu + name, unit, trace);
    double last = NAN;
    int64_t written_ns = 0;
    for (int64_t at_ns = begin_ns; at_ns < end_ns; at_ns += kSampleNs) {
      const auto now = std::find_if(slows.begin(), slows.end(),
                                    [&](const Slow& slow) { return slow.begin_ns <= at_ns && at_ns < slow.end_ns; });
      const double value = value_at(now == slows.end() ? 1 : now->speed);
      if (value == last && at_ns - written_ns < kAtLeastEveryNs) continue;
      AddSample(counter, at_ns, value, trace);
      last = value;
      written_ns = at_ns;
    }
  };
  add("SM clock", "MHz", [](double speed) { return std::round(kMegahertz * speed); });
  add("clocks held by SW thermal", "", [](double speed) { return speed < 1 ? 1.0 : 0.0; });
}

void AddCpuReadings(std::vector<CpuReading> readings, pitot::model::Trace* trace) {
  std::map<uint32_t, int64_t> tids;
  for (pitot::model::ThreadRow& thread : trace->threads)
    thread.tid = tids[thread.number] = trace->pid + 1 + thread.number;
  std::stable_sort(readings.begin(), readings.end(), [](const CpuReading& a, const CpuReading& b) {
    return std::tie(a.thread, a.at_ns) < std::tie(b.thread, b.at_ns);
  });
  for (size_t first = 0, last = 0; first < readings.size(); first = last) {
    const uint32_t thread = readings[first].thread;
    while (last < readings.size() && readings[last].thread == thread) ++last;
    const auto add = [&](const pitot::base::CounterName& what, int64_t CpuReading::*value) {
      const uint32_t counter =
          AddCounter(pitot::model::kNone, pitot::base::ThreadCounter(tids[thread], what), what.unit, trace);
      for (size_t i = first; i < last; ++i)
        AddSample(counter, readings[i].at_ns, static_cast<double>(readings[i].*value), trace);
    };
    add(pitot::base::kOnCpu, &CpuReading::on_cpu_ns);
    add(pitot::base::kRunQueueDelay, &CpuReading::delay_ns);
  }
}

}  // namespace simulator
