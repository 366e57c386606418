// SPDX-License-Identifier: Apache-2.0
//
// Resident memory beyond the budget: 64 threads that record 10 million scopes each.
#include <barrier>
#include <thread>
#include <vector>

#include "benchmarks/recording.h"
#include "benchmarks/register.h"
#include "benchmarks/resident.h"
#include "benchmarks/rounds.h"
#include "pitot/trace.h"

namespace pitot::benchmarks {
namespace {

constexpr int kThreads = 64;
constexpr uint64_t kScopesPerThread = 10'000'000;

// The threads run before the recorder starts and are still alive when memory is read, so that their own memory cancels
// out.
void Resident(benchmark::State& state, Rounds& rounds) {
  const uint64_t scopes = Scaled(kScopesPerThread);
  for (auto _ : state) {
    std::barrier<> gate(kThreads + 1);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&gate, scopes] {
        gate.arrive_and_wait();
        gate.arrive_and_wait();
        for (uint64_t scope = 0; scope < scopes; ++scope) {
          PITOT_SCOPE("scope");
          asm volatile("" ::: "memory");
        }
        gate.arrive_and_wait();
        gate.arrive_and_wait();
      });
    }
    gate.arrive_and_wait();
    const double before = ResidentBytes();
    const Options options;
    Recorder recorder;
    const bool is_running = StartOrSkip(state, options, &recorder);
    const double begin_ns = ThreadCpuNs();
    gate.arrive_and_wait();
    gate.arrive_and_wait();
    const double growth = ResidentBytes() - before, budget = static_cast<double>(options.memory_budget_bytes);
    const Stats stats = recorder.Stats();
    gate.arrive_and_wait();
    for (std::thread& thread : threads) thread.join();
    if (!is_running) return;
    rounds.Add((growth - budget) / (1 << 20), (ThreadCpuNs() - begin_ns) * 1e-9);
    state.counters["resident_growth_MiB"] = growth / (1 << 20);
    state.counters["budget_MiB"] = budget / (1 << 20);
    state.counters["rings_MiB"] = static_cast<double>(stats.ring_bytes_used) / (1 << 20);
    state.counters["beyond_rings_MiB"] = (growth - static_cast<double>(stats.ring_bytes_used)) / (1 << 20);
    state.counters["events"] = static_cast<double>(stats.events_recorded);
    state.counters["threads_refused"] = static_cast<double>(stats.threads_refused);
  }
}

}  // namespace

void RegisterMemory() { Register("resident memory beyond the budget", 1, Resident, "MiB", 8); }

}  // namespace pitot::benchmarks
