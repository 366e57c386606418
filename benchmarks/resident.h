// SPDX-License-Identifier: Apache-2.0
//
// Resident memory: of the process, and the part a thread adds to it.
#ifndef PITOT_BENCHMARKS_RESIDENT_H_
#define PITOT_BENCHMARKS_RESIDENT_H_

#include <unistd.h>

#include <barrier>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "benchmarks/rounds.h"
#include "pitot/recorder.h"
#include "pitot/trace.h"

namespace pitot::benchmarks {

inline double ResidentBytes() {
  unsigned long size = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%lu %lu", &size, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// The bytes of resident memory that each of 64 threads adds by `work` after `begin`. Their rings are full, and each has
// done `work` before. Needs a running `recorder` with rings of 64 KiB.
template <class Work, class Begin> void AddPerThread(benchmark::State& state, Rounds& rounds, const Recorder& recorder,
                                                     const Begin& begin, const Work& work) {
  constexpr int kThreads = 64;
  constexpr int kScopes = 20'000;  // more than a ring holds
  for (auto _ : state) {
    std::barrier<> gate(kThreads + 1);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int scope = 0; scope < kScopes; ++scope) {
          PITOT_SCOPE("scope");
          asm volatile("" ::: "memory");
        }
        work();
        gate.arrive_and_wait();
        gate.arrive_and_wait();
        work();
        gate.arrive_and_wait();
        gate.arrive_and_wait();
      });
    }
    gate.arrive_and_wait();
    begin();
    const double before = ResidentBytes(), counted = static_cast<double>(recorder.Stats().collector_bytes);
    const double begin_ns = ThreadCpuNs();
    gate.arrive_and_wait();
    gate.arrive_and_wait();
    const double growth = ResidentBytes() - before;
    const Stats stats = recorder.Stats();
    gate.arrive_and_wait();
    for (std::thread& thread : threads) thread.join();
    rounds.Add(growth / kThreads, (ThreadCpuNs() - begin_ns) * 1e-9);
    state.counters["counted_bytes"] = (static_cast<double>(stats.collector_bytes) - counted) / kThreads;
    state.counters["threads_refused"] = static_cast<double>(stats.threads_refused);
  }
}

}  // namespace pitot::benchmarks

#endif  // PITOT_BENCHMARKS_RESIDENT_H_
