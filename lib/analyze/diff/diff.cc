// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/diff.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "analyze/diff/diff_gates.h"
#include "analyze/diff/diff_tables.h"
#include "analyze/diff/diff_units.h"
#include "analyze/facts/statistics.h"
#include "base/columns.h"
#include "base/message.h"
#include "model/recorded.h"
#include "model/same_recording.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

const char* DiffPerName(DiffPer per) noexcept {
  return per == DiffPer::kRequest ? "request" : per == DiffPer::kStep ? "step" : "trace";
}

const char* DiffOutcomeName(DiffOutcome outcome) noexcept {
  switch (outcome) {
    case DiffOutcome::kPass:
      return "no regression";
    case DiffOutcome::kRegression:
      return "regression";
    case DiffOutcome::kInconclusive:
      break;
  }
  return "inconclusive";
}

}  // namespace analyze
PITOT_NAMESPACE_END

namespace pitot::diff {
namespace {

using facts::KolmogorovSmirnov;
using model::Trace;

constexpr double kLikely = 0.05;  // below this p sizes differ
constexpr double kCountGrowth = 0.01;

// One trace, with its units and counts.
struct Side {
  Side(const Trace& from, DiffPer per) : trace(from), units(from, per), gpu(GpuLedger(from, units)) {
    for (uint32_t unit = 0; unit < units.size(); ++unit) {
      latencies.push_back(static_cast<double>(units.time(unit).end_ns - units.time(unit).begin_ns));
      likes.push_back(LikeOf(from, units.request(unit)));
      const uint32_t request = units.request(unit);
      if (request == model::kNone) continue;
      const model::RequestRow& row = from.requests[request];
      sizes.push_back(row.sizes.empty() || !std::isfinite(row.sizes[0].value) ? row.size_bucket : row.sizes[0].value);
    }
  }
  bool HasLosses() const { return !trace.losses.empty() || !trace.gpu_losses.empty(); }
  Depth DeepestDepth() const {
    Depth deepest = Depth::kScopes;
    for (const model::DepthRow& row : trace.depths) deepest = std::max(deepest, row.depth);
    return deepest;
  }

  const Trace& trace;
  const DiffUnits units;
  const Ledger gpu;
  std::vector<double> latencies, sizes;  // of units
  std::vector<std::string> likes;
};

bool HasFallen(const DiffGate& latency) {
  return latency.is_known && latency.high < 1 && latency.after < latency.before;
}

class Comparison {
 public:
  Comparison(const Trace& before, const Trace& after, const DiffOptions& options, Diff* diff)
      : options_(options), diff_(*diff), before_(before, diff->per), after_(after, diff->per) {}

  void Run() {
    diff_.before_requests = before_.units.size();
    diff_.after_requests = after_.units.size();
    FillTables();
    FillGates();
    diff_.is_same_recording = model::IsSameRecording(before_.trace, after_.trace);
    if (diff_.is_same_recording) PassAll();
    Note();
    diff_.outcome = DiffOutcome::kPass;
    bool decides = false;
    for (const DiffGate& gate : diff_.gates) {
      decides |= gate.decides;
      if (gate.outcome == DiffOutcome::kRegression) diff_.outcome = DiffOutcome::kRegression;
      if (gate.outcome == DiffOutcome::kInconclusive && gate.decides && diff_.outcome == DiffOutcome::kPass)
        diff_.outcome = DiffOutcome::kInconclusive;
    }
    if (!decides && !diff_.is_same_recording) diff_.outcome = DiffOutcome::kInconclusive;
  }

 private:
  void AddTable(const char* name, const Ledger& before, const Ledger& after, uint64_t n1, uint64_t n2,
                Align align = Align::kExactly, JudgedPart judge = JudgedPart::kRows) {
    DiffTable table = MakeTable(name, before, after, n1, n2, options_, align, judge);
    if (!table.rows.empty() && (table.before_ns != 0 || table.after_ns != 0)) diff_.tables.push_back(std::move(table));
  }

  void FillTables() {
    const uint64_t n1 = before_.units.size(), n2 = after_.units.size();
    const Ledger sizes1 = SizeLedger(before_.trace, before_.units), sizes2 = SizeLedger(after_.trace, after_.units);
    AddTable("latency by route and size", sizes1, sizes2, n1, n2, Align::kExactly, JudgedPart::kNothing);
    for (const DiffTable& table : diff_.tables) {
      diff_.before_latency_ns = table.before_ns;
      diff_.after_latency_ns = table.after_ns;
      for (const DiffRow& row : table.rows) {
        diff_.between_ns += row.count_effect_ns;
        diff_.within_ns += row.duration_effect_ns;
      }
    }
    if (diff_.per == DiffPer::kRequest) {
      uint64_t walked1 = 0, walked2 = 0;
      const Ledger blame1 = BlameLedger(before_.trace, before_.units, &walked1),
                   blame2 = BlameLedger(after_.trace, after_.units, &walked2);
      AddTable("latency by blame", blame1, blame2, walked1, walked2);
      AddTable("latency by stage", StageLedger(before_.trace, before_.units), StageLedger(after_.trace, after_.units),
               n1, n2);
    } else {
      diff_.tables.clear();  // steps are all alike
    }
    AddTable("host", HostLedger(before_.trace, before_.units), HostLedger(after_.trace, after_.units), n1, n2,
             Align::kWithoutLines);
    AddTable("gpu", before_.gpu, after_.gpu, n1, n2, Align::kByNormalName);
  }

