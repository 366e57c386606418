// SPDX-License-Identifier: Apache-2.0
//
// The cost that CUPTI leaves behind once it has recorded kernels: every launch is dearer for the life of the process.
// This stays even when everything is off again, and nothing safe removes it (docs/lab/gpu.md). It is forecast before
// the first recording.
#ifndef PITOT_LIB_COLLECT_CUPTI_LASTING_COST_H_
#define PITOT_LIB_COLLECT_CUPTI_LASTING_COST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/call_class.h"

namespace pitot::cupti {

// Learns from short looks at the calls of all threads. A thread's share of the forecast is
//
//   (launches * kPerLaunchNs - the part hidden by waits) / time at work
//
// because a thread with a long wait after its launches has launched ahead of the GPU: dearer launches shorten the wait,
// not the work. A wait hides nothing if it is short against the launching before it (kLongWait). It is then the time of
// the last kernels and copies, and dearer launches only put it off. Nor does a wait hide anything without launches
// before it, as for a copy to the GPU. A thread is at work from call to call, unless they are more than kPauseNs apart.
class LastingCost {
 public:
  // Measured on whole models: ResNet-50 and a transformer, batch 1, eager, on one H100 with CUPTI 13.0
  // (docs/lab/gpu.md). It is extrapolated to every other machine.
  static constexpr int64_t kPerLaunchNs = 1400;
  static constexpr int64_t kPauseNs = 1'000'000;
  static constexpr int64_t kNoWaitNs = 10'000;   // the length of a call without a wait, at most
  static constexpr int64_t kLongWait = 4;        // a wait is long from one in so many parts of the launching on
  static constexpr uint32_t kLooks = 5;          // the dearest of them counts
  static constexpr int64_t kLeastLaunches = 20;  // in a look, to judge how dense they are
  // After so many looks in a row with fewer, launches are few: even work of which each look sees a tenth has been seen.
  static constexpr uint32_t kSparseLooks = 50;
  static constexpr uint32_t kThreads = 64;  // more are not looked at

  // Adds a call. Threads: any; a thread adds its calls in turn, a nested call before the one around it. Cost: 10 ns; no
  // lock, no allocation.
  void Add(uint64_t thread, base::CallClass kind, int64_t begin_ns, int64_t end_ns) noexcept;
  // Forgets everything. Thread: as EndLook.
  void Forget() noexcept { looks_ = sparse_looks_ = 0; }
  // Ends a look of this length. Thread: one.
  void EndLook(int64_t ns) noexcept;

  // Whether enough was seen. Thread: as EndLook.
  bool is_known() const noexcept { return looks_ >= kLooks || sparse_looks_ >= kSparseLooks; }
  // The forecast: the dearest of the last looks. If launches are few, their cost as a share of all time.
  double percent() const noexcept;

 private:
  struct alignas(64) Thread {
    std::atomic<uint32_t> look{0};  // in which the rest was seen; 0: none, kTaking: it is being taken
    std::atomic<uint64_t> id{0};
    std::atomic<int64_t> launches{0}, hidden_ns{0}, busy_ns{0};
    // Used by the thread alone: its last call, counted once it is known to be outermost, and its sums since the last
    // wait.
    std::atomic<int64_t> begin_ns{INT64_MIN}, end_ns{0}, counted_end_ns{0}, launches_since_wait{0},
        busy_since_wait_ns{0};
    std::atomic<base::CallClass> kind{base::CallClass::kOther};
  };

  static constexpr uint32_t kTaking = ~0u;

  Thread* Find(uint64_t id) noexcept;
  static void CountLast(Thread* thread) noexcept;

  Thread threads_[kThreads];
  std::atomic<uint32_t> look_{1};
  double percents_[kLooks] = {}, sparse_percent_ = 0;
  uint32_t looks_ = 0, sparse_looks_ = 0;
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_LASTING_COST_H_
