// SPDX-License-Identifier: Apache-2.0
//
// The CUPTI collector with what it gets from outside: MakeCuptiCollector gives it the system's, tests their own.
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
  // So long without a buffer while work is put on GPUs: somebody took the buffers. So long without a call that caused
  // any of it: they have to be had otherwise.
  int64_t silence_ns = 3'000'000'000;
  // At the calls, before kernels are recorded for the first time: for so long, and so long between.
  int64_t look_ns = 100'000'000, between_looks_ns = 400'000'000;
  // How long Start waits for CUPTI, which may have to wake every GPU, Keep for a round of the thread (10 MB take it
  // half of that), and what else there is; real time, ns.
  int64_t start_patience_ns = 30'000'000'000;
  int64_t keep_patience_ns = 250'000'000;
  int64_t patience_ns = 2'000'000'000;
  ClockPair (*read_clocks)() noexcept = ReadClockPair;
  // What has come into the history, buffer by buffer, for who measures how old it is then; null: nobody. Thread:
  // "pitot-cupti".
  void (*on_records)(const GpuRecord* records, size_t count) noexcept = nullptr;
};

// Throws bad_alloc.
std::unique_ptr<Collector> MakeCollector(const CuptiOptions& options, const Environment& environment);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_COLLECTOR_H_
