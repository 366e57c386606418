// SPDX-License-Identifier: Apache-2.0
//
// A11: is the host ahead of the GPU? Follows on each stream how much was launched and had not begun. While no request
// is open there is nothing to launch, so an empty queue says nothing about the host then.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/open_requests.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/recorded.h"
#include "analyze/facts/subjects.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a11 {
namespace {

using facts::Add;
using facts::AddNumber;
using facts::Conclude;
using facts::EachOf;
using facts::HasRequests;
using facts::InfoOf;
using facts::Judged;
using facts::OpenRequests;
using facts::Percent;
using facts::Share;
using facts::StreamName;
using model::Intervals;
using model::kNone;
using model::Trace;

// HTA takes 1,024 for full; the most in its traces is 1,022.
constexpr Threshold kThresholds[] = {
    {"full_length", 1000, "1", "HTA, as seen"},
    {"full_share", 0.01, "1", "pitot"},
    {"empty_share", 0.5, "1", "pitot"},
    {"least_idle_share", 0.1, "1", "pitot"},
};

struct Change {
  int64_t at_ns;
  int by;
};
struct Queue {
  double mean_of_changes = 0;  // over the moments of changes, however far apart
  int64_t most = 0;
  uint64_t changes = 0;
  double mean = 0;  // over time
  Intervals empty, extent;
  int64_t full_ns = 0;
  int64_t full_at_ns = 0;
};

// Follows changes in their order.
Queue Follow(const std::vector<Change>& changes, double full_length) {
  Queue queue;
  int64_t length = 0;
  double sum = 0, area = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    if (i > 0) {
      const int64_t ns = changes[i].at_ns - changes[i - 1].at_ns;
      area += static_cast<double>(length) * static_cast<double>(ns);
      if (length <= 0 && ns > 0) {
        const bool goes_on = !queue.empty.empty() && queue.empty.back().end_ns == changes[i - 1].at_ns;
        if (!goes_on) queue.empty.push_back({changes[i - 1].at_ns, changes[i].at_ns});
        queue.empty.back().end_ns = changes[i].at_ns;
      }
      if (static_cast<double>(length) >= full_length) {
        if (queue.full_ns == 0) queue.full_at_ns = changes[i - 1].at_ns;
        queue.full_ns += ns;
      }
    }
    length += changes[i].by;
    queue.most = std::max(queue.most, length);
    sum += static_cast<double>(length);
  }
  queue.changes = changes.size();
  if (changes.empty()) return queue;
  queue.extent = model::Union({{changes.front().at_ns, changes.back().at_ns}});
  queue.mean_of_changes = sum / static_cast<double>(changes.size());
  queue.mean = queue.extent.empty() ? 0 : area / static_cast<double>(TotalNs(queue.extent));
  return queue;
}

using Streams = std::map<uint32_t, std::vector<Change>>;

Streams Changes(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  Streams streams;
  for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
    const uint32_t call = trace.gpu.call[row];
    if (call == kNone || trace.gpu.kind[row] == model::GpuKind::kSpan) continue;
    const int64_t launched_ns = trace.calls.begin_ns[call];
    std::vector<Change>& changes = streams[trace.gpu.stream[row]];
    changes.push_back({launched_ns, 1});
    changes.push_back({std::max(trace.gpu.begin_ns[row], launched_ns), -1});
  }
  // Launches come before work that begins at the same moment.
  for (auto& [stream, changes] : streams) {
    std::sort(changes.begin(), changes.end(),
              [](const Change& a, const Change& b) { return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.by > b.by; });
  }
  return streams;
}

class LaunchQueue final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a11", "launch queue", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    const Intervals open = OpenRequests(trace);
    busy_.clear();
    for (const auto& [stream, changes] : Changes(analysis)) {
      const Queue queue = Follow(changes, analysis.threshold("full_length").value);
      const std::string subject = StreamName(trace, stream);
      AddNumber(analysis, "changes", subject, static_cast<double>(queue.changes));
      AddNumber(analysis, "most", subject, static_cast<double>(queue.most));
      AddNumber(analysis, "mean_of_changes", subject, queue.mean_of_changes);
      AddNumber(analysis, "mean", subject, queue.mean);
      // Only recorded time counts.
      const auto recorded = [&](const Intervals& when) {
        return when.empty() ? when
                            : Intersection(when, facts::RecordedIn(trace, {when.front().begin_ns, when.back().end_ns}));
      };
      const Intervals empty = recorded(queue.empty);
      const auto of_requests = [&](const Intervals& when) {
        return TotalNs(HasRequests(trace) ? Intersection(when, open) : when);
      };
      const int64_t empty_ns = of_requests(empty);
      Add(analysis, "empty", subject, empty_ns);
      if (HasRequests(trace)) Add(analysis, "empty_no_request", subject, TotalNs(empty) - empty_ns);
      Add(analysis, "full", subject, queue.full_ns);
      const int64_t idle_ns = of_requests(Difference(empty, Busy(trace, trace.streams[stream].device)));
      Judge(analysis, subject, queue, {empty_ns, idle_ns, of_requests(recorded(queue.extent))});
      if (analysis.IsOver()) break;
    }
    return Status();
  }

 private:
  // Time in which there was work to do; of it, that with an empty queue; and of this, that of an idle GPU.
  struct Times {
    int64_t empty_ns, idle_ns, all_ns;
  };

  const Intervals& Busy(const Trace& trace, uint32_t device) {
    const auto [found, is_new] = busy_.try_emplace(device);
    if (is_new) found->second = DeviceBusy(trace, device);
    return found->second;
  }

  static void Judge(Analysis& analysis, const std::string& subject, const Queue& queue, const Times& times) {
    const Threshold full = analysis.threshold("full_share"), empty = analysis.threshold("empty_share");
    const double full_share = Share(queue.full_ns, TotalNs(queue.extent));
    const double empty_share = Share(times.empty_ns, times.all_ns), idle_share = Share(times.idle_ns, times.all_ns);
    if (full_share > full.value) {
      Evidence since;
      since.begin_ns = queue.full_at_ns;
      since.end_ns = queue.full_at_ns + queue.full_ns;
      since.note = "full from here on, for this long in all";
      const std::string summary = "its launch queue was full for " + Percent(full_share) +
                                  " of the time: launch calls waited for the GPU and therefore look slow";
      return Conclude(analysis, Judged("a11.queue_full", subject.c_str(), "time full / time", full_share, full),
                      {.confidence = 0.9,
                       .cost_ns = queue.full_ns,
                       .summary = summary,
                       .recommendation = "The GPU is the bottleneck: make its work shorter, not the launches."},
                      since);
    }
    if (empty_share <= empty.value || idle_share <= analysis.threshold("least_idle_share").value) return;
    const bool has_requests = HasRequests(analysis.trace());
    const std::string summary = "nothing waited to run for " + Percent(empty_share) + " of the time" +
                                (has_requests ? " with open requests" : "") + ", and its GPU did nothing for " +
                                Percent(idle_share) + ": the host was behind";
    Conclude(analysis,
             Judged("a11.queue_empty", subject.c_str(),
                    has_requests ? "time empty / time with open requests" : "time empty / time", empty_share, empty),
             {.confidence = 0.8,
              .cost_ns = times.idle_ns,
              .summary = summary,
              .recommendation = "The host is the bottleneck: see a04 for its work meanwhile."});
  }

  std::map<uint32_t, Intervals> busy_;  // by device
};

}  // namespace
}  // namespace a11

std::unique_ptr<Analyzer> MakeLaunchQueue() { return std::make_unique<a11::LaunchQueue>(); }

}  // namespace pitot::catalogue
