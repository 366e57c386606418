// SPDX-License-Identifier: Apache-2.0
//
// A43: what energy does a request take, and how much goes into GPUs that do nothing? Uses the power samples of the NVML
// collector; a sample holds until the next.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/serving.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/recorded.h"
#include "base/gpu_counters.h"
#include "model/parts.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a43 {
namespace {

using facts::AddNumber;
using facts::Conclude;
using facts::DevicesAtWork;
using facts::EachOf;
using facts::InfoOf;
using facts::Judged;
using facts::kAll;
using facts::Percent;
using model::Interval;
using model::Intervals;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"idle_share", 0.5, "1", "pitot"},  // of the energy
    {"least_joules", 1, "J", "pitot"},  // less is nothing to save
};

struct Power {
  uint32_t counter;
  std::string gpu;
  double joules = 0, idle_joules = 0;
  int64_t known_ns = 0;  // of the window
};

std::vector<Power> PowersOf(const Trace& trace) {
  std::vector<Power> powers;
  for (const model::GpuStateCounter& one : GpuStateCounters(trace)) {
    if (one.counter == base::NameOf(base::GpuCounter::kPower)) powers.push_back({one.row, std::string(one.gpu)});
  }
  return powers;
}

// Adds up the energy, and separately its part in `idle`.
void Integrate(Analysis& analysis, const Intervals& idle, Power* power) {
  const Trace& trace = analysis.trace();
  auto rest = idle.begin();
  for (const uint32_t i : EachOf(analysis, trace.samples.size())) {
    if (trace.samples.counter[i] != power->counter) continue;
    const bool has_next = i + 1 < trace.samples.size() && trace.samples.counter[i + 1] == power->counter;
    const Interval held = {std::max(trace.samples.at_ns[i], trace.window_begin_ns),
                           std::min(has_next ? trace.samples.at_ns[i + 1] : trace.window_end_ns, trace.window_end_ns)};
    if (held.begin_ns >= held.end_ns) continue;
    const double watts = trace.samples.value[i];
    const auto joules = [&](int64_t ns) { return watts * static_cast<double>(ns) * 1e-9; };
    power->known_ns += held.end_ns - held.begin_ns;
    power->joules += joules(held.end_ns - held.begin_ns);
    while (rest != idle.end() && rest->end_ns <= held.begin_ns) ++rest;
    for (auto at = rest; at != idle.end() && at->begin_ns < held.end_ns; ++at)
      power->idle_joules += joules(std::min(at->end_ns, held.end_ns) - std::max(at->begin_ns, held.begin_ns));
  }
}

class Energy final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override {
    return InfoOf("a43", "energy of a request", kThresholds, kReadsGpu | kReadsRequests);
  }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    const std::vector<uint32_t> requests = WholeRequests(trace);
    const std::vector<uint32_t> devices = DevicesAtWork(trace);
    std::vector<Power> powers = PowersOf(trace);
    if (powers.empty()) {
      if (!requests.empty() && !devices.empty())
        AddNotKnown(analysis, "a43.not_known", "no power was recorded: the energy of requests is not known",
                    "Add the NVML collector (MakeNvmlCollector).");
      return Status();
    }
    // NVML and CUDA may number GPUs differently: the idle one is known only if there is one of each.
    const bool is_same = powers.size() == 1 && devices.size() == 1;
    const Interval window = {trace.window_begin_ns, trace.window_end_ns};
    const Intervals idle =
        is_same ? Difference(facts::RecordedIn(trace, window), DeviceBusy(trace, devices[0])) : Intervals();
    double joules = 0;
    for (Power& power : powers) {
      Integrate(analysis, idle, &power);
      joules += power.joules;
      if (power.known_ns == 0) continue;
      AddNumber(analysis, "energy", power.gpu, power.joules, "J");
      AddNumber(analysis, "mean power", power.gpu, power.joules / (static_cast<double>(power.known_ns) * 1e-9), "W");
      if (is_same) AddNumber(analysis, "energy while idle", power.gpu, power.idle_joules, "J");
      if (is_same) Judge(analysis, power, idle);
    }
    if (!requests.empty())
      AddNumber(analysis, "energy of a request", kAll, joules / static_cast<double>(requests.size()), "J");
    return Status();
  }

 private:
  static void Judge(Analysis& analysis, const Power& power, const Intervals& idle) {
    const Threshold least = analysis.threshold("idle_share");
    if (power.joules <= 0 || power.idle_joules < analysis.threshold("least_joules").value) return;
    const double share = power.idle_joules / power.joules;
    if (share < least.value) return;
    const std::string summary = Percent(share) + " of the energy, " + base::Format("%.4g", power.idle_joules) + " of " +
                                base::Format("%.4g", power.joules) + " J, went into an idle GPU";
    Evidence evidence;
    for (const Interval& rest : idle) {
      if (rest.end_ns - rest.begin_ns > evidence.end_ns - evidence.begin_ns)
        evidence = {EvidenceTable::kWindow, 0, 0, rest.begin_ns, rest.end_ns, "the longest rest"};
    }
    Conclude(analysis, Judged("a43.idle_energy", power.gpu.c_str(), "energy while idle / energy", share, least),
             {.severity = share >= 0.75 ? Severity::kMedium : Severity::kLow,
              .confidence = 0.7,  // power is sampled ten times a second, and averaged by the GPU over longer
              .cost_ns = TotalNs(idle),
              .summary = summary,
              .recommendation =
                  "Put more load on fewer GPUs, or use larger batches and longer rests: a GPU lowers its clocks "
                  "after seconds of rest."},
             evidence);
  }
};

}  // namespace
}  // namespace a43

std::unique_ptr<Analyzer> MakeEnergy() { return std::make_unique<a43::Energy>(); }

}  // namespace pitot::catalogue
