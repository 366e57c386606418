// SPDX-License-Identifier: Apache-2.0
//
// The CUPTI collector and its environment: MakeCuptiCollector passes the system's, tests pass their own.
#ifndef PITOT_LIB_COLLECT_CUPTI_COLLECTOR_H_
#define PITOT_LIB_COLLECT_CUPTI_COLLECTOR_H_

#include <cstdint>
#include <memory>

#include "collect/cupti/clock_pairs.h"
#include "collect/cupti/control.h"
#include "collect/cupti/records.h"
#include "pitot/collect/cupti.h"

namespace pitot::cupti {

struct Environment {
  Control::Surroundings surroundings;
  // Without a buffer for this long while work is put on GPUs, somebody else took the buffers. Without a call for this
  // long for any of that work, calls must be recorded in another way.
  int64_t silence_ns = 3'000'000'000;
  // Length of a look at the calls before kernels are first recorded, and the time between two looks.
  int64_t look_ns = 100'000'000, between_looks_ns = 400'000'000;
  // Start's patience: CUPTI may have to wake every GPU. Keep's patience with a round of the thread: 10 MB take half of
  // it. Patience with everything else. Real time, ns.
  int64_t start_patience_ns = 30'000'000'000;
  int64_t keep_patience_ns = 250'000'000;
  int64_t patience_ns = 2'000'000'000;
  ClockPair (*read_clocks)() noexcept = ReadClockPair;
  // Called with each buffer's records once they are in the history, to measure their age; null: nobody. Thread:
  // "pitot-cupti".
  void (*on_records)(const GpuRecord* records, size_t count) noexcept = nullptr;
};

// Makes the collector. Throws bad_alloc.
std::unique_ptr<Collector> MakeCollector(const CuptiOptions& options, const Environment& environment);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_COLLECTOR_H_
