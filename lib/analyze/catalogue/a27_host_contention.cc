// SPDX-License-Identifier: Apache-2.0
//
// A27: does code wait for CPUs, for memory that is on a disk, or for something unrecorded? For each thread with
// counters of pitot::host it gives the time in scopes, the part of it on no CPU, and why
// (docs/reference/walk.md#code-that-did-not-run). Recorded waits and calls that wait are not included.
#include <algorithm>
#include <string>
#include <vector>

#include "analyze/blame/index_data.h"
#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/subjects.h"
#include "model/parts.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a27 {
namespace {

using facts::Accumulate;
using facts::Add;
using facts::Conclude;
using facts::EachOf;
using facts::Judged;
using facts::kAll;
using facts::Longest;
using facts::Percent;
using facts::SeverityOf;
using facts::Share;
using model::kNone;
using model::Trace;

// A tenth of the code without a CPU counts as preemption. The limit is the same for page faults, and for code blocked
// in something unrecorded.
constexpr Threshold kThresholds[] = {{"runqueue_share", 0.10, "1", "pitot"},
                                     {"pagefault_share", 0.10, "1", "pitot"},
                                     {"blocked_share", 0.10, "1", "pitot"},
                                     // Drivers and libraries sleep in any server: less is no sign of a fault.
                                     {"unusual_sleep_share", 0.20, "1", "pitot"}};

// The parts of a thread's code, in ns.
struct CodeTime {
  int64_t code_ns = 0, runqueue_ns = 0, pagefault_ns = 0, blocked_ns = 0;
};

// One way of not running.
struct Way {
  const char *code, *threshold, *metric, *note, *words, *recommendation;
  int64_t CodeTime::*ns;
};
constexpr Way kWays[] = {
    {"a27.runqueue", "runqueue_share", "runnable code without a CPU / code", "got no CPU in this scope",
     "were runnable without a CPU", "Give threads CPUs of their own, run fewer, or move others away.",
     &CodeTime::runqueue_ns},
    {"a27.pagefaults", "pagefault_share", "code waiting for memory on a disk / code",
     "waited for memory from a disk in this scope", "waited for memory on a disk",
     "Pre-fault or lock memory (MAP_POPULATE, mlock), keep it in memory, and do not swap.", &CodeTime::pagefault_ns},
    {"a27.blocked", "blocked_share", "sleeping code / code", "slept in this scope", "slept without a recorded wait",
     "Annotate the threads' waits with PITOT_WAIT: the resource and its owner.", &CodeTime::blocked_ns},
};

class HostContention final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override {
    return {"a27", "code off the CPU", kThresholds, sizeof kThresholds / sizeof *kThresholds};
  }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    if (!blame::HasHostUse(trace)) return Status();
    const blame::Index& index = blame::SharedIndex(analysis);
    // Each file of a joined trace is a process of its own.
    const model::Parts parts(trace);
    const std::vector<uint32_t> of_threads = parts.OfThreads();
    for (const uint32_t part : parts.All()) OfProcess(analysis, index, of_threads, part, parts.NameOf(part, kAll));
    return Status();
  }

 private:
  static void OfProcess(Analysis& analysis, const blame::Index& index, const std::vector<uint32_t>& of_threads,
                        uint32_t part, const std::string& subject) {
    const Trace& trace = analysis.trace();
    std::vector<Longest> longest;
    for (const Way& way : kWays) longest.emplace_back(EvidenceTable::kEvents, way.note);
    CodeTime all;
    uint32_t any = kNone;
    for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
      if (of_threads[thread] != part) continue;
      const CodeTime time = TimeOf(analysis, index, thread, &longest);
      if (time.code_ns == 0) continue;
      any = thread;
      AddMeasures(analysis, ThreadName(trace, thread), time);
      Accumulate(&all.code_ns, time.code_ns);
      for (const Way& way : kWays) Accumulate(&(all.*way.ns), time.*way.ns);
    }
    if (all.code_ns == 0) return;
    AddMeasures(analysis, subject, all);
    const int64_t throttled_ns = index.host.ThrottledNs(any, trace.window_begin_ns, trace.window_end_ns);
    if (throttled_ns != 0) Add(analysis, "throttled", subject, throttled_ns);
    const int64_t stolen_ns = index.host.StolenNs(any, trace.window_begin_ns, trace.window_end_ns);
    if (stolen_ns != 0) Add(analysis, "stolen", subject, stolen_ns);
    for (size_t i = 0; i < std::size(kWays); ++i)
      Judge(analysis, kWays[i], subject, all, throttled_ns, stolen_ns, longest[i]);
  }

  static std::string ThreadName(const Trace& trace, uint32_t thread) {
    const std::string_view name = trace.strings[trace.threads[thread].name];
    return std::string(name) + (name.empty() ? "thread #" : " #") + std::to_string(trace.threads[thread].number);
  }

  // Covers the time known by the thread's counters.
  static CodeTime TimeOf(Analysis& analysis, const blame::Index& index, uint32_t thread,
                         std::vector<Longest>* longest) {
    CodeTime time;
    const model::Interval known = index.host.KnownOf(thread);
    const std::vector<blame::Piece>& pieces = index.threads.Pieces(thread);
    for (const uint32_t i : EachOf(analysis, pieces.size())) {
      const blame::Piece& piece = pieces[i];
      blame::WaitArgs args;
      if (piece.event == kNone || piece.call != kNone || blame::ReadWait(index.trace, piece.event, &args) ||
          index.interpreter.IsWatch(piece.event))
        continue;
      const int64_t begin_ns = std::max(piece.begin_ns, known.begin_ns), end_ns = std::min(piece.end_ns, known.end_ns);
      if (begin_ns >= end_ns) continue;
      const blame::OffCpu off = index.host.OfCode(thread, begin_ns, end_ns);
      const int64_t parts[] = {off.runqueue_ns, off.pagefault_ns, off.blocked_ns};
      Accumulate(&time.code_ns, end_ns - begin_ns);
      for (size_t k = 0; k < std::size(kWays); ++k) {
        Accumulate(&(time.*kWays[k].ns), parts[k]);
        if (parts[k] > 0) (*longest)[k].Show(piece.event, {end_ns - parts[k], end_ns});
      }
    }
    return time;
  }

  static void AddMeasures(Analysis& analysis, const std::string& subject, const CodeTime& time) {
    Add(analysis, "code", subject, time.code_ns);
    Add(analysis, "runqueue", subject, time.runqueue_ns);
    Add(analysis, "pagefaults", subject, time.pagefault_ns);
    Add(analysis, "blocked", subject, time.blocked_ns);
  }

  static void Judge(Analysis& analysis, const Way& way, const std::string& subject, const CodeTime& all,
                    int64_t throttled_ns, int64_t stolen_ns, const Longest& longest) {
    const Threshold least = analysis.threshold(way.threshold);
    const int64_t ns = all.*way.ns;
    const double share = Share(ns, all.code_ns);
    if (share < least.value) return;
    std::string summary = std::string("threads ") + way.words + " for " + base::Duration(ns) + " (" + Percent(share) +
                          ") of their " + base::Duration(all.code_ns) + " in scopes";
    const bool is_quota = way.ns == &CodeTime::runqueue_ns && throttled_ns > 0;
    if (is_quota) summary += "; the CPU quota throttled the process for " + base::Duration(throttled_ns);
    if (way.ns == &CodeTime::runqueue_ns && stolen_ns > 0)
      summary += "; the hypervisor took " + base::Duration(stolen_ns) + " of the machine's CPUs";
    const bool is_usual = way.ns == &CodeTime::blocked_ns && share < analysis.threshold("unusual_sleep_share").value;
    Conclude(analysis, Judged(way.code, subject.c_str(), way.metric, share, least),
             {.severity = is_usual ? Severity::kInfo : SeverityOf(share, least.value),
              // Being off the CPU is sure; the reason comes from switches, faults and delays of the stretch around it.
              .confidence = 0.9,
              .cost_ns = ns,
              .summary = summary,
              .recommendation = is_quota ? "Raise the CPU quota, or run fewer threads." : way.recommendation},
             longest);
  }
};

}  // namespace
}  // namespace a27

std::unique_ptr<Analyzer> MakeHostContention() { return std::make_unique<a27::HostContention>(); }

}  // namespace pitot::catalogue
