// SPDX-License-Identifier: Apache-2.0
//
// The injected faults, as measured; one JSON object a line:
//   {"time_ns":812345678901,"request":"00000000000082f1","fault":"slow_decode_sleep","injected_ns":60071234,
//    "as":"slow_decode_sleep:rate=0.1,dose_ms=60"}
// time_ns is CLOCK_MONOTONIC when the injection began, injected_ns is measured around it; "as" is the fault as asked
// for.
#ifndef PITOT_TEST_SCOREBOARD_FAULT_LOG_H_
#define PITOT_TEST_SCOREBOARD_FAULT_LOG_H_

#include <cstdint>
#include <span>
#include <string>

#include "scoreboard/delays.h"

namespace scoreboard {

// Threads: any; a line is one write to a file opened for appending.
class FaultLog {
 public:
  // "" logs nothing. Throws std::runtime_error when the file cannot be opened.
  explicit FaultLog(const std::string& file);
  ~FaultLog();
  FaultLog(const FaultLog&) = delete;
  FaultLog& operator=(const FaultLog&) = delete;

  // `more` is appended inside the object: R"(,"role":"waiter")".
  void Write(uint64_t time_ns, uint64_t request, const char* fault, uint64_t injected_ns, const std::string& more = {});
  // These lines are not faults: they are true of a request with or without one. Delays of at least 0.1 ms, a line each:
  // "cpu_waited", "handed_over", "lock_waited", "slept", "paged"; and "queued", the wait for a thread busy with others.
  void WriteQueued(uint64_t from_ns, uint64_t until_ns, uint64_t request, std::span<const uint64_t> others);
  void WriteDelays(uint64_t time_ns, uint64_t request, const Delays& delays);
  // "batch_code", the CPU time of its batch, and "launches", the time in calls to launch kernels, "on_cpu_ns" of it on
  // a CPU.
  void WriteBatch(uint64_t time_ns, uint64_t request, const Work& work);

 private:
  int file_ = -1;
};

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_FAULT_LOG_H_
