// SPDX-License-Identifier: Apache-2.0
//
// What faults do: the ways in which real servers become slow, one function or class each.
#ifndef PITOT_TEST_SCOREBOARD_FAULT_DOSES_H_
#define PITOT_TEST_SCOREBOARD_FAULT_DOSES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "pitot/wait.h"
#include "scoreboard/fault_schedule.h"

namespace scoreboard {

// Burns CPU until then, CLOCK_MONOTONIC. Returns how much.
uint64_t SpinUntil(uint64_t end_ns);
void SleepFor(uint64_t ns);
// Touches pages for the first time, one fault each.
void TouchColdMemory(uint64_t bytes);
// Has another thread burn CPU and waits for it, in nothing that is recorded. Returns how much.
uint64_t HopUnrecorded(uint64_t ns);

// A lock that all requests take, and some keep.
class HeldLock {
 public:
  explicit HeldLock(const char* name) : name_(name), mutex_(name) {}

  // Takes and gives back the lock for `request`; sleeps with it where fault `kind` strikes. Logs who kept it, and who
  // waited for whom.
  void Pass(FaultSchedule* faults, size_t kind, uint64_t request);

 private:
  const std::string name_;
  pitot::Mutex mutex_;
  // Guarded by mutex_: the request that last kept the lock on purpose, and until when.
  uint64_t holder_ = 0;
  uint64_t held_until_ns_ = 0;
};

// Threads that burn CPU beside the server, one group at a time.
class Spinners {
 public:
  Spinners() = default;
  ~Spinners();
  Spinners(const Spinners&) = delete;
  Spinners& operator=(const Spinners&) = delete;

  // Begins, where fault `kind` strikes and none spin; `request`, which drew it, goes on meanwhile.
  void MayBegin(FaultSchedule* faults, size_t kind, uint64_t request);

 private:
  std::atomic<bool> is_spinning_{false};
  std::mutex mutex_;
  std::thread spinner_;
};

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_FAULT_DOSES_H_
