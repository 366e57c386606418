// SPDX-License-Identifier: Apache-2.0
//
// A05: does the GPU wait for its input? Finds time in which a thread waited for its next batch of data and no GPU
// worked. For a server: time in which several requests at once were prepared for their batch, and neither executors nor
// GPUs worked. A single request is under way; two are in each other's way. Requests that wait for something are in
// nobody's way.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analyze/blame/walk_waits.h"
#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/serving.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/subjects.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a05 {
namespace {

using facts::Add;
using facts::AddNumber;
using facts::Conclude;
using facts::EachOf;
using facts::ForDevicesAtWork;
using facts::InfoOf;
using facts::Judged;
using facts::kAll;
using facts::Longest;
using facts::Percent;
using facts::Share;
using model::HostClass;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"exposed_share", 0.05, "1", "XProf, torch-tb-profiler"},
    {"exposed_share_high", 0.2, "1", "XProf"},
};

// When each request came to the queue of its batch, or to the batch where it has no queue; INT64_MAX: never.
std::vector<int64_t> Joins(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  std::vector<int64_t> joins(trace.requests.size(), INT64_MAX);
  for (const uint32_t row : EachOf(analysis, trace.members.size())) {
    const model::MemberRow& member = trace.members[row];
    joins[member.request] = std::min(joins[member.request], member.join_ns);
  }
  for (const uint32_t row : EachOf(analysis, trace.handoffs.size())) {
    const model::HandoffRow& handoff = trace.handoffs[row];
    if (handoff.batch != kNone && handoff.request != kNone)
      joins[handoff.request] = std::min(joins[handoff.request], handoff.enqueue_ns);
  }
  return joins;
}

// The scopes of a request, its stays in queues, and its waits.
struct Preparation {
  Intervals scopes, queued, waits;
  // A wait for a lock or an answer is no work on inputs. Nor is time without a scope, if the request has any.
  Intervals Within(Interval time) const {
    Intervals work = scopes;
    work.insert(work.end(), queued.begin(), queued.end());
    const Intervals all = scopes.empty() ? Intervals{time} : Intersection(Union(std::move(work)), {time});
    return Difference(all, Union(waits));
  }
};
std::vector<Preparation> Preparations(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  std::vector<Preparation> of(trace.requests.size());
  for (const uint32_t row : EachOf(analysis, trace.events.size())) {
    const uint32_t request = trace.events.request[row];
    if (request == kNone) continue;
    const int64_t begin_ns = trace.events.begin_ns[row], end_ns = trace.EventEnd(row);
    if (!model::IsScope(trace.sites[trace.events.site[row]].kind) || end_ns <= begin_ns) continue;
    blame::WaitArgs args;
    Intervals& times = blame::ReadWait(trace, row, &args) ? of[request].waits : of[request].scopes;
    times.push_back({begin_ns, end_ns});
  }
  for (const uint32_t row : EachOf(analysis, trace.handoffs.size())) {
    const model::HandoffRow& handoff = trace.handoffs[row];
    if (handoff.batch == kNone && handoff.request != kNone && handoff.take_ns > handoff.enqueue_ns)
      of[handoff.request].queued.push_back({handoff.enqueue_ns, handoff.take_ns});
  }
  return of;
}

// When at least two requests were prepared that had not come to their batch.
Intervals HeldUp(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  const std::vector<int64_t> joins = Joins(analysis);
  const std::vector<Preparation> preparations = Preparations(analysis);
  std::vector<std::pair<int64_t, int>> edges;
  for (const uint32_t row : WholeRequests(trace)) {
    if (joins[row] == INT64_MAX || joins[row] <= trace.requests[row].begin_ns) continue;
    for (const Interval& time : preparations[row].Within({trace.requests[row].begin_ns, joins[row]})) {
      edges.emplace_back(time.begin_ns, 1);
      edges.emplace_back(time.end_ns, -1);
    }
  }
  std::sort(edges.begin(), edges.end());
  Intervals held_up;
  int count = 0;
  for (const auto& [at_ns, step] : edges) {
    if (count == 1 && step > 0) held_up.push_back({at_ns, at_ns});
    count += step;
    if (count == 1 && step < 0) held_up.back().end_ns = at_ns;
  }
  return Union(std::move(held_up));
}

