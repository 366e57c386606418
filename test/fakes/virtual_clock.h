// SPDX-License-Identifier: Apache-2.0
//
// A clock that stands still until it is set, or goes on by a step at each reading. Make it before the recorder starts,
// so that the recorder uses it.
#ifndef PITOT_TEST_FAKES_VIRTUAL_CLOCK_H_
#define PITOT_TEST_FAKES_VIRTUAL_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "trace/clock.h"

namespace fakes {

class VirtualClock {
 public:
  explicit VirtualClock(uint64_t now_ns = 1'000'000'000) {
    now_ns_.store(now_ns);
    step_ns_.store(0);
    pitot::trace::SetClockForTesting([]() -> uint64_t { return now_ns_.fetch_add(step_ns_); });
  }
  ~VirtualClock() { pitot::trace::SetClockForTesting(nullptr); }
  VirtualClock(const VirtualClock&) = delete;
  VirtualClock& operator=(const VirtualClock&) = delete;

  uint64_t now_ns() const { return now_ns_.load(); }
  void Set(uint64_t now_ns) { now_ns_.store(now_ns); }
  void Advance(uint64_t ns) { now_ns_.fetch_add(ns); }
  void SetStep(uint64_t ns) { step_ns_.store(ns); }

 private:
  static inline std::atomic<uint64_t> now_ns_{0}, step_ns_{0};
};

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_VIRTUAL_CLOCK_H_
