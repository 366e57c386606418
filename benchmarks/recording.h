// SPDX-License-Identifier: Apache-2.0
//
// A recorder for a benchmark: started or the benchmark fails.
#ifndef PITOT_BENCHMARKS_RECORDING_H_
#define PITOT_BENCHMARKS_RECORDING_H_

#include <benchmark/benchmark.h>

#include "pitot/recorder.h"

namespace pitot::benchmarks {

// Starts a recorder; where it does not start the state is skipped with why, and the result tells.
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

}  // namespace pitot::benchmarks

#endif  // PITOT_BENCHMARKS_RECORDING_H_
