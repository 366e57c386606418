// SPDX-License-Identifier: Apache-2.0
//
// What CUPTI leaves behind once it has recorded kernels: every launch is dearer for the life of the process, also when
// everything is off again, and nothing that is safe takes it away (docs/lab/gpu.md). It is forecast before the
// first time.
#ifndef PITOT_LIB_COLLECT_CUPTI_LASTING_COST_H_
#define PITOT_LIB_COLLECT_CUPTI_LASTING_COST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pitot::cupti {

// What calls of the CUDA API have to do with it.
enum class CallKind : uint8_t {
  kOther,
  kLaunch,
  kWait,  // synchronisation and copies: may wait for the GPU
};

// Learns from short looks at the calls of all threads. A thread's share of the forecast is
//
//   (launches * kPerLaunchNs - what waits hide of it) / time it was at work
//
// because a thread that waits long after its launches has launched ahead of the GPU: dearer launches shorten the wait
// and not the work. A wait that is short against the launching before it (kLongWait) hides nothing: it is the way of
// the last kernels and copies, which dearer launches only put off. Nor does one without launches before it, as of a
// copy to the GPU. At work is a thread from call to call, unless they are more than kPauseNs apart.
class LastingCost {
 public:
  // Measured on whole models: ResNet-50 and a transformer, batch 1, eager, on one H100 with CUPTI 13.0
  // (docs/lab/gpu.md). For every other machine it is extrapolated.
  static constexpr int64_t kPerLaunchNs = 1400;
  static constexpr int64_t kPauseNs = 1'000'000;
  static constexpr int64_t kNoWaitNs = 10'000;   // a call that waits for nothing takes as long
  static constexpr int64_t kLongWait = 4;        // a wait is long from one in so many parts of the launching on
  static constexpr uint32_t kLooks = 5;          // of which the dearest counts
  static constexpr int64_t kLeastLaunches = 20;  // in a look, for it to say how dense they are
  // So many looks in a row that saw fewer say that launches are few: a work of which each look sees a tenth has been
  // seen.
  static constexpr uint32_t kSparseLooks = 50;
  static constexpr uint32_t kThreads = 64;  // more are not looked at

  // Threads: any; those of one thread in turn, a call inside another before that one. Cost: 10 ns; no lock, no
  // allocation.
  void Add(uint64_t thread, CallKind kind, int64_t begin_ns, int64_t end_ns) noexcept;
  // Nothing is known any more. Thread: that of EndLook.
  void Forget() noexcept { looks_ = sparse_looks_ = 0; }
  // A look of that length is over. Thread: one.
  void EndLook(int64_t ns) noexcept;

  // Whether enough was seen. Threads: that of EndLook.
  bool is_known() const noexcept { return looks_ >= kLooks || sparse_looks_ >= kSparseLooks; }
  // The dearest of the last looks. Where launches are few, what they would cost of all time.
  double percent() const noexcept;

 private:
  struct alignas(64) Thread {
    std::atomic<uint32_t> look{0};  // in which the rest was seen; 0: none, kTaking: it is being taken
    std::atomic<uint64_t> id{0};
    std::atomic<int64_t> launches{0}, hidden_ns{0}, busy_ns{0};
    // The thread's own: its last call, which counts once it is known to be outermost, and what came since the last
    // wait.
    std::atomic<int64_t> begin_ns{INT64_MIN}, end_ns{0}, counted_end_ns{0}, launches_since_wait{0},
        busy_since_wait_ns{0};
    std::atomic<CallKind> kind{CallKind::kOther};
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
