// SPDX-License-Identifier: Apache-2.0
//
// A16: did work wait for other work that could have run at the same time? Work of one request does not depend on that
// of another. So launched work that waited only while its stream or device worked for others was held up by the order
// of streams (one stream for all, the legacy default stream). If the device was full, it would have waited in any case.
//
// Work without a request or batch counts as its thread's, and that of other threads is only possibly independent. Which
// events streams wait for is not recorded.
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/copies.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/subjects.h"
#include "model/occupancy.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a16 {
namespace {

using facts::Add;
using facts::AddNumber;
using facts::Conclude;
using facts::DirectionOf;
using facts::EachOf;
using facts::ForDevicesAtWork;
using facts::GpuName;
using facts::InfoOf;
using facts::Judged;
using facts::Longest;
using facts::SeverityOf;
using facts::Share;
using facts::StreamName;
using facts::TimeOf;
using model::GpuKind;
using model::Interval;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"waited_share", 0.05, "1", "pitot"},
    {"handover", 20000, "ns", "pitot"},  // from the end of the awaited work to the beginning
};

constexpr uint32_t kMostLooked = 64;
constexpr uint32_t kLegacyStream = 7;  // CUPTI's number of the default stream

// The owner of work. Threads stand in for requests where there are none.
using Owner = uint64_t;
constexpr Owner kNobody = UINT64_MAX;
constexpr Owner kThreads = Owner{3} << 62;
Owner OwnerOf(const Trace& trace, uint32_t gpu_row) {
  const uint32_t call = trace.gpu.call[gpu_row];
  if (call == kNone) return kNobody;
  if (trace.calls.batch[call] != kNone) return Owner{1} << 62 | trace.calls.batch[call];
  if (trace.calls.request[call] != kNone) return Owner{2} << 62 | trace.calls.request[call];
  return trace.calls.thread[call] == kNone ? kNobody : kThreads | trace.calls.thread[call];
}

// The largest share of its device that a kernel can fill; 1 if unknown.
double FillOf(const Trace& trace, uint32_t device, uint32_t shape) {
  if (shape == kNone || device == kNone) return 1;
  const model::KernelShape& of = trace.shapes[shape];
  const double percent = TheoreticalOccupancyPercent(trace.devices[device], of);
  double threads = 1, blocks = 1;
  for (const uint32_t size : of.block) threads *= size;
  for (const uint32_t size : of.grid) blocks *= size;
  const double room =
      percent / 100 * trace.devices[device].threads_per_multiprocessor * trace.devices[device].multiprocessors;
  return room <= 0 ? 1 : std::min(1.0, threads * blocks / room);
}

// Waits on one stream for work of another one.
struct Waits {
  std::vector<Interval> times;
  uint64_t count = 0, known = 0;  // of those, where both have requests
  Longest longest{EvidenceTable::kGpu, "could have begun earlier"};
};

