// SPDX-License-Identifier: Apache-2.0
//
// A signal for one waiting thread.
#ifndef PITOT_LIB_BASE_SEMAPHORE_H_
#define PITOT_LIB_BASE_SEMAPHORE_H_

#include <errno.h>
#include <semaphore.h>
#include <stdint.h>
#include <time.h>

namespace pitot::base {

class Semaphore {
 public:
  Semaphore() { sem_init(&semaphore_, 0, 0); }
  ~Semaphore() { sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // Cost: tens of ns; a system call if a thread waits. No lock.
  void Give() noexcept { sem_post(&semaphore_); }
  void Await() noexcept {
    while (sem_wait(&semaphore_) != 0) {}
  }
  // Takes all given so far: one look at the work serves all wake-ups.
  void TakeAll() noexcept {
    while (sem_trywait(&semaphore_) == 0) {}
  }
  // True if it was given before CLOCK_MONOTONIC reached `at_ns`. It orders no memory accesses: use atomics as well.
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

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_SEMAPHORE_H_