  void FillGates() {
    const Matched all = Match(before_.likes, after_.likes, options_.most_mix_shift);
    diff_.mix_shift = all.mix_shift;
    diff_.sizes_p = KolmogorovSmirnov(before_.sizes, after_.sizes);
    diff_.compared_before = all.before.size();
    diff_.compared_after = all.after.size();
    const std::vector<double> a = Pick(before_.latencies, all.before), b = Pick(after_.latencies, all.after);
    const bool has_times = diff_.per != DiffPer::kTrace;
    if (has_times) {
      diff_.gates.push_back(TimeGate("latency", a, b, options_.regression));
      diff_.gates.push_back(QuantileGate("latency p50", 0.5, a, b, options_.regression));
      diff_.gates.push_back(QuantileGate("latency p99", 0.99, a, b, options_.regression));
    }
    // Compare only what both traces recorded.
    const size_t times = diff_.gates.size();
    const bool has_gpu = model::HasGpuWork(before_.trace) && model::HasGpuWork(after_.trace);
    if (has_times && has_gpu)
      diff_.gates.push_back(TimeGate("gpu time", Pick(GpuTimesOf(before_.trace, before_.units), all.before),
                                     Pick(GpuTimesOf(after_.trace, after_.units), all.after), options_.regression));
    if (has_gpu && before_.trace.calls.size() != 0 && after_.trace.calls.size() != 0) {
      const Counts counts1 = CountsOf(before_.trace, before_.units), counts2 = CountsOf(after_.trace, after_.units);
      // Counts predict time. Where time fell, a few more are no harm.
      const double growth = options_.count_growth.value_or(
          has_times && HasFallen(diff_.gates[0]) ? std::max(kCountGrowth, options_.regression) : kCountGrowth);
      const auto add = [&](const char* name, const char* unit, const std::vector<double>& x,
                           const std::vector<double>& y) {
        diff_.gates.push_back(CountGate(name, unit, Pick(x, all.before), Pick(y, all.after), growth, options_.q));
      };
      add("launches", "1", counts1.launches, counts2.launches);
      add("bytes copied", "bytes", counts1.bytes_copied, counts2.bytes_copied);
      add("waits for GPUs", "1", counts1.waits, counts2.waits);
      add("allocations", "1", counts1.allocations, counts2.allocations);
    }
    if (has_times && (all.before.empty() || all.after.empty())) {
      for (DiffGate& gate : diff_.gates) gate.why = "no route and size is in both traces";
    }
    if (!before_.HasLosses() && !after_.HasLosses()) return;
    for (size_t i = times; i < diff_.gates.size(); ++i) {
      diff_.gates[i].outcome = DiffOutcome::kInconclusive;
      diff_.gates[i].why = "records were lost";
    }
  }

  // Passes however few or noisy the requests are: all losses are the same on both sides.
  void PassAll() {
    for (DiffGate& gate : diff_.gates) {
      gate.is_known = true;
      gate.ratio = gate.low = gate.high = 1;
      gate.outcome = DiffOutcome::kPass;
      gate.why.clear();
    }
  }

  void Note() {
    const auto note = [&](const std::string& text) { diff_.notes.push_back(text); };
    if (diff_.is_same_recording)
      note("both are the same recording: this shows nothing about the difference between two runs");
    if (diff_.per == DiffPer::kTrace)
      note(
          "the traces do not both have ended requests or steps: whole traces are compared, as if they held the same "
          "work");
    if (diff_.mix_shift > options_.most_mix_shift)
      note(base::Format(
          "%.1f %% of the requests have a different route or size than before: gates compare %llu and %llu "
          "similar ones",
          100 * diff_.mix_shift, static_cast<unsigned long long>(diff_.compared_before),
          static_cast<unsigned long long>(diff_.compared_after)));
    else if (diff_.sizes_p <= kLikely)
      note(base::Format("sizes differ from before (p %.2g), within their buckets", diff_.sizes_p));
    if (before_.HasLosses() || after_.HasLosses())
      note("records were lost: counts and GPU times are too small, perhaps more on one side");
    const bool has_gpu = model::HasGpuWork(before_.trace), has_gpu_after = model::HasGpuWork(after_.trace);
    if (has_gpu != has_gpu_after) note("only one of the traces has GPU work: it is not compared");
    if (!has_gpu && !has_gpu_after && before_.trace.calls.size() + after_.trace.calls.size() != 0)
      note("GPU work was not recorded: GPU times, launches and copies are not compared");
    if (before_.DeepestDepth() != after_.DeepestDepth())
      note("the traces were recorded at different depths: events recorded in only one look new");
  }

  const DiffOptions& options_;
  Diff& diff_;
  const Side before_, after_;
};

Status Check(const DiffOptions& options) {
  const auto wrong = [](const char* name) {
    return base::Error(StatusCode::kInvalidArgument, "%s: out of range", name);
  };
  if (!(options.regression >= 0)) return wrong("regression");
  if (options.count_growth && !(*options.count_growth >= 0)) return wrong("count_growth");
  if (!(options.q > 0 && options.q < 1)) return wrong("q");
  if (!(options.least_share >= 0)) return wrong("least_share");
  if (options.least_ns < 0) return wrong("least_ns");
  if (!(options.most_mix_shift >= 0)) return wrong("most_mix_shift");
  return Status();
}

}  // namespace
}  // namespace pitot::diff

PITOT_NAMESPACE_BEGIN
namespace analyze {

Status FindDiff(const model::Trace& before, const model::Trace& after, const DiffOptions& options,
                Diff* diff) noexcept {
  if (Status status = diff::Check(options); !status.ok()) return status;
  try {
    *diff = Diff();
    diff->per = diff::FindPer(before, after);
    diff::Comparison(before, after, options, diff).Run();
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to compare the traces");
  } catch (...) {
    return Status(StatusCode::kInternal, "the traces could not be compared");
  }
}

}  // namespace analyze
PITOT_NAMESPACE_END
