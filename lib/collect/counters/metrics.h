// SPDX-License-Identifier: Apache-2.0
//
// The sampled counters, their names in CUPTI, and a sample of them.
#ifndef PITOT_LIB_COLLECT_COUNTERS_METRICS_H_
#define PITOT_LIB_COLLECT_COUNTERS_METRICS_H_

#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/gpu_counters.h"

namespace pitot::counters {

// How a metric's value becomes the counter's.
enum class Scale : uint8_t {
  kNone,
  kPerSecond,  // a sum over the sample
  kMega,       // Hz to MHz
};

struct Metric {
  const char* name;  // CUPTI's
  base::GpuCounter counter;
  Scale scale;
};

inline constexpr uint32_t kMostMetrics = 11;

// The counters of a sample's values, whatever was measured of them.
inline constexpr base::GpuCounter kColumnCounters[] = {
    base::GpuCounter::kEngineActive,  base::GpuCounter::kSmActive,        base::GpuCounter::kDramBandwidth,
    base::GpuCounter::kSmClock,       base::GpuCounter::kTensorActive,    base::GpuCounter::kInstructions,
    base::GpuCounter::kPcieReceiving, base::GpuCounter::kPcieSending,     base::GpuCounter::kL2Bandwidth,
    base::GpuCounter::kNvlinkSending, base::GpuCounter::kNvlinkReceiving, base::GpuCounter::kSmOccupancy,
};
inline constexpr uint32_t kColumns = std::size(kColumnCounters);
// kColumns: it has none.
uint32_t ColumnOf(base::GpuCounter counter);
uint32_t ColumnNamed(std::string_view name);

// Times are CLOCK_MONOTONIC ns; in shared files CLOCK_REALTIME. NaN: not measured. No initialisers, so memory stays
// untouched until it is written.
struct Sample {
  int64_t begin_ns, end_ns;
  float values[kColumns];
};
static_assert(sizeof(Sample) == 64);  // CounterOptions::memory_bytes
// A sample without a value.
Sample Unmeasured(int64_t begin_ns, int64_t end_ns);

// Choices to try one after another, the richest first: a chip that does not know a metric refuses its whole choice, and
// all metrics must fit in one pass.
std::vector<std::vector<Metric>> Choices();

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_METRICS_H_
