// SPDX-License-Identifier: Apache-2.0
//
// A26: did low clocks make kernels slow? A low clock alone costs nothing: an idle GPU lowers it, and a kernel that
// waits for memory does not feel it. So it takes both. Kernels ran at a clock below that of the rest of the window, and
// the same kernels (name and launch shape) took longer there, about in proportion. That proportion is the slope of
// log(duration) against log(1 / clock) within kernels: 1 for pure computing, 0 for kernels that do not feel the clock.
#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/clock_state.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/gpu_counters.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/subjects.h"
#include "base/quantile.h"
#include "model/held.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a26 {
namespace {

using facts::Accumulate;
using facts::AddNumber;
using facts::Conclude;
using facts::DeviceOf;
using facts::EachOf;
using facts::GpuCounters;
using facts::GpuCountersOf;
using facts::GpuKey;
using facts::InfoOf;
using facts::Judged;
using facts::kClockDrop;
using facts::Longest;
using facts::Percent;
using facts::Share;
using model::Held;
using model::Intervals;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"drop", kClockDrop, "1", "msprof"},
    {"low_share", 0.05, "1", "pitot"},  // of the kernels' time
    {"slope", 0.5, "1", "pitot"},
};

constexpr uint32_t kLeastSamples = 8;    // of a kernel, for any claim about it
constexpr double kBasePercentile = 0.9;  // the clock of kernels when nothing holds it

struct Kernel {
  uint32_t row;
  uint32_t key;  // of its name and shape
  double log_ns, clock;
  int64_t ns;
};

// Within kernels of a key: how log(duration) depends on -log(clock).
struct Slope {
  double value = 0, error = INFINITY;
  uint64_t kernels = 0;
};

struct State {
  std::vector<Kernel> kernels;
  uint32_t keys = 0;
  int64_t ns = 0, low_ns = 0;
  double base = 0, low_median = 0;
  Intervals low;  // when the clock was low, kernel or not
  Slope slope;
};

double ClockAt(const std::vector<Held>& clocks, int64_t at_ns) {
  const auto after =
      std::partition_point(clocks.begin(), clocks.end(), [&](const Held& held) { return held.when.end_ns <= at_ns; });
  return after == clocks.end() || after->when.begin_ns > at_ns ? 0 : after->value;
}

Slope SlopeOf(const State& state) {
  struct Sums {
    double n = 0, x = 0, y = 0;
  };
  std::vector<Sums> keys(state.keys);
  for (const Kernel& kernel : state.kernels) {
    Sums& sums = keys[kernel.key];
    sums.n += 1, sums.x -= std::log(kernel.clock), sums.y += kernel.log_ns;
  }
  double xx = 0, xy = 0, yy = 0, freedom = -1;
  for (const Sums& sums : keys) freedom -= sums.n >= kLeastSamples ? 1 : 0;
  for (const Kernel& kernel : state.kernels) {
    const Sums& sums = keys[kernel.key];
    if (sums.n < kLeastSamples) continue;
    const double x = -std::log(kernel.clock) - sums.x / sums.n, y = kernel.log_ns - sums.y / sums.n;
    xx += x * x, xy += x * y, yy += y * y, freedom += 1;
  }
  Slope slope;
  // Without kernels that ran at several clocks there is nothing to compare.
  if (freedom < kLeastSamples || xx < 1e-3) return slope;
  slope.value = xy / xx;
  slope.error = std::sqrt(std::max(0.0, yy - slope.value * xy) / freedom / xx);
  slope.kernels = static_cast<uint64_t>(freedom);
  return slope;
}

