// SPDX-License-Identifier: Apache-2.0
//
// When the GPU and its copy engines were at work, by its hardware counters (pitot::counters): what a thread may have
// waited for when no call and no kernel was recorded (docs/reference/walk.md#a-gpu-seen-by-its-counters).
#ifndef PITOT_LIB_ANALYZE_BLAME_GPU_USE_H_
#define PITOT_LIB_ANALYZE_BLAME_GPU_USE_H_

#include <cstdint>
#include <vector>

#include "analyze/blame/namespace.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

class GpuUse {
 public:
  // O(counters + samples). Keeps no reference to the trace.
  explicit GpuUse(const model::Trace& trace);
  enum Engine : uint32_t { kCompute, kToGpu, kFromGpu, kEngines };
  // Whether a device was sampled, and no other: with several, the request's is not known.
  bool HasDevice() const { return counters_[kCompute] != model::kNone; }
  // The counter that tells; kNone: it was not sampled.
  uint32_t CounterOf(Engine engine) const { return counters_[engine]; }
  // Whether the device was sampled, with its engine, all the time between two moments.
  bool IsSampled(int64_t begin_ns, int64_t end_ns) const;
  // How long an engine was at work between two moments. Time without samples counts as idle. O(log n), and the samples.
  int64_t BusyNs(Engine engine, int64_t begin_ns, int64_t end_ns) const;

 private:
  struct Sample {
    int64_t begin_ns, end_ns;
    double share;  // of that time at work
  };
  void FindBusy(const model::Trace& trace, Engine engine);

  uint32_t counters_[kEngines] = {model::kNone, model::kNone, model::kNone};
  std::vector<Sample> samples_[kEngines];  // in order, none overlap
  model::Intervals sampled_;
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_GPU_USE_H_