class Serialisation final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a16", "serialised GPU work", kThresholds); }

  Status Run(Analysis& analysis) override {
    ForDevicesAtWork(analysis, [&](uint32_t device) { OfDevice(analysis, device); });
    return Status();
  }

 private:
  static void OfDevice(Analysis& analysis, uint32_t device) {
    const Trace& trace = analysis.trace();
    std::vector<double> fills;
    for (uint32_t shape = 0; shape < trace.shapes.size(); ++shape) fills.push_back(FillOf(trace, device, shape));
    // One copy engine each way next to the multiprocessors.
    const auto fits = [&](uint32_t a, uint32_t b) {
      const bool is_copy_a = trace.gpu.kind[a] == GpuKind::kMemcpy, is_copy_b = trace.gpu.kind[b] == GpuKind::kMemcpy;
      if (is_copy_a || is_copy_b) return is_copy_a != is_copy_b || DirectionOf(trace, a) != DirectionOf(trace, b);
      const uint32_t of_a = trace.gpu.shape[a], of_b = trace.gpu.shape[b];
      return of_a != kNone && of_b != kNone && fills[of_a] + fills[of_b] <= 1;
    };
    std::vector<uint32_t> rows;
    for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
      if (trace.gpu.kind[row] != GpuKind::kSpan && trace.streams[trace.gpu.stream[row]].device == device)
        rows.push_back(row);
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [&](uint32_t a, uint32_t b) { return trace.gpu.begin_ns[a] < trace.gpu.begin_ns[b]; });

    const double handover_ns = analysis.threshold("handover").value;
    std::unordered_map<Owner, int64_t> ended;  // the last end of each owner's work
    std::map<std::pair<uint32_t, uint32_t>, Waits> waits;
    for (const uint32_t i : EachOf(analysis, rows.size())) {
      const uint32_t row = rows[i];
      const Owner owner = OwnerOf(trace, row);
      if (owner == kNobody) continue;
      const Interval time = TimeOf(trace, row);
      int64_t& own_end_ns = ended.try_emplace(owner, INT64_MIN).first->second;
      // Launched, and nothing of its own in the way.
      const int64_t ready_ns = std::max(trace.calls.begin_ns[trace.gpu.call[row]], own_end_ns);
      own_end_ns = std::max(own_end_ns, time.end_ns);
      uint32_t blocker = kNone;  // the last of others that ran meanwhile
      int64_t from_ns = time.begin_ns;
      for (uint32_t back = i; back > 0 && i - back < kMostLooked && from_ns > ready_ns;) {
        const uint32_t other = rows[--back];
        const Interval theirs = TimeOf(trace, other);
        if (theirs.end_ns > time.begin_ns) {
          blocker = kNone;  // it did run next to another: nobody kept it from that
          break;
        }
        if (theirs.end_ns <= ready_ns) break;
        if (static_cast<double>(from_ns - theirs.end_ns) > handover_ns || OwnerOf(trace, other) == owner ||
            OwnerOf(trace, other) == kNobody || !fits(row, other))
          break;
        if (blocker == kNone) blocker = other;
        from_ns = std::max(theirs.begin_ns, ready_ns);
      }
      if (blocker == kNone) continue;
      Waits& of = waits[std::minmax(trace.gpu.stream[row], trace.gpu.stream[blocker])];
      ++of.count;
      of.known += owner < kThreads && OwnerOf(trace, blocker) < kThreads ? 1 : 0;
      of.times.push_back({from_ns, time.begin_ns});
      of.longest.Show(row, {from_ns, time.begin_ns});
    }
    for (auto& [streams, of] : waits) Judge(analysis, device, streams, &of);
  }

  static void Judge(Analysis& analysis, uint32_t device, std::pair<uint32_t, uint32_t> streams, Waits* waits) {
    const Trace& trace = analysis.trace();
    const bool is_one = streams.first == streams.second;
    const uint32_t first = trace.streams[streams.first].stream, second = trace.streams[streams.second].stream;
    const std::string subject = is_one
                                    ? StreamName(trace, streams.first)
                                    : GpuName(trace, device) + " streams " + std::to_string(std::min(first, second)) +
                                          " and " + std::to_string(std::max(first, second));
    const int64_t ns = TotalNs(model::Union(std::move(waits->times)));
    Add(analysis, "waited", subject, ns);
    AddNumber(analysis, "waits", subject, static_cast<double>(waits->count));
    const Threshold least = analysis.threshold("waited_share");
    const double share = Share(ns, trace.window_end_ns - trace.window_begin_ns);
    if (share < least.value) return;
    const bool is_known = 2 * waits->known > waits->count;
    const bool has_legacy = first == kLegacyStream || second == kLegacyStream;
    std::string summary = "work waited " + base::Plural(waits->count, "time") + ", " + base::Duration(ns) +
                          " in all, for work of other " + (is_known ? "requests" : "threads") +
                          " with room for both, " +
                          (is_one ? "on the same stream" : "on another stream: they never ran at once");
    if (!is_known) summary += "; they may depend on each other";
    Conclude(analysis, Judged("a16.serialised_streams", subject.c_str(), "waited in line / window", share, least),
             {.severity = is_known ? SeverityOf(share, 2 * least.value) : Severity::kLow,
              .confidence = is_known ? (is_one ? 0.85 : 0.7) : 0.4,
              .is_undetermined = !is_known,
              .cost_ns = ns,
              .summary = summary,
              .recommendation = is_one       ? "Give each worker a stream of its own (not the default stream)."
                                : has_legacy ? "One of them is the default stream; it waits for all others. Use "
                                               "streams made with cudaStreamNonBlocking, or "
                                               "a default stream per thread (--default-stream per-thread)."
                                             : "Find the reason for their order: needless event waits, calls waiting "
                                               "for the device, or one launching "
                                               "thread behind another."},
             waits->longest);
  }
};

}  // namespace
}  // namespace a16

std::unique_ptr<Analyzer> MakeSerialisation() { return std::make_unique<a16::Serialisation>(); }

}  // namespace pitot::catalogue
