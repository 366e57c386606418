// SPDX-License-Identifier: Apache-2.0
//
// The clock of a sampling thread: it steps from round to round, as fast as the thread works.
#ifndef PITOT_TEST_FAKES_STEP_TIMER_H_
#define PITOT_TEST_FAKES_STEP_TIMER_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/timer.h"
#include "fakes/wait_until.h"

namespace fakes {

inline constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000;

// The clock stands still, except in Pass and Set. Pass lets the waiting thread do its due work.
class StepTimer final : public pitot::base::Timer {
 public:
  int64_t NowNs() noexcept override {
    const std::lock_guard lock(mutex_);
    return now_ns_;
  }
  void WaitUntil(int64_t at_ns) noexcept override {
    std::unique_lock lock(mutex_);
    due_ns_ = at_ns;
    changed_.wait(lock, [&] { return is_awake_ || now_ns_ >= at_ns; });
    is_awake_ = false;
    due_ns_ = 0;
  }
  void Wake() noexcept override {
    const std::lock_guard lock(mutex_);
    is_awake_ = true;
    changed_.notify_all();
  }

  // Sets the clock alone, without waiting for the thread.
  void Set(int64_t now_ns) {
    const std::lock_guard lock(mutex_);
    now_ns_ = now_ns;
    changed_.notify_all();
  }
  // True while the thread waits for a time in the future.
  bool IsIdle() {
    const std::lock_guard lock(mutex_);
    return due_ns_ > now_ns_;
  }
  bool AwaitIdle() {
    return WaitUntilTrue([this] { return IsIdle(); });
  }
  // Advances the clock by `ns`, stopping at each due time in between.
  bool Pass(int64_t ns) {
    if (!AwaitIdle()) return false;
    const int64_t end_ns = NowNs() + ns;
    for (;;) {
      int64_t due_ns = 0;
      {
        const std::lock_guard lock(mutex_);
        due_ns = due_ns_;
      }
      if (due_ns > end_ns) break;
      Set(due_ns);
      if (!AwaitIdle()) return false;
    }
    Set(end_ns);
    return true;
  }

 private:
  template <class Condition> static bool WaitUntilTrue(Condition condition) { return fakes::WaitUntil(condition); }

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t now_ns_ = 1000 * kSecond;
  int64_t due_ns_ = 0;  // 0: the thread does not wait
  bool is_awake_ = false;
};

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_STEP_TIMER_H_
