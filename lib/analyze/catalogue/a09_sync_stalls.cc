// SPDX-License-Identifier: Apache-2.0
//
// A09: do waits for the GPU leave it idle? A waiting thread costs nothing while the GPU works. The cost comes
// afterwards: the GPU has ended the awaited work, and the thread has yet to launch more. Without the wait it would have
// launched that earlier, by as long as it waited.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/open_requests.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/subjects.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a09 {
namespace {

using facts::Accumulate;
using facts::Add;
using facts::AddNumber;
using facts::DevicesAtWork;
using facts::EachOf;
using facts::HasRequests;
using facts::InfoOf;
using facts::Judged;
using facts::kAll;
using facts::Longest;
using facts::OpenRequests;
using facts::SeverityOf;
using facts::Share;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {{"stall_share", 0.05, "1", "community"}};

struct Stall {
  uint32_t call;
  Interval idle;  // from the end of the awaited work to the next work of the thread
  int64_t most_ns;
};

class SyncStalls final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a09", "GPUs idle after waits", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    uint64_t waits = 0;
    int64_t waited_ns = 0;
    std::vector<Stall> stalls;
    AddPolls(analysis);
    FindWaits(analysis, &waits, &waited_ns, &stalls);
    if (waits == 0) return Status();

    std::vector<Interval> working;
    for (const uint32_t device : DevicesAtWork(trace)) {
      const Intervals busy = DeviceBusy(trace, device);
      working.insert(working.end(), busy.begin(), busy.end());
    }
    const Intervals busy = Union(std::move(working));
    // A thread without a request has nothing to launch.
    const Intervals open = HasRequests(trace) ? OpenRequests(trace) : Intervals{{INT64_MIN, INT64_MAX}};
    const auto is_open = [&](int64_t at_ns) {
      const auto next =
          std::partition_point(open.begin(), open.end(), [&](const Interval& i) { return i.end_ns <= at_ns; });
      return next != open.end() && next->begin_ns <= at_ns;
    };
    std::vector<Interval> lost;
    Longest longest(EvidenceTable::kCalls, "the GPU was idle after this wait");
    for (const Stall& stall : stalls) {
      if (analysis.IsOver()) return Status();
      const auto within = [&](const Interval& i) { return i.end_ns <= stall.idle.begin_ns; };
      int64_t left_ns = stall.most_ns, at_ns = stall.idle.begin_ns, stalled_ns = 0;
      for (auto next = std::partition_point(busy.begin(), busy.end(), within); left_ns > 0; ++next) {
        const int64_t until_ns = next == busy.end() ? stall.idle.end_ns : std::min(next->begin_ns, stall.idle.end_ns);
        const int64_t ns = std::min(left_ns, until_ns - at_ns);
        if (ns > 0) {
          lost.push_back({at_ns, at_ns + ns});
          left_ns -= ns;
          stalled_ns += ns;
        }
        if (next == busy.end() || next->end_ns >= stall.idle.end_ns) break;
        at_ns = std::max(at_ns, next->end_ns);
      }
      if (stalled_ns > 0 && is_open(stall.idle.begin_ns))
        longest.Show(stall.call, {stall.idle.begin_ns, stall.idle.begin_ns + stalled_ns});
    }
    const int64_t stalled_ns = TotalNs(Intersection(Union(std::move(lost)), open));
    AddNumber(analysis, "waits", kAll, static_cast<double>(waits));
    Add(analysis, "waited", kAll, waited_ns);
    Add(analysis, "stalled", kAll, stalled_ns);
    Judge(analysis, waits, waited_ns, stalled_ns, longest);
    return Status();
  }

 private:
  // Asking again and again whether the GPU is done is waiting for it, too, and takes a CPU.
  static void AddPolls(Analysis& analysis) {
    const Trace& trace = analysis.trace();
    std::vector<int8_t> is_poll(trace.strings.size(), -1);
    uint64_t polls = 0;
    int64_t polling_ns = 0;
    for (const uint32_t call : EachOf(analysis, trace.calls.size())) {
      int8_t& known = is_poll[trace.calls.name[call]];
      if (known < 0) {
        const std::string_view name = trace.strings[trace.calls.name[call]];
        known = name.find("EventQuery") != std::string_view::npos || name.find("StreamQuery") != std::string_view::npos;
      }
      if (known == 0) continue;
      ++polls;
      Accumulate(&polling_ns, trace.CallEnd(call) - trace.calls.begin_ns[call]);
    }
    if (polls == 0) return;
    AddNumber(analysis, "polls", kAll, static_cast<double>(polls));
    Add(analysis, "polling", kAll, polling_ns);
  }

  static void FindWaits(Analysis& analysis, uint64_t* waits, int64_t* waited_ns, std::vector<Stall>* stalls) {
    const Trace& trace = analysis.trace();
    const model::Indexes& indexes = analysis.indexes();
    std::vector<int8_t> is_wait(trace.strings.size(), -1);
    // Backwards, so that the thread's next work is known: the earliest launched by its later calls.
    int64_t next_ns = INT64_MAX;
    for (uint32_t call = trace.calls.size(); call-- > 0;) {
      if (call + 1 < trace.calls.size() && trace.calls.thread[call] != trace.calls.thread[call + 1])
        next_ns = INT64_MAX;
      for (const uint32_t row : indexes.launches.Gpu(call)) next_ns = std::min(next_ns, trace.gpu.begin_ns[row]);
      int8_t& known = is_wait[trace.calls.name[call]];
      if (known < 0) known = model::IsSynchronization(trace.strings[trace.calls.name[call]]);
      if (known == 0) continue;
      const Interval wait = {trace.calls.begin_ns[call], trace.CallEnd(call)};
      ++*waits;
      Accumulate(waited_ns, wait.end_ns - wait.begin_ns);
      const int64_t released_ns = ReleasedAt(analysis, call, wait);
      if (released_ns == kNothing || next_ns == INT64_MAX || next_ns <= released_ns) continue;
      stalls->push_back({call, {released_ns, next_ns}, wait.end_ns - wait.begin_ns});
    }
  }

  static constexpr int64_t kNothing = INT64_MIN;
  // When the awaited work was done.
  static int64_t ReleasedAt(Analysis& analysis, uint32_t call, Interval wait) {
    const Trace& trace = analysis.trace();
    const uint32_t row = analysis.indexes().waits.Last(call, wait.end_ns);
    if (row == kNone || trace.gpu.kind[row] == model::GpuKind::kSpan) return kNothing;
    return std::min(trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row], wait.end_ns);
  }

  static void Judge(Analysis& analysis, uint64_t waits, int64_t waited_ns, int64_t stalled_ns, const Longest& longest) {
    const Trace& trace = analysis.trace();
    const Threshold least = analysis.threshold("stall_share");
    const double share = Share(stalled_ns, trace.window_end_ns - trace.window_begin_ns);
    if (share < least.value) return;
    const std::string summary = "after " + base::Plural(waits, "wait") + " for GPUs, " + base::Duration(waited_ns) +
                                " in all, none worked for " + base::Duration(stalled_ns) +
                                " until the waiting thread launched more work";
    Finding finding = Judged("a09.sync_stalls", kAll, "GPU idle after waits / window", share, least);
    finding.severity = SeverityOf(share, least.value);
    finding.confidence = 0.8;
    finding.cost_ns = stalled_ns;
    finding.summary = summary.c_str();
    finding.recommendation =
        "Launch the next work before waiting for the last, or wait for an event of the needed work only. Values read "
        "back every step (.item(), .cpu()) wait, too.";
    longest.AddTo(&finding);
    analysis.Add(finding);
  }
};

}  // namespace
}  // namespace a09

std::unique_ptr<Analyzer> MakeSyncStalls() { return std::make_unique<a09::SyncStalls>(); }

}  // namespace pitot::catalogue
