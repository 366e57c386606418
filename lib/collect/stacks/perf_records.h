// SPDX-License-Identifier: Apache-2.0
//
// The records that the kernel writes for a running thread (perf_event_open(2)), and what they must hold.
#ifndef PITOT_LIB_COLLECT_STACKS_PERF_RECORDS_H_
#define PITOT_LIB_COLLECT_STACKS_PERF_RECORDS_H_

#include <linux/perf_event.h>

#include <cstdint>
#include <vector>

namespace pitot::stacks {

// A running thread as the kernel copied it.
struct Sample {
  static constexpr uint32_t kRegisters = 16;  // of x86-64, by DWARF's numbers
  static constexpr uint32_t kStackPointer = 7;
  int64_t tid = 0;
  int64_t at_ns = 0;  // CLOCK_MONOTONIC
  uint64_t registers[kRegisters] = {};
  uint64_t instruction = 0;
  std::vector<uint8_t> stack;  // from the stack pointer on; empty: the kernel could not copy it
};

// Asks for such records: of a thread in its own code, never in the kernel's, by its CPU time. Threads that it begins
// are left out.
perf_event_attr SampleAttributes();

// A ring of records: `size` bytes, a power of two. Positions in it only grow.
struct RecordRing {
  const uint8_t* bytes;
  uint64_t size;
};
// Reads the next sample from *tail on, and sets *tail behind it; false: there is none before `head`. Other records are
// left out. A record that is cut off or impossible ends the search, and *tail is `head`. Throws bad_alloc.
bool NextSample(const RecordRing& ring, uint64_t head, uint64_t* tail, Sample* sample);

}  // namespace pitot::stacks

#endif  // PITOT_LIB_COLLECT_STACKS_PERF_RECORDS_H_
