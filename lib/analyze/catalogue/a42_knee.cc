// SPDX-License-Identifier: Apache-2.0
//
// A42: is there more load than the server can use? The window is cut into slices; slices with as many requests in
// flight are one level of load. At the knee throughput / latency, Kleinrock's power (1979), is largest; beyond it
// requests only wait for each other. Many requests are also in flight if the server has become slow: then its
// throughput while it has any is below that at the knee. A server with idle stations (a28) is not beyond its capacity:
// more requests did not come, and some took longer.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/serving.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/patience.h"
#include "pitot/model/intervals.h"

namespace pitot::catalogue {
namespace a42 {
namespace {

using facts::Accumulate;
using facts::AddNumber;
using facts::Conclude;
using facts::DevicesAtWork;
using facts::EachOf;
using facts::FirstCalls;
using facts::GroupOfThread;
using facts::InfoOf;
using facts::Judged;
using facts::kAll;
using facts::Percent;
using facts::Share;
using facts::WorkForAny;
using model::Interval;
using model::Intervals;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"latency_growth", 1.5, "1", "pitot"},             // beyond the knee, times the latency at it
    {"throughput_gain", 0.05, "1", "model_analyzer"},  // a smaller gain is a plateau
    {"pace", 0.8, "1", "pitot"},                       // done a second with any in flight, relative to the knee
    {"saturated", 0.8, "1", "pitot"},                  // of the time of the busiest station, as in a28
    {"share", 0.2, "1", "pitot"},                      // of the requests
    {"least_levels", 3, "1", "pitot"},
};

constexpr double kStep = 1.5;  // between levels of requests in flight
constexpr uint64_t kLeastDone = 10;
constexpr double kLeastInFlight = 1;  // with fewer no request meets another

struct Level {
  int64_t time_ns = 0, busy_ns = 0, in_flight_ns = 0, latency_ns = 0;
  uint64_t done = 0;
  std::vector<int64_t> work_ns = {};  // of each station, for one of its threads
  double Utilisation() const {
    return work_ns.empty() ? 0 : Share(*std::max_element(work_ns.begin(), work_ns.end()), time_ns);
  }
  double InFlight() const { return Share(in_flight_ns, time_ns); }
  double Throughput() const { return static_cast<double>(done) / (static_cast<double>(time_ns) * 1e-9); }
  double Pace() const {
    return static_cast<double>(done) / (static_cast<double>(std::max<int64_t>(1, busy_ns)) * 1e-9);
  }
  double LatencyNs() const { return static_cast<double>(latency_ns) / static_cast<double>(done); }
  double Power() const { return Throughput() / LatencyNs(); }
};

// When a GPU, or a group of threads with one name, worked.
struct Station {
  uint32_t servers = 0;
  std::vector<Intervals> work;  // of each
};

std::vector<Station> StationsOf(Analysis& analysis, Interval time) {
  const Trace& trace = analysis.trace();
  std::map<std::string, Station> groups;
  const std::vector<uint32_t> first_calls = FirstCalls(trace);
  for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
    Intervals work = WorkForAny(analysis, thread, time, first_calls);
    if (work.empty()) continue;
    Station& group = groups[GroupOfThread(trace.strings[trace.threads[thread].name])];
    ++group.servers;
    group.work.push_back(std::move(work));
  }
  std::vector<Station> stations;
  for (auto& [name, group] : groups) stations.push_back(std::move(group));
  for (const uint32_t device : DevicesAtWork(trace))
    stations.push_back({1, {Intersection(DeviceBusy(trace, device), {time})}});
  return stations;
}

