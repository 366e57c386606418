// SPDX-License-Identifier: Apache-2.0
//
// When the GPU and its copy engines were at work, by its hardware counters (pitot::counters): what a thread may have
// waited for when no call and no kernel was recorded (docs/reference/walk.md#a-gpu-seen-by-its-counters).
#ifndef PITOT_LIB_ANALYZE_BLAME_GPU_USE_H_
#define PITOT_LIB_ANALYZE_BLAME_GPU_USE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "analyze/blame/namespace.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

// From this rate on, in bytes/s, the bus is busy with copies. Launches and results of a server that saturates an H100
// take 0.03e9 at most, a copy of pageable memory 11e9 (docs/lab/counters.md).
inline constexpr double kCopying = 1e9;

class GpuUse {
 public:
  enum Engine : uint32_t { kCompute, kToGpu, kFromGpu, kEngines };
  // A sampled device.
  class Device {
   public:
    // Null if `row` is no device whose engine was sampled. O(counters + samples).
    static std::unique_ptr<const Device> Make(const model::Trace& trace, uint32_t row);
    // The counter that tells; kNone: it was not sampled.
    uint32_t CounterOf(Engine engine) const { return counters_[engine]; }
    // Whether it was sampled, with its engine, all the time between two moments.
    bool IsSampled(int64_t begin_ns, int64_t end_ns) const;
    // How long an engine was at work between two moments. Time without samples counts as idle. O(log n), and the
    // samples.
    int64_t BusyNs(Engine engine, int64_t begin_ns, int64_t end_ns) const;

   private:
    struct Sample {
      int64_t begin_ns, end_ns;
      double share;  // of that time at work
    };
    void AddCopying(model::Interval when, std::vector<Sample>* copying) const;
    void FindBusy(const model::Trace& trace, Engine engine);

    uint32_t counters_[kEngines] = {model::kNone, model::kNone, model::kNone};
    std::vector<Sample> samples_[kEngines];  // in order, none overlap
    model::Intervals sampled_;
  };

  // O(devices * (counters + samples) + GPU rows + batches). Keeps no reference to the trace.
  explicit GpuUse(const model::Trace& trace);
  // The row of the device that a batch used, or the one that all batches of the thread used; kNone: any. The only
  // device, if no other was sampled or used. kNone: not known.
  uint32_t RowOf(uint32_t batch, uint32_t thread) const;
  // That device; null: not known, or not sampled.
  const Device* Of(uint32_t batch, uint32_t thread) const {
    const uint32_t row = RowOf(batch, thread);
    return row == model::kNone ? nullptr : devices_[row].get();
  }
  // Whether all sampled devices were sampled all the time between two moments. False without one.
  bool AreSampled(int64_t begin_ns, int64_t end_ns) const;

 private:
  std::vector<std::unique_ptr<const Device>> devices_;  // by row of devices
  uint32_t only_ = model::kNone;                        // row of the only device
  std::vector<uint32_t> of_batches_, of_threads_;       // rows of devices; kNone: none; kSeveral
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_GPU_USE_H_
