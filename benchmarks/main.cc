// SPDX-License-Identifier: Apache-2.0
//
// Runs the benchmarks that --benchmark_filter selects and prints what was measured against what is to be reached.
// Standard output is Google Benchmark's alone, in any of its formats; the table goes to standard error.
#include <benchmark/benchmark.h>

#include <cstdio>

#include "benchmarks/register.h"
#include "benchmarks/rounds.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  pitot::benchmarks::RegisterScopes();
  pitot::benchmarks::RegisterRequests();
  pitot::benchmarks::RegisterMemory();
  pitot::benchmarks::RegisterNvtx();
  pitot::benchmarks::RegisterIncidents();
  pitot::benchmarks::RegisterGpuRecords();
  const size_t run = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  std::fputs(pitot::benchmarks::Table().c_str(), stderr);
  return run == 0 ? 1 : 0;
}