class Knee final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override {
    return InfoOf("a42", "load beyond the server's capacity", kThresholds, kReadsRequests);
  }

  Status Run(Analysis& analysis) override {
    const std::vector<Level> levels = LevelsOf(analysis);
    if (static_cast<double>(levels.size()) < std::max(2.0, analysis.threshold("least_levels").value)) return Status();
    for (const Level& level : levels) {
      const std::string name = base::Format("%.1f in flight", level.InFlight());
      AddNumber(analysis, "throughput", name, level.Throughput(), "1/s");
      AddNumber(analysis, "pace", name, level.Pace(), "1/s");
      AddNumber(analysis, "latency", name, level.LatencyNs(), "ns");
      AddNumber(analysis, "requests", name, static_cast<double>(level.done));
    }
    Judge(analysis, levels);
    return Status();
  }

 private:
  // By load; levels with too little data are left out.
  static std::vector<Level> LevelsOf(Analysis& analysis) {
    const Trace& trace = analysis.trace();
    const std::vector<uint32_t> rows = WholeRequests(trace);
    std::vector<Level> levels;
    if (rows.size() < 100) return levels;
    Interval time = {INT64_MAX, INT64_MIN};
    for (const uint32_t row : rows)
      time = {std::min(time.begin_ns, trace.requests[row].begin_ns),
              std::max(time.end_ns, trace.RequestEnd(trace.requests[row]))};
    const auto count = static_cast<int64_t>(std::clamp<size_t>(rows.size() / 20, 10, 100));
    const int64_t slice_ns = (time.end_ns - time.begin_ns) / count + 1;
    std::vector<Level> slices(static_cast<size_t>(count));
    for (Level& slice : slices) slice.time_ns = slice_ns;
    // Calls `to` with each slice and the stretch's part in it.
    const auto split = [&](int64_t begin_ns, int64_t end_ns, const auto& to) {
      for (int64_t i = begin_ns / slice_ns; i < count && i * slice_ns < end_ns; ++i)
        to(&slices[static_cast<size_t>(i)], std::min(end_ns, (i + 1) * slice_ns) - std::max(begin_ns, i * slice_ns));
    };
    const auto add = [&](int64_t begin_ns, int64_t end_ns, int64_t Level::*to) {
      split(begin_ns, end_ns, [to](Level* slice, int64_t ns) { Accumulate(&(slice->*to), ns); });
    };
    std::vector<Interval> in_flight;
    for (const uint32_t i : EachOf(analysis, rows.size())) {
      const model::RequestRow& request = trace.requests[rows[i]];
      const int64_t begin_ns = request.begin_ns - time.begin_ns, end_ns = trace.RequestEnd(request) - time.begin_ns;
      add(begin_ns, end_ns, &Level::in_flight_ns);
      in_flight.push_back({begin_ns, end_ns});
      Level& last = slices[static_cast<size_t>(std::min(end_ns / slice_ns, count - 1))];
      ++last.done;
      Accumulate(&last.latency_ns, end_ns - begin_ns);
    }
    for (const Interval& busy : Union(std::move(in_flight))) add(busy.begin_ns, busy.end_ns, &Level::busy_ns);
    const std::vector<Station> stations = StationsOf(analysis, time);
    for (Level& slice : slices) slice.work_ns.resize(stations.size());
    for (size_t s = 0; s < stations.size(); ++s) {
      for (const Intervals& work : stations[s].work) {
        for (const Interval& one : work)
          split(one.begin_ns - time.begin_ns, one.end_ns - time.begin_ns,
                [&](Level* slice, int64_t ns) { Accumulate(&slice->work_ns[s], ns); });
      }
      for (Level& slice : slices) slice.work_ns[s] /= stations[s].servers;
    }
    std::map<int64_t, Level> by_load;
    for (const Level& slice : slices) {
      if (slice.done == 0) continue;
      Level& level = by_load[std::llround(std::log(std::max(slice.InFlight(), 0.01)) / std::log(kStep))];
      level.time_ns += slice.time_ns;
      level.done += slice.done;
      Accumulate(&level.busy_ns, slice.busy_ns);
      Accumulate(&level.in_flight_ns, slice.in_flight_ns);
      Accumulate(&level.latency_ns, slice.latency_ns);
      level.work_ns.resize(stations.size());
      for (size_t s = 0; s < stations.size(); ++s) Accumulate(&level.work_ns[s], slice.work_ns[s]);
    }
    for (const auto& [load, level] : by_load) {
      if (level.done >= kLeastDone) levels.push_back(level);
    }
    return levels;
  }

  static void Judge(Analysis& analysis, const std::vector<Level>& levels) {
    const Level& knee = *std::max_element(levels.begin(), levels.end(),
                                          [](const Level& a, const Level& b) { return a.Power() < b.Power(); });
    AddNumber(analysis, "knee", kAll, knee.InFlight());
    const double growth = analysis.threshold("latency_growth").value,
                 gain = analysis.threshold("throughput_gain").value, pace = analysis.threshold("pace").value,
                 saturated = analysis.threshold("saturated").value;
    uint64_t all = 0, beyond = 0;
    double cost_ns = 0, most = 0;
    for (const Level& level : levels) {
      all += level.done;
      const bool is_beyond = level.InFlight() > std::max(knee.InFlight(), kLeastInFlight) &&
                             level.LatencyNs() >= growth * knee.LatencyNs() &&
                             level.Throughput() <= (1 + gain) * knee.Throughput() &&
                             level.Pace() >= pace * knee.Pace() && level.Utilisation() >= saturated;
      if (!is_beyond) continue;
      beyond += level.done;
      most = std::max(most, level.InFlight());
      cost_ns += (level.LatencyNs() - knee.LatencyNs()) * static_cast<double>(level.done);
    }
    const Threshold least = analysis.threshold("share");
    const double share = static_cast<double>(beyond) / static_cast<double>(all);
    if (share < least.value) return;
    const std::string at = base::Format("%.1f", std::max(knee.InFlight(), kLeastInFlight));
    const std::string summary = Percent(share) + " of the requests met a load beyond the server's capacity: with " +
                                at + " in flight it serves " + base::Format("%.4g", knee.Throughput()) +
                                " requests/s in " + base::Duration(std::llround(knee.LatencyNs())) + ", with up to " +
                                base::Format("%.1f", most) + " it serves no more, only later";
    const std::string advice =
        "Admit about " + at + " requests at once, at most: queue or refuse the rest, or add servers.";
    const Trace& trace = analysis.trace();
    const Evidence evidence = {EvidenceTable::kWindow, 0, 0, trace.window_begin_ns, trace.window_end_ns, "the window"};
    Conclude(analysis, Judged("a42.beyond_knee", kAll, "requests beyond the knee / requests", share, least),
             {.severity = share >= 0.5 ? Severity::kHigh : Severity::kMedium,
              .confidence = 0.7,  // load and time are mixed: other changes meanwhile are in it
              .cost_ns = std::llround(cost_ns),
              .summary = summary,
              .recommendation = advice},
             evidence);
  }
};

}  // namespace
}  // namespace a42

std::unique_ptr<Analyzer> MakeKnee() { return std::make_unique<a42::Knee>(); }

}  // namespace pitot::catalogue
