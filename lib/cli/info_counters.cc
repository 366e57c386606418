// SPDX-License-Identifier: Apache-2.0
#include "cli/info_counters.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/columns.h"
#include "base/gpu_counters.h"
#include "base/quantile.h"
#include "cli/files.h"
#include "cli/grid.h"
#include "model/held.h"
#include "model/parts.h"
#include "model/request_text.h"
#include "pitot/model/intervals.h"

namespace pitot::cli {
namespace {

using base::GpuCounter;
using base::PadLeft;
using base::PadRight;
using model::Held;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;
using nlohmann::ordered_json;

// Those that the counter collector has of a device.
constexpr GpuCounter kOfDevice[] = {
    GpuCounter::kEngineActive,  GpuCounter::kSmActive,      GpuCounter::kSmOccupancy,     GpuCounter::kTensorActive,
    GpuCounter::kInstructions,  GpuCounter::kL2Bandwidth,   GpuCounter::kDramBandwidth,   GpuCounter::kPcieSending,
    GpuCounter::kPcieReceiving, GpuCounter::kNvlinkSending, GpuCounter::kNvlinkReceiving, GpuCounter::kSmClock};
// Sums since a start, and bits: their median says nothing.
constexpr GpuCounter kNoQuantity[] = {
    GpuCounter::kClockEventReasons,   GpuCounter::kPowerCapTime,   GpuCounter::kSoftwareThermalTime,
    GpuCounter::kHardwareThermalTime, GpuCounter::kPowerBrakeTime, GpuCounter::kPcieSent,
    GpuCounter::kPcieReceived,        GpuCounter::kEccCorrected,   GpuCounter::kEccUncorrected,
    GpuCounter::kXidErrors,           GpuCounter::kLastXid};

struct Metric {
  std::string name, unit;
  std::optional<double> least, median, most;  // nothing: not recorded
  std::optional<double> in_request;           // mean
};
struct Gpu {
  std::string name, source, why_not;
  std::optional<double> sampled;  // share of the window; nothing: sampled as a whole, or not at all
  std::vector<Metric> metrics;
};

// The parts of values in these times, as values and lengths. Values follow each other: O(values + times).
std::vector<std::pair<double, int64_t>> In(const std::vector<Held>& values, const Intervals& times) {
  std::vector<std::pair<double, int64_t>> parts;
  auto first = times.begin();
  for (const auto& [value, when] : values) {
    while (first != times.end() && first->end_ns <= when.begin_ns) ++first;
    int64_t ns = 0;
    for (auto at = first; at != times.end() && at->begin_ns < when.end_ns; ++at)
      ns += std::min(at->end_ns, when.end_ns) - std::max(at->begin_ns, when.begin_ns);
    if (ns > 0) parts.emplace_back(value, ns);
  }
  return parts;
}

Metric MetricOf(std::string_view name, std::string_view unit, const std::vector<Held>& values, const Intervals& sampled,
                const Intervals& request) {
  Metric metric{std::string(name), std::string(unit), {}, {}, {}, {}};
  const auto known = In(values, sampled);
  if (known.empty()) return metric;
  const auto [least, most] = std::minmax_element(known.begin(), known.end());
  metric.least = least->first, metric.most = most->first;
  metric.median = base::WeightedQuantile(known, 0.5);
  double sum = 0, ns = 0;
  for (const auto& [value, length] : In(values, model::Intersection(sampled, request)))
    sum += value * static_cast<double>(length), ns += static_cast<double>(length);
  if (ns > 0) metric.in_request = sum / ns;
  return metric;
}

uint32_t RowOf(const Trace& trace, uint32_t device, GpuCounter counter) {
  for (uint32_t row = 0; row < trace.counters.size(); ++row) {
    if (trace.counters[row].device == device && trace.strings[trace.counters[row].name] == base::NameOf(counter))
      return row;
  }
  return kNone;
}

// Why no device has counters.
std::string_view WhyNone(const Trace& trace) {
  const std::string_view no_gpu = trace.AttributeOf("counters.no_gpu");
  return no_gpu.empty() ? trace.AttributeOf("counters.not_recorded") : no_gpu;
}

Intervals WindowOf(const Trace& trace) { return model::Union({{trace.window_begin_ns, trace.window_end_ns}}); }

// The hardware counters of a device, also those that are missing.
Gpu HardwareOf(const Trace& trace, uint32_t device, const Intervals& request) {
  const std::string ordinal = std::to_string(trace.devices[device].ordinal);
  Gpu gpu;
  gpu.name = base::GpuCounterName(trace.devices[device].ordinal, trace.strings[trace.devices[device].name], "");
  gpu.name.resize(gpu.name.size() - 2);  // ": "
  gpu.source = "hardware counters";
  gpu.why_not = trace.AttributeOf("counters." + ordinal + ".not_recorded");
  if (gpu.why_not.empty()) gpu.why_not = WhyNone(trace);
  Intervals sampled;
  if (const uint32_t row = RowOf(trace, device, GpuCounter::kSampled); row != kNone) {
    std::vector<Interval> times;
    for (const Held& held : ValuesOf(trace, row, model::kHoldsOnNs)) {
      if (held.value != 0) times.push_back(held.when);
    }
    sampled = model::Union(std::move(times));
    const int64_t window_ns = std::max<int64_t>(1, trace.window_end_ns - trace.window_begin_ns);
    gpu.sampled = static_cast<double>(model::TotalNs(sampled)) / static_cast<double>(window_ns);
  }
  for (const GpuCounter counter : kOfDevice) {
    const uint32_t row = RowOf(trace, device, counter);
    const auto values = row != kNone ? ValuesOf(trace, row, model::kHoldsOnNs) : std::vector<Held>();
    gpu.metrics.push_back(MetricOf(base::NameOf(counter), base::InfoOf(counter).unit, values, sampled, request));
  }
  return gpu;
}

bool IsQuantity(std::string_view name) {
  if (name.substr(0, base::kClocksHeldBy.size()) == base::kClocksHeldBy) return false;
  return std::none_of(std::begin(kNoQuantity), std::end(kNoQuantity),
                      [&](GpuCounter counter) { return base::NameOf(counter) == name; });
}

// The state of GPUs by NVML, as far as it is there. NVML numbers GPUs in its own way.
std::vector<Gpu> StatesOf(const Trace& trace, const Intervals& request) {
  std::map<std::pair<uint32_t, uint32_t>, Gpu> gpus;  // by part and index
  for (const model::GpuStateCounter& one : GpuStateCounters(trace)) {
    if (!IsQuantity(one.counter)) continue;
    Gpu& gpu = gpus[{one.part, one.index}];
    gpu.name = one.gpu;
    gpu.source = "NVML";
    gpu.metrics.push_back(MetricOf(one.counter, trace.strings[trace.counters[one.row].unit], ValuesOf(trace, one.row),
                                   WindowOf(trace), request));
  }
  std::vector<Gpu> all;
  for (auto& [key, gpu] : gpus) all.push_back(std::move(gpu));
  return all;
}

uint32_t SlowRequestOf(const Trace& trace) {
  const auto& requests = trace.requests;
  for (const model::FiringRow& firing : trace.firings) {
    for (uint32_t row = 0; firing.request_id != 0 && row < requests.size(); ++row) {
      if (requests[row].id == firing.request_id) return row;
    }
  }
  const auto took = [&](const model::RequestRow& row) { return trace.RequestEnd(row) - row.begin_ns; };
  const auto slowest = std::max_element(requests.begin(), requests.end(),
                                        [&](const auto& a, const auto& b) { return took(a) < took(b); });
  return slowest != requests.end() ? static_cast<uint32_t>(slowest - requests.begin()) : kNone;
}

Intervals TimesOf(const Trace& trace, uint32_t request) {
  if (request == kNone) return {};
  return model::Union({{trace.requests[request].begin_ns, trace.RequestEnd(trace.requests[request])}});
}

std::vector<Gpu> GpusOf(const Trace& trace, const Intervals& request) {
  std::vector<Gpu> gpus;
  for (uint32_t device = 0; device < trace.devices.size(); ++device) gpus.push_back(HardwareOf(trace, device, request));
  for (Gpu& gpu : StatesOf(trace, request)) gpus.push_back(std::move(gpu));
  return gpus;
}

std::string Number(const std::optional<double>& value) {
  if (!value) return "not recorded";
  return std::abs(*value) < 1e5 ? base::Format("%.1f", *value) : Prefixed(*value);
}

}  // namespace

std::string CountersText(const Trace& trace, uint32_t request) {
  if (request == kNone) request = SlowRequestOf(trace);
  base::Lines lines(WrapWidth(base::kColumns));
  const std::vector<Gpu> gpus = GpusOf(trace, TimesOf(trace, request));
  const std::string_view why_not = WhyNone(trace);
  if (gpus.empty())
    lines.AddWrapped(0, "", "no GPU in this trace" + (why_not.empty() ? "" : ": " + std::string(why_not)));
  for (const Gpu& gpu : gpus) {
    if (&gpu != gpus.data()) lines.Blank();
    std::string head = gpu.name + ", " + gpu.source;
    if (gpu.sampled) head += base::Format(", sampled %.0f %% of the window", 100 * *gpu.sampled);
    if (!gpu.why_not.empty()) head += ": " + gpu.why_not;
    lines.AddWrapped(0, "", head);
    lines.Add(2, PadRight("counter", 28) + PadRight("unit", 8) + PadLeft("least", 14) + PadLeft("median", 14) +
                     PadLeft("most", 14) + PadLeft("in the request", 16));
    for (const Metric& metric : gpu.metrics) {
      std::string line = PadRight(metric.name, 28) + PadRight(metric.unit, 8);
      for (const auto& value : {metric.least, metric.median, metric.most}) line += PadLeft(Number(value), 14);
      lines.Add(2, line + PadLeft(Number(metric.in_request), 16));
    }
  }
  if (gpus.empty() || request == kNone) return lines.text();
  const model::RequestRow& row = trace.requests[request];
  lines.Blank();
  lines.Add(0, "the request: " + model::RequestName(trace, row) + " " + std::string(trace.strings[row.route]) +
                   ", mean of its " + base::Duration(trace.RequestEnd(row) - row.begin_ns));
  return lines.text();
}

ordered_json CountersJson(const Trace& trace, uint32_t request) {
  if (request == kNone) request = SlowRequestOf(trace);
  const auto value = [](const std::optional<double>& number) {
    return number ? ordered_json(*number) : ordered_json();
  };
  ordered_json gpus = ordered_json::array();
  for (const Gpu& gpu : GpusOf(trace, TimesOf(trace, request))) {
    ordered_json metrics = ordered_json::array();
    for (const Metric& metric : gpu.metrics) {
      metrics.push_back({{"name", metric.name},
                         {"unit", metric.unit},
                         {"min", value(metric.least)},
                         {"median", value(metric.median)},
                         {"max", value(metric.most)},
                         {"in_request", value(metric.in_request)}});
    }
    gpus.push_back({{"gpu", gpu.name},
                    {"source", gpu.source},
                    {"sampled", value(gpu.sampled)},
                    {"not_recorded", gpu.why_not},
                    {"metrics", metrics}});
  }
  const std::string id = request != kNone ? base::RequestId(trace.requests[request].id) : "";
  return {{"request", id}, {"gpus", gpus}};
}

}  // namespace pitot::cli
