// SPDX-License-Identifier: Apache-2.0
//
// How close the GPU work of rows comes to the peaks of its device.
#ifndef PITOT_LIB_ANALYZE_TOP_ROOF_H_
#define PITOT_LIB_ANALYZE_TOP_ROOF_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyze/facts/calls_within.h"
#include "analyze/facts/counter_means.h"
#include "analyze/facts/operator_work.h"
#include "analyze/facts/peaks.h"
#include "analyze/top/namespace.h"
#include "pitot/analyze/top.h"
#include "pitot/model/indexes.h"

namespace pitot::top {

// A row's GPU work, and the operations that recorded operators did in it.
struct Load {
  struct Work {
    uint32_t device;
    model::Interval time;
  };
  std::vector<Work> work;  // kernels, whole graphs and spans
  bool has_spans = false;
  int64_t operators_ns = 0;  // GPU time of the operators with recorded shapes
  std::array<double, facts::kPrecisions + 1> flops{};
  double bytes = 0, flops_with_bytes = 0;
};

// Reads what operators did from the arguments of their events.
class OperatorLoads {
 public:
  explicit OperatorLoads(const model::Trace& trace) : trace_(trace), work_(trace) {}
  // Whether the event says how many operations it did; they may be none.
  bool Has(uint32_t event) { return work_.Has(event); }
  // Adds the event's operations. `is_tf32`: a kernel of it computed floats on tensor cores. False: there are none.
  bool Add(uint32_t event, bool is_tf32, Load* load);
  bool IsTf32(uint32_t gpu_row);

 private:
  const model::Trace& trace_;
  facts::OperatorWork work_;
  std::unordered_map<model::StringId, bool> is_tf32_;  // by the kernel's name
};

// Derives a row's roof from its load.
class Roofs {
 public:
  Roofs(const model::Trace& trace, const TopOptions& options);
  TopRoof Of(const Load& load) const;
  std::vector<TopDevice> Devices() const;

 private:
  double FlopPerSecond(uint32_t device, facts::Precision precision) const;  // 0: unknown
  double SheetBytesPerSecond(uint32_t device) const;
  double BytesPerSecond(uint32_t device) const;
  // Fills the device with most of the work, and its time there. Returns when it worked.
  static model::Intervals FindDevice(const Load& load, TopRoof* roof);
  // Fill what operators say, then what counters add to it.
  void UseOperators(const Load& load, TopRoof* roof) const;
  void UseCounters(const model::Intervals& times, TopRoof* roof) const;

  const model::Trace& trace_;
  const double peak_flop_per_s_, peak_bytes_per_s_;
  const facts::CounterMeans counters_;
};

}  // namespace pitot::top

#endif  // PITOT_LIB_ANALYZE_TOP_ROOF_H_
