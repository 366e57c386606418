// SPDX-License-Identifier: Apache-2.0
//
// Stretches of time in which something runs slower: the length of work then, and the lost part of a time.
#ifndef PITOT_TEST_SIMULATOR_SLOW_H_
#define PITOT_TEST_SIMULATOR_SLOW_H_

#include <cstdint>
#include <vector>

#include "simulator/simulator.h"

namespace simulator {

// When work of `work_ns` (at full speed) from `begin_ns` on is done. `slows` are in order, without overlaps.
int64_t EndOfWork(int64_t begin_ns, int64_t work_ns, const std::vector<Slow>& slows);
// How much of the time from `begin_ns` to `end_ns` would not have been needed at full speed.
int64_t LostNs(int64_t begin_ns, int64_t end_ns, const std::vector<Slow>& slows);

// Adds pitot::nvml's records of a GPU with that clock: its SM clock, and its temperature as the reason that held it.
// They are as of every 100 ms, written at changes and once a second.
void AddClock(const std::vector<Slow>& slows, int64_t begin_ns, int64_t end_ns, pitot::model::Trace* trace);

// A thread's CPU time so far, at a moment.
struct CpuReading {
  uint32_t thread = 0;  // Pitot's number
  int64_t at_ns = 0;
  int64_t on_cpu_ns = 0;
  int64_t delay_ns = 0;  // it was runnable, and others ran
};
// Adds pitot::host's records of these, and gives each thread a number of its own in the operating system.
void AddCpuReadings(std::vector<CpuReading> readings, pitot::model::Trace* trace);

}  // namespace simulator

#endif  // PITOT_TEST_SIMULATOR_SLOW_H_