class Clocks final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a26", "low clocks", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    const std::map<GpuKey, GpuCounters> gpus = GpuCountersOf(trace);
    for (const auto& [key, gpu] : gpus) {
      const uint32_t counter = gpu.Find(base::GpuCounter::kSmClock);
      const std::vector<Held> clocks = counter == kNone ? std::vector<Held>() : ValuesOf(trace, counter);
      if (clocks.empty()) continue;
      OfGpu(analysis, gpu, clocks, DeviceOf(trace, gpus, key));
      if (analysis.IsOver()) break;
    }
    return Status();
  }

 private:
  static void OfGpu(Analysis& analysis, const GpuCounters& gpu, const std::vector<Held>& clocks, uint32_t device) {
    const Trace& trace = analysis.trace();
    const std::string subject(gpu.name);
    std::vector<std::pair<double, int64_t>> values;
    for (const Held& held : clocks) values.emplace_back(held.value, held.ns());
    AddNumber(analysis, "SM_clock", subject, base::WeightedQuantile(values, 0.5), "MHz");
    State state;
    if (device != kNone) Join(analysis, clocks, device, &state);
    const auto [reason, reason_ns, is_throttling] = ReasonOf(trace, gpu, state.low);
    if (state.ns > 0) {
      AddNumber(analysis, "SM_clock_of_kernels", subject, state.base, "MHz");
      AddNumber(analysis, "low_share", subject, Share(state.low_ns, state.ns));
      if (std::isfinite(state.slope.error)) AddNumber(analysis, "slope", subject, state.slope.value);
    }
    Judge(analysis, subject, state, reason, is_throttling);
    if (state.low_ns == 0 || state.ns == 0) JudgeHeld(analysis, subject, gpu, clocks, state.ns > 0);
  }

  // Fills in kernels with the clock in their middle, and the low part of their time.
  static void Join(Analysis& analysis, const std::vector<Held>& clocks, uint32_t device, State* state) {
    const Trace& trace = analysis.trace();
    std::unordered_map<uint64_t, uint32_t> keys;
    std::vector<int8_t> communicates(trace.strings.size(), -1);
    std::vector<std::pair<double, int64_t>> values;
    for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
      const int64_t ns = trace.gpu.duration_ns[row];
      if (trace.gpu.kind[row] != model::GpuKind::kKernel || ns <= 0 ||
          trace.streams[trace.gpu.stream[row]].device != device)
        continue;
      int8_t& is_communication = communicates[trace.gpu.name[row]];
      if (is_communication < 0) is_communication = model::IsCommunicationKernel(trace.strings[trace.gpu.name[row]]);
      if (is_communication != 0) continue;  // it waits for others
      const double clock = ClockAt(clocks, trace.gpu.begin_ns[row] + ns / 2);
      if (clock <= 0) continue;
      const uint64_t key = uint64_t{trace.gpu.name[row]} << 32 | trace.gpu.shape[row];
      const auto [found, is_new] = keys.try_emplace(key, state->keys);
      state->keys += is_new ? 1 : 0;
      state->kernels.push_back({row, found->second, std::log(static_cast<double>(ns)), clock, ns});
      values.emplace_back(clock, ns);
      Accumulate(&state->ns, ns);
    }
    state->base = base::WeightedQuantile(std::move(values), kBasePercentile);
    const double below = state->base * (1 - analysis.threshold("drop").value);
    std::vector<std::pair<double, int64_t>> low;
    for (const Kernel& kernel : state->kernels) {
      if (kernel.clock > below) continue;
      Accumulate(&state->low_ns, kernel.ns);
      low.emplace_back(kernel.clock, kernel.ns);
    }
    state->low_median = base::WeightedQuantile(std::move(low), 0.5);
    for (const Held& held : clocks) {
      if (held.value <= below) state->low.push_back(held.when);
    }
    state->low = model::Union(std::move(state->low));
    state->slope = SlopeOf(*state);
  }

  struct Reason {
    std::string name;
    int64_t ns = 0;
    bool is_throttling = false;
  };
  // The reason that held clocks for most of that time.
  static Reason ReasonOf(const Trace& trace, const GpuCounters& gpu, const Intervals& low) {
    Reason most;
    for (const auto& [name, counter] : gpu.counters) {
      if (name.substr(0, base::kClocksHeldBy.size()) != base::kClocksHeldBy) continue;
      Intervals active;
      for (const Held& held : ValuesOf(trace, counter, model::kHoldsOnNs)) {
        if (held.value != 0) active.push_back(held.when);
      }
      const int64_t ns = TotalNs(Intersection(low, model::Union(std::move(active))));
      const std::string_view reason = name.substr(base::kClocksHeldBy.size());
      const bool is_throttling = base::IsThrottling(reason);
      if (ns == 0 || std::pair(is_throttling, ns) <= std::pair(most.is_throttling, most.ns)) continue;
      most = {std::string(reason), ns, is_throttling};
    }
    return most;
  }

  static void Judge(Analysis& analysis, const std::string& subject, const State& state, const std::string& reason,
                    bool is_throttling) {
    const Trace& trace = analysis.trace();
    const Threshold steep = analysis.threshold("slope"), drop = analysis.threshold("drop");
    if (Share(state.low_ns, state.ns) < analysis.threshold("low_share").value || state.low_ns == 0) return;
    const bool is_compared = std::isfinite(state.slope.error);
    if (is_compared && state.slope.value - 2 * state.slope.error < steep.value) return;  // kernels did not feel it
    double saved_ns = 0;
    Longest longest(EvidenceTable::kGpu, "ran at a low clock");
    for (const Kernel& kernel : state.kernels) {
      if (kernel.clock > state.base * (1 - drop.value)) continue;
      const int64_t begin_ns = trace.gpu.begin_ns[kernel.row];
      longest.Show(kernel.row, {begin_ns, begin_ns + kernel.ns});
      saved_ns += static_cast<double>(kernel.ns) * (1 - std::pow(kernel.clock / state.base, state.slope.value));
    }
    const double ratio = state.base / state.low_median;
    std::string summary =
        base::Format("for %.0f %% of its kernels' time the SM clock was low: %.0f MHz, otherwise %.0f MHz",
                     100 * Share(state.low_ns, state.ns), state.low_median, state.base);
    if (!reason.empty()) summary += ", held by " + reason;
    summary +=
        is_compared
            ? base::Format("; the same kernels took %.2f times as long", std::pow(ratio, state.slope.value)) +
                  base::Format(" (clock ratio %.2f, slope %.2f +- %.2f)", ratio, state.slope.value, state.slope.error)
            : std::string("; the effect on kernels is not known: none ran often at both");
    Conclude(
        analysis,
        Judged(is_throttling ? "a26.throttled" : "a26.clock_low", subject.c_str(),
               is_compared ? "slope of log(duration) against log(1 / clock)" : "drop of the clock",
               is_compared ? state.slope.value : 1 - 1 / ratio, is_compared ? steep : drop),
        {.severity = ratio >= 1.2 ? Severity::kHigh : Severity::kMedium,
         .confidence = !is_compared     ? 0.4
                       : reason.empty() ? 0.7
                                        : 0.9,
         .is_undetermined = !is_compared,
         .cost_ns = is_compared ? static_cast<int64_t>(std::min(saved_ns, 9e18)) : 0,
         .summary = summary,
         .recommendation = is_throttling ? "Check cooling and the power limit; until then route work elsewhere."
                                         : "Find out whether clocks were set (application clocks, nvidia-smi -lgc), or "
                                           "the GPU had been idle."},
        longest);
  }

  // All kernels at one clock, held all the time: their length without that is not in the trace.
  static void JudgeHeld(Analysis& analysis, const std::string& subject, const GpuCounters& gpu,
                        const std::vector<Held>& clocks, bool is_joined) {
    const Trace& trace = analysis.trace();
    const Intervals all = {{clocks.front().when.begin_ns, clocks.back().when.end_ns}};
    const Reason reason = ReasonOf(trace, gpu, all);
    const Threshold least = analysis.threshold("low_share");
    const double share = Share(reason.ns, TotalNs(all));
    if (!reason.is_throttling || share < least.value) return;
    // If it did not hold them all the time, kernels did run without it, and at hardly another clock.
    if (is_joined && share <= 1 - least.value) return;
    const std::string summary =
        "clocks were held by " + reason.name + " for " + Percent(share) + " of the time; " +
        (is_joined ? "kernels ran at no other clock for comparison" : "this may be none of the process's devices");
    Conclude(analysis, Judged("a26.throttled", subject.c_str(), "time held / time sampled", share, least),
             {.severity = Severity::kLow,
              .confidence = 0.3,
              .is_undetermined = true,
              .summary = summary,
              .recommendation = "Compare with a window without held clocks."});
  }
};

}  // namespace
}  // namespace a26

std::unique_ptr<Analyzer> MakeClocks() { return std::make_unique<a26::Clocks>(); }

}  // namespace pitot::catalogue
