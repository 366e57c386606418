// SPDX-License-Identifier: Apache-2.0
//
// A07: do copies block their callers? Asynchronous calls do with pageable memory. So do calls waiting by design, and
// sets of the host's memory or managed memory.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/copies.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/recorded.h"
#include "analyze/facts/subjects.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a07 {
namespace {

using facts::Accumulate;
using facts::Add;
using facts::AddNumber;
using facts::Conclude;
using facts::DirectionOf;
using facts::EachOf;
using facts::InfoOf;
using facts::Judged;
using facts::kAll;
using facts::Longest;
using facts::SeverityOf;
using facts::Share;
using model::Interval;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"blocked_share", 0.01, "1", "pitot"}, {"small_upload", 65536, "bytes", "Nsight Systems"},  // these do not block
};

// The cost of copies of one kind for the threads that made them.
struct Blocked {
  explicit Blocked(const char* note) : longest(EvidenceTable::kCalls, note) {}
  // Counts `call` from `from_ns` on.
  void Show(const Trace& trace, uint32_t call, int64_t from_ns) {
    const int64_t begin_ns = trace.calls.begin_ns[call], end_ns = trace.CallEnd(call);
    const Interval time = {std::clamp(from_ns, begin_ns, end_ns), end_ns};
    ++copies;
    Accumulate(&blocked_ns, time.end_ns - time.begin_ns);
    longest.Show(call, time);
  }
  uint64_t copies = 0;
  int64_t blocked_ns = 0;
  Longest longest;
};

// Whether a set waits; sets of device memory return at once, by any call. By the names of collectors and of readers.
bool IsWaitingSet(const Trace& trace, uint32_t row) {
  const std::string_view memory = trace.strings[trace.gpu.name[row]];
  return trace.gpu.kind[row] == model::GpuKind::kMemset &&
         (memory == "pinned" || memory == "managed" || memory == "Memset (Pinned)" || memory == "Memset (Managed)");
}
bool IsAsynchronous(const Trace& trace, uint32_t call) {
  return trace.strings[trace.calls.name[call]].find("Async") != std::string_view::npos;
}

class CopyQuality final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a07", "blocking copies", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    const double small_bytes = analysis.threshold("small_upload").value;
    Blocked pageable("an asynchronous copy of pageable memory"), waiting("a waiting copy"), sets("a waiting set");
    facts::EarlierWork earlier(trace);
    for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
      const uint32_t call = trace.gpu.call[row];
      const int64_t before_ns = earlier.EndBefore(row);
      if (call == kNone) continue;
      if (IsWaitingSet(trace, row) && !IsAsynchronous(trace, call)) sets.Show(trace, call, trace.gpu.begin_ns[row]);
      if (trace.gpu.kind[row] != model::GpuKind::kMemcpy) continue;
      if (IsAsynchronous(trace, call)) {
        // Until earlier work was done the call waited for that: pinned memory does not make it shorter.
        if (model::IsPageableCopy(trace, row)) pageable.Show(trace, call, before_ns);
        continue;
      }
      const std::string_view direction = DirectionOf(trace, row);
      if (direction == "DtoD" || (direction == "HtoD" && static_cast<double>(trace.gpu.bytes[row]) <= small_bytes))
        continue;
      // Until the copy began, the call waited for earlier work, like a synchronisation (a09).
      waiting.Show(trace, call, trace.gpu.begin_ns[row]);
    }
    if (trace.gpu.size() == 0) return Status();
    if (!facts::HasGpuWork(trace)) return NotRecorded(analysis);
    AddNumber(analysis, "pageable_copies", kAll, static_cast<double>(pageable.copies));
    Add(analysis, "blocked_in_pageable_copies", kAll, pageable.blocked_ns);
    AddNumber(analysis, "waiting_copies", kAll, static_cast<double>(waiting.copies));
    Add(analysis, "blocked_in_waiting_copies", kAll, waiting.blocked_ns);
    AddNumber(analysis, "waiting_sets", kAll, static_cast<double>(sets.copies));
    Add(analysis, "blocked_in_waiting_sets", kAll, sets.blocked_ns);
    Judge(analysis, pageable, "a07.pageable", "asynchronous copies of pageable memory still wait: ",
          "Copy from pinned memory (pin_memory, cudaHostAlloc): only then does the call return at once.");
    Judge(analysis, waiting, "a07.waiting", "copies by waiting calls: ",
          "Copy asynchronously (cudaMemcpyAsync, non_blocking) from pinned memory, on a stream of their own.");
    Judge(analysis, sets, "a07.waiting_set", "sets of pinned or managed memory by waiting calls: ",
          "Set it asynchronously (cudaMemsetAsync), or set host memory on the host.");
    return Status();
  }

 private:
  static Status NotRecorded(Analysis& analysis) {
    for (const char* const name : {"pageable_copies", "waiting_copies", "waiting_sets"})
      AddNumber(analysis, name, kAll, facts::kNotRecorded);
    return Status();
  }

  static void Judge(Analysis& analysis, const Blocked& blocked, const char* code, const char* what,
                    const char* advice) {
    const Trace& trace = analysis.trace();
    const Threshold least = analysis.threshold("blocked_share");
    const double share = Share(blocked.blocked_ns, trace.window_end_ns - trace.window_begin_ns);
    if (blocked.copies == 0 || share < least.value) return;
    const std::string summary =
        what + base::Count(blocked.copies) + ", with threads in them for " + base::Duration(blocked.blocked_ns);
    Conclude(analysis, Judged(code, kAll, "in such calls / window", share, least),
             {.severity = SeverityOf(share, 5 * least.value),
              .confidence = 0.9,
              .cost_ns = blocked.blocked_ns,
              .summary = summary,
              .recommendation = advice},
             blocked.longest);
  }
};

}  // namespace
}  // namespace a07

std::unique_ptr<Analyzer> MakeCopyQuality() { return std::make_unique<a07::CopyQuality>(); }

}  // namespace pitot::catalogue
