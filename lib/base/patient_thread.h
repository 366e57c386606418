// SPDX-License-Identifier: Apache-2.0
//
// A thread of Pitot that may hang in a driver. Its owner waits for it for a limited time, then leaves it behind with
// all that it holds.
#ifndef PITOT_LIB_BASE_PATIENT_THREAD_H_
#define PITOT_LIB_BASE_PATIENT_THREAD_H_

#include <stdint.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/loader_lock.h"
#include "base/semaphore.h"
#include "base/signals.h"

namespace pitot::base {

class PatientThread {
 public:
  PatientThread() = default;
  // A thread that was not ended is left behind, as in the child of a fork, where it does not exist.
  ~PatientThread() {
    if (thread_.joinable()) thread_.detach();
  }
  PatientThread(const PatientThread&) = delete;
  PatientThread& operator=(const PatientThread&) = delete;

  // Runs `run`. It must keep alive everything it works on. Throws bad_alloc and system_error.
  template <class Run> void Start(Run run) {
    ended_ = std::make_shared<Ended>();
    const SignalsBlocked blocked;  // the thread inherits it
    thread_ = std::thread([ended = ended_, run = std::move(run)] {
      BecomeOwnThread();
      run();
      ended->flag.store(true, std::memory_order_release);
      ended->signal.Give();
    });
  }
  // Waits for the thread to end, after it was told to. False: it did not end in time, and is left behind.
  bool End(int64_t patience_ns) noexcept {
    ended_->signal.AwaitUntil(ClockNs(CLOCK_MONOTONIC) + patience_ns);
    const bool has_ended = ended_->flag.load(std::memory_order_acquire);
    has_ended ? thread_.join() : thread_.detach();
    return has_ended;
  }

 private:
  struct Ended {
    std::atomic<bool> flag{false};
    Semaphore signal;
  };

  std::shared_ptr<Ended> ended_;
  std::thread thread_;
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_PATIENT_THREAD_H_
