// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/gpu_states.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "analyze/blame/gpu_use.h"
#include "analyze/facts/clock_state.h"
#include "analyze/facts/gpu_counters.h"
#include "base/columns.h"
#include "base/gpu_counters.h"
#include "base/quantile.h"
#include "model/held.h"

namespace pitot::blame {

using base::Format;
using base::GpuCounter;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

namespace {

// A unit limits the work from this share of its peak on. Nsight Compute's "speed of light" section calls a kernel bound
// by latency if all of its units are below 60 %.
constexpr double kBound = 60;
// An engine is idle below this share of the time: a server's few small kernels between requests take a few percent.
constexpr double kIdle = 10;
// How long before and after a part others' work is looked for.
constexpr int64_t kAround = 100'000'000;
// Work may go on for so long after a request or batch that did not wait for it.
constexpr int64_t kGoesOn = 10'000'000;
// Busier than usual by this factor.
constexpr double kBusier = 1.1;

std::vector<GpuCounter> Counters() {
  return {GpuCounter::kEngineActive,  GpuCounter::kSmActive,      GpuCounter::kInstructions, GpuCounter::kTensorActive,
          GpuCounter::kDramBandwidth, GpuCounter::kPcieReceiving, GpuCounter::kPcieSending,  GpuCounter::kSmClock};
}

// When a counter was at `least` or above.
Intervals TimesFrom(const Trace& trace, uint32_t counter, double least) {
  Intervals times;
  if (counter == kNone) return times;
  for (const model::Held& held : ValuesOf(trace, counter, model::kHoldsOnNs)) {
    if (held.value >= least) times.push_back(held.when);
  }
  return model::Union(std::move(times));
}

// The median of a counter over some times, by time; 0: unknown.
double MedianIn(const Trace& trace, uint32_t counter, const Intervals& times) {
  if (counter == kNone) return 0;
  std::vector<std::pair<double, int64_t>> values;
  auto time = times.begin();
  for (const model::Held& held : ValuesOf(trace, counter, model::kHoldsOnNs)) {
    while (time != times.end() && time->end_ns <= held.when.begin_ns) ++time;
    int64_t ns = 0;
    for (auto at = time; at != times.end() && at->begin_ns < held.when.end_ns; ++at)
      ns += std::min(at->end_ns, held.when.end_ns) - std::max(at->begin_ns, held.when.begin_ns);
    if (ns <= 0 || !std::isfinite(held.value)) continue;
    values.emplace_back(held.value, ns);
  }
  return base::WeightedQuantile(std::move(values), 0.5);
}

// When the process may have had work on a GPU.
Intervals OwnTimes(const Trace& trace) {
  Intervals times;
  const auto add = [&](int64_t begin_ns, int64_t duration_ns) {
    times.push_back({begin_ns, duration_ns == model::kOpen ? model::kMaxTimeNs : begin_ns + duration_ns + kGoesOn});
  };
  for (const model::RequestRow& row : trace.requests) add(row.begin_ns, row.duration_ns);
  for (const model::BatchRow& row : trace.batches) add(row.begin_ns, row.duration_ns);
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) add(trace.gpu.begin_ns[row], trace.gpu.duration_ns[row]);
  return model::Union(std::move(times));
}

const char* Words(GpuBound bound) {
  switch (bound) {
    case GpuBound::kHost:
      return "idle, it waited for the host";
    case GpuBound::kCopies:
      return "bound by copies over the bus";
    case GpuBound::kMemory:
      return "bound by its memory";
    case GpuBound::kTensor:
      return "bound by its tensor cores";
    case GpuBound::kIssue:
      return "bound by its instructions";
    case GpuBound::kFewSms:
      return "its work did not fill it";
    case GpuBound::kLatency:
      return "nothing was near its peak, so bound by latency";
    case GpuBound::kUnknown:
      break;
  }
  return "";
}

}  // namespace

const char* GpuBoundName(GpuBound bound) {
  static constexpr const char* kNames[] = {"", "host", "copies", "memory", "tensor", "issue", "few_sms", "latency"};
  return kNames[static_cast<uint8_t>(bound)];
}

GpuBound GpuState::Bound() const {
  const double active = engine.value_or(sms.value_or(0));
  if (!engine && !sms) return GpuBound::kUnknown;
  if (active < kIdle) return pcie.value_or(0) >= kCopying ? GpuBound::kCopies : GpuBound::kHost;
  if (engine && active < kBound) return GpuBound::kUnknown;
  const std::pair<double, GpuBound> most =
      std::max({std::pair{dram.value_or(0), GpuBound::kMemory}, std::pair{tensor.value_or(0), GpuBound::kTensor},
                std::pair{instructions.value_or(0), GpuBound::kIssue}});
  if (most.first >= kBound) return most.second;
  if (sms && *sms < kBound) return GpuBound::kFewSms;
  return sms && dram && tensor ? GpuBound::kLatency : GpuBound::kUnknown;
}