class InputPipeline final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a05", "input as the bottleneck", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    std::vector<Interval> working;
    ForDevicesAtWork(analysis, [&](uint32_t device) {
      const Intervals busy = DeviceBusy(trace, device);
      working.insert(working.end(), busy.begin(), busy.end());
    });
    const int64_t window_ns = trace.window_end_ns - trace.window_begin_ns;
    const Intervals gpu_busy = Union(working);
    if (const Intervals& loading = analysis.indexes().sets.Host(HostClass::kLoader); !loading.empty()) {
      const Intervals exposed = Difference(loading, gpu_busy);
      const int64_t loading_ns = TotalNs(loading), exposed_ns = TotalNs(exposed);
      // With enough workers to load as fast as the rest goes on, nothing waits for loading.
      const int64_t others_ns = std::max<int64_t>(1, window_ns - exposed_ns);
      const int64_t workers = (loading_ns + others_ns - 1) / others_ns + 1;
      Judge(analysis,
            {kAll, "waiting for data while no GPU worked / window", "threads waited for their next batch of data",
             "while no GPU worked",
             "Load ahead in other processes (DataLoader's num_workers). One worker now needs " +
                 base::Duration(loading_ns) + " for data consumed in " + base::Duration(others_ns) + ": use " +
                 std::to_string(workers) + " workers or more, with pinned memory and prefetching.",
             gpu_busy.empty() ? 0.6 : 0.9},  // without a GPU in the trace, nobody may have been kept waiting
            loading_ns, exposed);
    }
    if (trace.members.empty()) return Status();
    for (const model::BatchRow& batch : trace.batches)
      working.push_back({batch.begin_ns, batch.begin_ns + std::max<int64_t>(0, batch.duration_ns)});
    const Intervals held_up = HeldUp(analysis);
    Judge(analysis,
          {"requests", "requests held up before their batch while nothing worked / window",
           "requests were held up before their batch, two or more at once,", "while no executor and no GPU worked",
           "Use more preparing threads or a faster decoder, or prepare on the GPU. `pitot why` and a28 show where "
           "requests "
           "are held up.",
           0.8},
          TotalNs(held_up), Difference(held_up, Union(std::move(working))));
    return Status();
  }

 private:
  struct Wait {
    const char *subject, *metric, *who, *when;
    std::string advice;
    double confidence;
  };
  static void Judge(Analysis& analysis, const Wait& wait, int64_t loading_ns, const Intervals& exposed) {
    const Trace& trace = analysis.trace();
    const int64_t exposed_ns = TotalNs(exposed);
    const double share = Share(exposed_ns, trace.window_end_ns - trace.window_begin_ns);
    const Threshold least = analysis.threshold("exposed_share"), high = analysis.threshold("exposed_share_high");
    Add(analysis, "loading", wait.subject, loading_ns);
    Add(analysis, "exposed_loading", wait.subject, exposed_ns);
    AddNumber(analysis, "exposed_share", wait.subject, share);
    AddNumber(analysis, "input_bound", wait.subject, share >= least.value ? 1 : 0);
    if (share < least.value) return;

    Longest longest(EvidenceTable::kWindow, "waiting for input");
    for (const Interval& time : exposed) longest.Show(0, time);
    const std::string summary = std::string(wait.who) + " for " + Percent(share) + " of the window " + wait.when +
                                (share >= high.value ? "" : ": moderately input-bound");
    Conclude(analysis, Judged("a05.input_bound", wait.subject, wait.metric, share, share >= high.value ? high : least),
             {.severity = share >= high.value ? Severity::kHigh : Severity::kMedium,
              .confidence = wait.confidence,
              .cost_ns = exposed_ns,
              .summary = summary,
              .recommendation = wait.advice},
             longest);
  }
};

}  // namespace
}  // namespace a05

std::unique_ptr<Analyzer> MakeInputPipeline() { return std::make_unique<a05::InputPipeline>(); }

}  // namespace pitot::catalogue
