// SPDX-License-Identifier: Apache-2.0
//
// Stretches of time in which something runs slower: how long work takes then, and how much of a time was lost.
#ifndef PITOT_TEST_SIMULATOR_SLOW_H_
#define PITOT_TEST_SIMULATOR_SLOW_H_

#include <cstdint>
#include <vector>

#include "simulator/simulator.h"

namespace simulator {

// When work of `work_ns` (at full speed) is done that begins at `begin_ns`. `slows` are in order and apart.
int64_t EndOfWork(int64_t begin_ns, int64_t work_ns, const std::vector<Slow>& slows);
// Of the time from `begin_ns` to `end_ns`, what would not have been needed at full speed.
int64_t LostNs(int64_t begin_ns, int64_t end_ns, const std::vector<Slow>& slows);

// Adds what pitot::nvml would have recorded of one GPU whose clock is that: its SM clock, and that its temperature held
// it, as they were every 100 ms, written when they changed and once a second.
void AddClock(const std::vector<Slow>& slows, int64_t begin_ns, int64_t end_ns, pitot::model::Trace* trace);

// What a thread had of its CPU so far, at a moment.
struct CpuReading {
  uint32_t thread = 0;  // Pitot's number
  int64_t at_ns = 0;
  int64_t on_cpu_ns = 0;
  int64_t delay_ns = 0;  // it was runnable, and others ran
};
// Adds what pitot::host would have recorded of these, and gives each thread a number of the operating system of its
// own.
void AddCpuReadings(std::vector<CpuReading> readings, pitot::model::Trace* trace);

}  // namespace simulator

#endif  // PITOT_TEST_SIMULATOR_SLOW_H_
