// SPDX-License-Identifier: Apache-2.0
//
// The newest samples of all GPUs, in a ring of fixed size for each, and why others are missing. The sampling thread
// writes; AddTo reads.
#ifndef PITOT_LIB_COLLECT_COUNTERS_HISTORY_H_
#define PITOT_LIB_COLLECT_COUNTERS_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "collect/counters/api.h"
#include "collect/counters/metrics.h"
#include "pitot/extend/collector.h"
#include "pitot/status.h"

namespace pitot::counters {

// What is told of a GPU besides its samples.
struct GpuState {
  uint32_t interval_us = 0;   // 0: never sampled
  std::string not_recorded;   // why it is not sampled now; empty: it is
  std::string other_metrics;  // why the richest choice of metrics is not used; empty: it is
  std::string held;           // why this process may hold it though it does not sample it; empty: it does not
  std::string failed_call;    // the newest of CUPTI's that failed, with its result
  uint64_t failed_calls = 0;
  std::string source;      // of the samples, if it is not CUPTI
  std::string not_shared;  // why other processes do not get its samples; empty: they do
  std::string sampled_by;  // another process, if samples came from one, the last of them at:
  int64_t sampled_by_until_ns = 0;
  int64_t rested_from_ns = 0, rested_until_ns = 0;  // the newest stretch whose samples nobody needed or fetched
  uint64_t samples = 0, lost = 0;
};

class History {
 public:
  explicit History(uint64_t bytes_per_gpu) : capacity_(static_cast<size_t>(bytes_per_gpu / sizeof(Sample))) {}

  // Called by the sampling thread. Returns the GPU's number here. Throws bad_alloc.
  uint32_t AddGpu(const Gpu& gpu);
  // Called by the sampling thread. Throws bad_alloc.
  void SetState(uint32_t gpu, const GpuState& state);
  // The new GPUs without memory for a ring, by bit of their ordinal.
  void SetWithoutMemory(uint64_t gpus) noexcept;
  // Adds samples in their order. Lost ones between them are `lost`. Called by the sampling thread.
  void Commit(uint32_t gpu, std::span<const Sample> samples, uint64_t lost) noexcept;
  // Whether no GPU is held that should have been given away. Threads: any.
  Status CheckFree() const noexcept;
  // The thread's share of a CPU, percent.
  void SetCpu(double percent) noexcept;

  // The samples of a window, and the reasons. A stretch of more than two intervals without samples has the counter
  // "sampled" 0. Threads: any.
  void AddTo(int64_t begin_ns, int64_t end_ns, TraceBuilder& trace) const;
  uint64_t HeldBytes() const noexcept;

 private:
  struct Ring {
    Gpu gpu;
    GpuState state;
    std::unique_ptr<Sample[]> samples;
    uint64_t written = 0;
  };
  std::vector<Sample> Copy(const Ring& ring, int64_t begin_ns, int64_t end_ns) const PITOT_REQUIRES(mutex_);

  const size_t capacity_;
  mutable base::Mutex mutex_;
  std::vector<Ring> rings_ PITOT_GUARDED_BY(mutex_);
  uint64_t without_memory_ PITOT_GUARDED_BY(mutex_) = 0;
  double cpu_percent_ PITOT_GUARDED_BY(mutex_) = 0;
};

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_HISTORY_H_
