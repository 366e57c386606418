// SPDX-License-Identifier: Apache-2.0
//
// Calls of a driver or its tools, by any thread: none begins once the process exits, because they then tear themselves
// down. Its owner registers an exit handler that closes it after the driver has registered its own, so it runs before.
#ifndef PITOT_LIB_BASE_UNTIL_EXIT_H_
#define PITOT_LIB_BASE_UNTIL_EXIT_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace pitot::base {

class UntilExit {
 public:
  // One or several calls; false: none may begin. Threads: any, lock-free.
  class Entered {
   public:
    explicit Entered(UntilExit* until_exit) noexcept : until_exit_(until_exit) {
      until_exit_->inside_.fetch_add(1);
      if (until_exit_->is_closed()) until_exit_->inside_.fetch_sub(1), until_exit_ = nullptr;
    }
    ~Entered() {
      if (until_exit_ != nullptr) until_exit_->inside_.fetch_sub(1);
    }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    explicit operator bool() const { return until_exit_ != nullptr; }

   private:
    UntilExit* until_exit_;
  };

  bool is_closed() const noexcept { return is_closed_.load(); }
  // Ends this. The first call waits for calls in flight, a second at most.
  void Close() noexcept {
    Close([] { return ClockNs(CLOCK_MONOTONIC); });
  }
  // The same by another clock, read only while it waits.
  template <class NowNs> void Close(NowNs now_ns) noexcept {
    if (is_closed_.exchange(true)) return;
    const int64_t deadline_ns = now_ns() + 1'000'000'000;
    while (inside_.load() != 0 && now_ns() < deadline_ns) sched_yield();
  }

 private:
  std::atomic<bool> is_closed_{false};
  std::atomic<uint32_t> inside_{0};
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_UNTIL_EXIT_H_
