// SPDX-License-Identifier: Apache-2.0
//
// What a GPU did during a part of a request, by its hardware counters (pitot::counters), and what its work was bound
// by (docs/reference/walk.md#the-state-of-a-gpu).
#ifndef PITOT_LIB_ANALYZE_BLAME_GPU_STATES_H_
#define PITOT_LIB_ANALYZE_BLAME_GPU_STATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/blame/namespace.h"
#include "analyze/facts/counter_means.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

// What kept a GPU from working faster.
enum class GpuBound : uint8_t {
  kUnknown = 0,  // not measured, or it was active for a part of the time only
  kHost = 1,     // it was idle nearly all the time
  kCopies = 2,   // copies over the bus
  kMemory = 3,   // its DRAM
  kTensor = 4,   // its tensor cores
  kIssue = 5,    // its SMs issued instructions near their peak
  kFewSms = 6,   // its work left many SMs idle
  kLatency = 7,  // SMs were in use and nothing was near its peak: they waited for memory or for each other's results
};
// A word for programs: "memory"; "" if unknown.
const char* GpuBoundName(GpuBound bound);

// Means over some time, in % of the peak unless said otherwise. Nothing: not measured.
struct GpuState {
  std::optional<double> engine, sms, instructions, tensor, dram;
  std::optional<double> pcie;                // bytes/s, both directions
  std::optional<double> clock, usual_clock;  // of the SMs, MHz, while the engine was active; usual: the window's median
  // The engine, shortly before, during and after that time, while this process had no request, batch or recorded GPU
  // work: others' work, or its own work that is recorded nowhere.
  std::optional<double> others;
  bool were_others_there = false;    // NVML saw other processes on the device around then; they may have been idle
  std::optional<double> usual_dram;  // the window's median while its engine was active
  uint64_t samples = 0;

  GpuBound Bound() const;
  // Whether the clock was lower than usual by facts::kClockDrop or more.
  bool IsClockLow() const;
  // Whether it worked without this process's doing.
  bool HasOthers() const;
  // Whether it is bound by its memory, which was busier than usual.
  bool IsMemoryBusier() const;
  // "the GPU was active 97 % of the time, SMs 96 %, tensor cores 2 %, DRAM 84 %: bound by its memory".
  std::string Text() const;
};

class GpuStates {
 public:
  // O(samples + n log n of requests, batches and GPU rows). Keeps no reference to the trace.
  explicit GpuStates(const model::Trace& trace);
  // What a device (row) did in `times`; nothing without two samples of it then. If the times are too short for samples,
  // it is what it did from their beginning to their end. O(samples).
  std::optional<GpuState> In(uint32_t device, const model::Intervals& times) const;

 private:
  struct Device {
    model::Intervals busy;                   // when its engine was active most of the time
    model::Intervals others;                 // when NVML saw other processes
    double usual_clock = 0, usual_dram = 0;  // 0: unknown
  };

  const facts::CounterMeans means_;
  model::Intervals own_;  // when this process may have had work on a GPU
  std::vector<Device> devices_;
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_GPU_STATES_H_
