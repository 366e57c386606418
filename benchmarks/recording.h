// SPDX-License-Identifier: Apache-2.0
//
// A recorder for a benchmark: it starts, or the benchmark fails; and a scope, for comparison.
#ifndef PITOT_BENCHMARKS_RECORDING_H_
#define PITOT_BENCHMARKS_RECORDING_H_

#include <benchmark/benchmark.h>

#include "benchmarks/rounds.h"
#include "pitot/recorder.h"
#include "pitot/trace.h"

namespace pitot::benchmarks {

// Starts a recorder. On failure it skips the state with the reason and returns false.
inline bool StartOrSkip(benchmark::State& state, const Options& options, Recorder* recorder) {
  *recorder = Recorder::Start(options);
  const Status status = recorder->status();
  if (!status.ok()) state.SkipWithError(status.message());
  return status.ok();
}

inline bool OkOrSkip(benchmark::State& state, const Status& status) {
  if (!status.ok()) state.SkipWithError(status.message());
  return status.ok();
}

// A loop of Rounds: a scope without arguments.
inline double Scope(uint64_t count) {
  auto body = [](uint64_t) {
    PITOT_SCOPE("scope");
    asm volatile("" ::: "memory");
  };
  return TimeLoop(count, body);
}

}  // namespace pitot::benchmarks

#endif  // PITOT_BENCHMARKS_RECORDING_H_