bool GpuState::IsClockLow() const { return clock && usual_clock && *clock <= (1 - facts::kClockDrop) * *usual_clock; }

bool GpuState::HasOthers() const { return others && *others >= kIdle; }

bool GpuState::IsMemoryBusier() const {
  return Bound() == GpuBound::kMemory && dram && usual_dram && *dram >= kBusier * *usual_dram;
}

std::string GpuState::Text() const {
  std::string text = "the GPU was";
  const auto add = [&](const char* what, const std::optional<double>& value) {
    if (value) text += Format("%s %.0f %%", what, *value);
  };
  add(" active", engine);
  if (engine) text += " of the time";
  add(engine ? ", SMs" : " active: SMs", sms);
  if (!engine && !sms) return "";
  add(", tensor cores", tensor);
  add(", DRAM", dram);
  if (pcie && *pcie >= kCopying) text += Format(", PCIe %.1f GB/s", *pcie * 1e-9);
  if (const GpuBound bound = Bound(); bound != GpuBound::kUnknown) text += std::string(": ") + Words(bound);
  if (IsClockLow()) text += Format("; its SM clock was %.0f MHz, usually %.0f MHz", *clock, *usual_clock);
  if (HasOthers())
    text += Format("; around then it was active %.0f %% of the time without work of this process", *others);
  return text;
}

GpuStates::GpuStates(const Trace& trace) : means_(trace, Counters()), devices_(trace.devices.size()) {
  if (!means_.is_empty()) own_ = OwnTimes(trace);
  for (uint32_t device = 0; device < devices_.size() && !means_.is_empty(); ++device) {
    devices_[device].busy = TimesFrom(trace, facts::CounterOf(trace, device, GpuCounter::kEngineActive), kBound);
    devices_[device].usual_dram =
        MedianIn(trace, facts::CounterOf(trace, device, GpuCounter::kDramBandwidth), devices_[device].busy);
    devices_[device].usual_clock =
        MedianIn(trace, facts::CounterOf(trace, device, GpuCounter::kSmClock), devices_[device].busy);
  }
  const std::map<facts::GpuKey, facts::GpuCounters> gpus = facts::GpuCountersOf(trace);
  for (const auto& [key, gpu] : gpus) {
    const uint32_t device = facts::DeviceOf(trace, gpus, key), row = gpu.Find(GpuCounter::kOtherProcesses);
    if (device >= devices_.size() || row == kNone) continue;
    for (const model::Held& held : ValuesOf(trace, row)) {
      if (held.value > 0) devices_[device].others.push_back(held.when);
    }
    devices_[device].others = model::Union(std::move(devices_[device].others));
  }
}

std::optional<GpuState> GpuStates::In(uint32_t device, const Intervals& times) const {
  if (device >= devices_.size() || times.empty()) return std::nullopt;
  const auto asks = [&](const Intervals& when) {
    return means_.Of(device, GpuCounter::kEngineActive, when).has_value() ||
           means_.Of(device, GpuCounter::kSmActive, when).has_value();
  };
  const Interval whole = {times.front().begin_ns, times.back().end_ns};
  const Intervals when = asks(times) ? times : Intervals{whole};
  GpuState state;
  const auto of = [&](GpuCounter counter, const Intervals& in) -> std::optional<double> {
    const std::optional<facts::CounterMean> mean = means_.Of(device, counter, in);
    if (!mean) return std::nullopt;
    state.samples = std::max(state.samples, mean->samples);
    return mean->value;
  };
  state.engine = of(GpuCounter::kEngineActive, when);
  state.sms = of(GpuCounter::kSmActive, when);
  if (!state.engine && !state.sms) return std::nullopt;
  state.instructions = of(GpuCounter::kInstructions, when);
  state.tensor = of(GpuCounter::kTensorActive, when);
  state.dram = of(GpuCounter::kDramBandwidth, when);
  const std::optional<double> in = of(GpuCounter::kPcieReceiving, when), out = of(GpuCounter::kPcieSending, when);
  if (in || out) state.pcie = in.value_or(0) + out.value_or(0);
  state.clock = of(GpuCounter::kSmClock, model::Intersection(when, devices_[device].busy));
  if (devices_[device].usual_clock > 0) state.usual_clock = devices_[device].usual_clock;
  if (devices_[device].usual_dram > 0) state.usual_dram = devices_[device].usual_dram;
  const uint64_t samples = state.samples;
  const Intervals around = {{whole.begin_ns - kAround, whole.end_ns + kAround}};
  state.others = of(GpuCounter::kEngineActive, model::Difference(around, own_));
  state.were_others_there = !model::Intersection(around, devices_[device].others).empty();
  state.samples = samples;
  return state;
}

}  // namespace pitot::blame
