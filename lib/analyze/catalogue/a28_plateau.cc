// SPDX-License-Identifier: Apache-2.0
//
// A28: what limits the server's throughput? Operational laws (Denning and Buzen, 1978). A station is a group of threads
// of one name, or a GPU; its numbers are its work for a request and its share of the time. No server is faster than its
// busiest station allows, and a full GPU is a better reason than a full thread in front of an idle one.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/blame/batch_work.h"
#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/serving.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/patience.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a28 {
namespace {

using facts::Accumulate;
using facts::Add;
using facts::AddNumber;
using facts::Conclude;
using facts::DevicesAtWork;
using facts::EachOf;
using facts::FirstCalls;
using facts::GpuName;
using facts::GroupOfThread;
using facts::InfoOf;
using facts::Judged;
using facts::kAll;
using facts::Percent;
using facts::Share;
using facts::WorkForAny;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"least_requests", 50, "1", "pitot"},
    {"saturated", 0.8, "1", "pitot"},  // of a station's time
    {"gpu_busy", 0.8, "1", "pitot"},   // a GPU that works for as much is not idle
};

// A member's part of batches' time: for all batches, and for the fullest, which take little longer for many more
// members.
class BatchCost {
 public:
  void Add(uint32_t members, int64_t ns) {
    if (members > most_) most_ = members, of_fullest_ = {};
    all_.Add(members, ns);
    if (members == most_) of_fullest_.Add(members, ns);
  }
  // How much less a member costs when all batches are as full as the fullest.
  double WhenFull() const {
    const double all = all_.OfMember(), fullest = of_fullest_.OfMember();
    return all > 0 && fullest > 0 ? std::min(1.0, fullest / all) : 1;
  }

 private:
  struct Sum {
    uint64_t members = 0;
    int64_t ns = 0;
    void Add(uint32_t more, int64_t more_ns) {
      members += more;
      Accumulate(&ns, more_ns);
    }
    double OfMember() const { return members == 0 ? 0 : static_cast<double>(ns) / static_cast<double>(members); }
  };
  uint32_t most_ = 0;
  Sum all_, of_fullest_;
};

struct Station {
  std::string name;
  bool is_gpu = false, runs_batches = false;
  uint32_t servers = 0;
  int64_t busy_ns = 0;
  uint32_t thread = kNone;  // one of them
  BatchCost batches;
  double Utilisation(int64_t time_ns) const { return Share(busy_ns, time_ns) / servers; }
  // The share of its capacity with full batches.
  double Load(int64_t time_ns) const { return Utilisation(time_ns) * batches.WhenFull(); }
};

std::string_view NameOf(const Trace& trace, uint32_t thread) { return trace.strings[trace.threads[thread].name]; }

Intervals Within(const Intervals& set, Interval time) { return Intersection(set, {time}); }

