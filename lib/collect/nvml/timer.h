// SPDX-License-Identifier: Apache-2.0
//
// The sampling thread's time, so that tests bring their own.
#ifndef PITOT_LIB_COLLECT_NVML_TIMER_H_
#define PITOT_LIB_COLLECT_NVML_TIMER_H_

#include <errno.h>
#include <semaphore.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"

namespace pitot::nvml {

// Something that happens, for one who waits.
class Signal {
 public:
  Signal() { sem_init(&semaphore_, 0, 0); }
  ~Signal() { sem_destroy(&semaphore_); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void Give() noexcept { sem_post(&semaphore_); }
  // True if it was given before CLOCK_MONOTONIC reached `at_ns`. Orders nothing: give atomics besides.
  bool AwaitUntil(int64_t at_ns) noexcept {
    timespec until{};
    until.tv_sec = static_cast<time_t>(at_ns / 1'000'000'000);
    until.tv_nsec = at_ns % 1'000'000'000;
    int result = 0;
    do {
      result = sem_clockwait(&semaphore_, CLOCK_MONOTONIC, &until);
    } while (result != 0 && errno == EINTR);
    return result == 0;
  }

 private:
  sem_t semaphore_;
};

class Timer {
 public:
  virtual ~Timer() = default;
  // CLOCK_MONOTONIC, ns. On any thread.
  virtual int64_t NowNs() noexcept = 0;
  // Returns at `at_ns`, or earlier if Wake was called meanwhile or before.
  virtual void WaitUntil(int64_t at_ns) noexcept = 0;
  virtual void Wake() noexcept = 0;
};

class SystemTimer final : public Timer {
 public:
  int64_t NowNs() noexcept override { return base::ClockNs(CLOCK_MONOTONIC); }
  void WaitUntil(int64_t at_ns) noexcept override { wake_.AwaitUntil(at_ns); }
  void Wake() noexcept override { wake_.Give(); }

 private:
  Signal wake_;
};

}  // namespace pitot::nvml

#endif  // PITOT_LIB_COLLECT_NVML_TIMER_H_
