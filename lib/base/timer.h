// SPDX-License-Identifier: Apache-2.0
//
// The time of a sampling thread, so that tests can replace it.
#ifndef PITOT_LIB_BASE_TIMER_H_
#define PITOT_LIB_BASE_TIMER_H_

#include <stdint.h>
#include <time.h>

#include "base/clock.h"
#include "base/semaphore.h"

namespace pitot::base {

class Timer {
 public:
  virtual ~Timer() = default;
  // CLOCK_MONOTONIC, ns. On any thread.
  virtual int64_t NowNs() noexcept = 0;
  // Returns at `at_ns`, or earlier if Wake was called before or meanwhile.
  virtual void WaitUntil(int64_t at_ns) noexcept = 0;
  virtual void Wake() noexcept = 0;
};

class SystemTimer final : public Timer {
 public:
  int64_t NowNs() noexcept override { return ClockNs(CLOCK_MONOTONIC); }
  void WaitUntil(int64_t at_ns) noexcept override { wake_.AwaitUntil(at_ns); }
  void Wake() noexcept override { wake_.Give(); }

 private:
  Semaphore wake_;
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_TIMER_H_