class Plateau final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a28", "limit of the throughput", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    const std::vector<uint32_t> requests = WholeRequests(trace);
    if (static_cast<double>(requests.size()) < std::max(2.0, analysis.threshold("least_requests").value))
      return Status();
    Interval time = {INT64_MAX, INT64_MIN};
    int64_t latencies_ns = 0, batch_members = 0;
    for (const uint32_t row : requests) {
      const model::RequestRow& request = trace.requests[row];
      time = {std::min(time.begin_ns, request.begin_ns), std::max(time.end_ns, trace.RequestEnd(request))};
      Accumulate(&latencies_ns, request.duration_ns);
    }
    const int64_t time_ns = time.end_ns - time.begin_ns;
    if (time_ns <= 0) return Status();
    for (const model::BatchRow& batch : trace.batches) batch_members += batch.member_count;
    const double seconds = static_cast<double>(time_ns) * 1e-9, done = static_cast<double>(requests.size());
    AddNumber(analysis, "throughput", kAll, done / seconds, "1/s");
    AddNumber(analysis, "in flight", kAll, static_cast<double>(latencies_ns) / static_cast<double>(time_ns));
    Add(analysis, "response", kAll, latencies_ns / static_cast<int64_t>(requests.size()));
    if (!trace.batches.empty()) {
      AddNumber(analysis, "members of a batch", kAll,
                static_cast<double>(batch_members) / static_cast<double>(trace.batches.size()));
      AddBatches(analysis);
    }
    AddSteadiness(analysis, requests, time);

    std::vector<Station> stations = HostStations(analysis, time);
    for (const uint32_t device : DevicesAtWork(trace))
      stations.push_back(
          {GpuName(trace, device), true, false, 1, TotalNs(Within(DeviceBusy(trace, device), time)), kNone, {}});
    if (analysis.IsOver()) return Status();
    std::sort(stations.begin(), stations.end(),
              [&](const Station& a, const Station& b) { return a.Load(time_ns) > b.Load(time_ns); });
    for (const Station& station : stations) {
      AddNumber(analysis, "utilisation", station.name, station.Utilisation(time_ns));
      AddNumber(analysis, "ceiling", station.name, Ceiling(station, done), "1/s");
      Add(analysis, "demand", station.name, station.busy_ns / static_cast<int64_t>(requests.size()));
    }
    if (!stations.empty()) Judge(analysis, stations, time, done);
    return Status();
  }

 private:
  // How full batches are compared with the largest, and how much of their time they only wait for members.
  static void AddBatches(Analysis& analysis) {
    const Trace& trace = analysis.trace();
    uint32_t largest = 0;
    for (const model::BatchRow& batch : trace.batches) largest = std::max(largest, batch.member_count);
    AddNumber(analysis, "members of the largest batch", kAll, largest);
    int64_t waited_ns = 0, all_ns = 0;
    const std::vector<blame::BatchTime> times = blame::BatchWindows(trace);
    for (const uint32_t row : EachOf(analysis, times.size())) {
      Accumulate(&waited_ns, times[row].when.begin_ns - trace.batches[row].begin_ns);
      Accumulate(&all_ns, times[row].when.end_ns - trace.batches[row].begin_ns);
    }
    if (all_ns > 0) AddNumber(analysis, "batches wait for members", kAll, Share(waited_ns, all_ns));
  }

  // Compares the thirds of the time. perf_analyzer calls a ratio within 10 % of 1 stable.
  static void AddSteadiness(Analysis& analysis, const std::vector<uint32_t>& requests, Interval time) {
    const Trace& trace = analysis.trace();
    uint64_t done[3] = {};
    for (const uint32_t row : requests) {
      const double at = Share(trace.RequestEnd(trace.requests[row]) - time.begin_ns, time.end_ns - time.begin_ns);
      ++done[std::min(2, static_cast<int>(3 * at))];
    }
    const auto [least, most] = std::minmax_element(std::begin(done), std::end(done));
    if (*least > 0)
      AddNumber(analysis, "throughput of the best third to the worst", kAll,
                static_cast<double>(*most) / static_cast<double>(*least));
  }

  // Requests a second if it were never idle, and its batches as full as its fullest.
  static double Ceiling(const Station& station, double done) {
    const double busy_ns = static_cast<double>(station.busy_ns) * station.batches.WhenFull();
    return station.busy_ns == 0 ? INFINITY : done * station.servers / (busy_ns * 1e-9);
  }

  static std::vector<Station> HostStations(Analysis& analysis, Interval time) {
    const Trace& trace = analysis.trace();
    std::map<std::string, Station> groups;
    std::vector<bool> runs_batches(trace.threads.size());
    const std::vector<blame::BatchTime> times = blame::BatchWindows(trace);
    for (const uint32_t row : EachOf(analysis, trace.batches.size())) {
      const model::BatchRow& batch = trace.batches[row];
      if (batch.thread == kNone) continue;
      runs_batches[batch.thread] = true;
      const int64_t work_ns = times[row].work_ns;
      if (work_ns > 0) groups[GroupOfThread(NameOf(trace, batch.thread))].batches.Add(batch.member_count, work_ns);
    }
    const std::vector<uint32_t> first_calls = FirstCalls(trace);
    for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
      const Intervals work = WorkForAny(analysis, thread, time, first_calls);
      if (work.empty()) continue;
      Station& group = groups[GroupOfThread(NameOf(trace, thread))];
      ++group.servers;
      group.runs_batches |= runs_batches[thread];
      group.thread = thread;
      group.busy_ns += TotalNs(work);
    }
    std::vector<Station> stations;
    for (auto& [name, group] : groups) {
      if (group.servers == 0) continue;
      group.name = name.empty() ? "(unnamed threads)" : "threads " + name;
      stations.push_back(std::move(group));
    }
    return stations;
  }

  // `stations`: the busiest first.
  static void Judge(Analysis& analysis, const std::vector<Station>& stations, Interval time, double done) {
    const int64_t time_ns = time.end_ns - time.begin_ns;
    const Threshold saturated = analysis.threshold("saturated"), gpu_busy = analysis.threshold("gpu_busy");
    double most_gpu = 0;
    bool has_gpu = false;
    for (const Station& station : stations) {
      if (!station.is_gpu) continue;
      has_gpu = true;
      most_gpu = std::max(most_gpu, station.Utilisation(time_ns));
    }
    const Station& busiest = stations[0];
    const double load = busiest.Load(time_ns);
    if (load < saturated.value) return;
    // If no GPU was recorded, threads that run batches are the model itself.
    const bool is_serial = !busiest.is_gpu && most_gpu < gpu_busy.value && (has_gpu || !busiest.runs_batches);
    std::string summary = busiest.name + (busiest.is_gpu ? "" : " (" + base::Plural(busiest.servers, "thread") + ")") +
                          " worked for " + Percent(busiest.Utilisation(time_ns)) + " of the time: it allows " +
                          base::Format("%.4g", Ceiling(busiest, done)) + " requests/s at most, and " +
                          base::Format("%.4g", done / (static_cast<double>(time_ns) * 1e-9)) + " were served";
    if (has_gpu && !busiest.is_gpu) summary += "; GPUs worked for " + Percent(most_gpu);
    if (stations.size() > 1)
      summary += "; the next limit is " + stations[1].name + " at " +
                 base::Format("%.4g requests/s", Ceiling(stations[1], done));
    const Evidence evidence = {EvidenceTable::kWindow, 0, 0, time.begin_ns, time.end_ns, "from first to last request"};
    Conclude(analysis,
             Judged(is_serial ? "a28.serial_station" : "a28.saturated", busiest.name.c_str(), "throughput / ceiling",
                    load, saturated),
             {.severity = !is_serial             ? Severity::kLow
                          : busiest.servers == 1 ? Severity::kHigh
                                                 : Severity::kMedium,
              .confidence = stations.size() > 1 ? 0.9 : 0.6,  // other stations were not recorded
              .cost_ns = is_serial && stations.size() > 1
                             ? std::llround((1 - stations[1].Load(time_ns) / load) * static_cast<double>(time_ns))
                             : 0,
              .summary = summary,
              .recommendation = is_serial ? "Give it more threads, or less work for a request. It serialises "
                                            "everything after it; larger batches or "
                                            "faster GPUs do not help."
                                          : "The right part of the server is full: add more of it, do less work for a "
                                            "request, or limit admission."},
             evidence);
  }
};

}  // namespace
}  // namespace a28

std::unique_ptr<Analyzer> MakePlateau() { return std::make_unique<a28::Plateau>(); }

}  // namespace pitot::catalogue
