// SPDX-License-Identifier: Apache-2.0
#include "collect/counters/metrics.h"

#include <algorithm>
#include <limits>

namespace pitot::counters {
namespace {

using base::GpuCounter;

// Known to one chip or another; seen on an H100 (GH100).
constexpr Metric kSmActive = {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed", GpuCounter::kSmActive,
                              Scale::kNone};
constexpr Metric kDram = {"dram__throughput.avg.pct_of_peak_sustained_elapsed", GpuCounter::kDramBandwidth,
                          Scale::kNone};
constexpr Metric kEngine = {"gr__cycles_active.avg.pct_of_peak_sustained_elapsed", GpuCounter::kEngineActive,
                            Scale::kNone};
constexpr Metric kClock = {"gpc__cycles_elapsed.avg.per_second", GpuCounter::kSmClock, Scale::kMega};
constexpr Metric kTensor[] = {
    {"sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed", GpuCounter::kTensorActive,
     Scale::kNone},
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", GpuCounter::kTensorActive, Scale::kNone},
};
constexpr Metric kInstructions[] = {
    {"sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed", GpuCounter::kInstructions, Scale::kNone},
    {"sm__inst_executed.avg.pct_of_peak_sustained_elapsed", GpuCounter::kInstructions, Scale::kNone},
};
constexpr Metric kL2 = {"lts__t_sectors.avg.pct_of_peak_sustained_elapsed", GpuCounter::kL2Bandwidth, Scale::kNone};
constexpr Metric kPcie[] = {
    {"pcie__read_bytes.sum", GpuCounter::kPcieReceiving, Scale::kPerSecond},
    {"pcie__write_bytes.sum", GpuCounter::kPcieSending, Scale::kPerSecond},
};
constexpr Metric kNvlink[] = {
    {"nvlrx__bytes.sum", GpuCounter::kNvlinkReceiving, Scale::kPerSecond},
    {"nvltx__bytes.sum", GpuCounter::kNvlinkSending, Scale::kPerSecond},
};

}  // namespace

uint32_t ColumnOf(GpuCounter counter) {
  return static_cast<uint32_t>(std::find(std::begin(kColumnCounters), std::end(kColumnCounters), counter) -
                               std::begin(kColumnCounters));
}

uint32_t ColumnNamed(std::string_view name) {
  uint32_t column = 0;
  while (column < kColumns && base::NameOf(kColumnCounters[column]) != name) ++column;
  return column;
}

Sample Unmeasured(int64_t begin_ns, int64_t end_ns) {
  Sample sample{begin_ns, end_ns, {}};
  std::fill(std::begin(sample.values), std::end(sample.values), std::numeric_limits<float>::quiet_NaN());
  return sample;
}

std::vector<std::vector<Metric>> Choices() {
  std::vector<std::vector<Metric>> all;
  for (const uint32_t spelling : {0u, 1u}) {
    std::vector<Metric> metrics = {kEngine,  kSmActive, kDram, kClock, kTensor[spelling], kInstructions[spelling],
                                   kPcie[0], kPcie[1]};
    std::vector<Metric> with_l2 = metrics, with_nvlink = metrics;
    with_l2.push_back(kL2);
    with_nvlink.insert(with_nvlink.end(), {kL2, kNvlink[0], kNvlink[1]});
    all.insert(all.end(), {with_nvlink, with_l2, metrics});
  }
  all.push_back({kEngine, kSmActive, kDram, kClock});
  all.push_back({kEngine, kSmActive});
  return all;
}

}  // namespace pitot::counters
