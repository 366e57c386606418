// SPDX-License-Identifier: Apache-2.0
//
// The faults themselves: ways in which real servers become slow, one function or class each.
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
// Has another thread burn CPU and waits for it, unrecorded. Returns how much.
uint64_t HopUnrecorded(uint64_t ns);

// A lock of all requests. Some hold it for long.
class HeldLock {
 public:
  explicit HeldLock(const char* name) : name_(name), mutex_(name) {}

  // Takes and releases the lock for `request`; sleeps in between where fault `kind` strikes. Logs holders and waiters.
  void Pass(FaultSchedule* faults, size_t kind, uint64_t request);

 private:
  const std::string name_;
  pitot::Mutex mutex_;
  // Guarded by mutex_: the last holder on purpose, and when it released the lock.
  uint64_t holder_ = 0;
  uint64_t held_until_ns_ = 0;
};

// Threads burning CPU next to the server, one group at a time.
class Spinners {
 public:
  Spinners() = default;
  ~Spinners();
  Spinners(const Spinners&) = delete;
  Spinners& operator=(const Spinners&) = delete;

  // Begins where fault `kind` strikes and none spin; `request` drew it, and goes on meanwhile.
  void MayBegin(FaultSchedule* faults, size_t kind, uint64_t request);

 private:
  std::atomic<bool> is_spinning_{false};
  std::mutex mutex_;
  std::thread spinner_;
};

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_FAULT_DOSES_H_
