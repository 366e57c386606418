// SPDX-License-Identifier: Apache-2.0
//
// Measures in rounds. A round runs the reference and the case one after the other, in alternating order, in thread CPU
// time. The result is the median over the rounds of each round's own ratio, so that a neighbour that slows the machine
// for a while slows both. Each measurement is one Google Benchmark, with the rounds as its iterations, and one row of
// the table printed last.
#ifndef PITOT_BENCHMARKS_ROUNDS_H_
#define PITOT_BENCHMARKS_ROUNDS_H_

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pitot::benchmarks {

// CPU time of the calling thread, ns.
double ThreadCpuNs();

// True if PITOT_BENCHMARK_QUICK=1: the run only shows that everything works, without meaningful times.
bool IsQuick();
// `count`, or a thousandth of it in a quick run (at least 1).
uint64_t Scaled(uint64_t count);

// Returns the cost of `count` operations, ns of CPU each.
using Loop = std::function<double(uint64_t count)>;

// A loop over `body`, kept apart so that the compiler cannot mix the two loops of a comparison.
template <class Body> [[gnu::noinline]] double TimeLoop(uint64_t count, Body& body) {
  const double begin_ns = ThreadCpuNs();
  for (uint64_t i = 0; i < count; ++i) {
    body(i);
    asm volatile("" ::: "memory");
  }
  return (ThreadCpuNs() - begin_ns) / static_cast<double>(count);
}

struct Summary {
  double q1 = 0, median = 0, q3 = 0;
};
Summary Summarize(std::vector<double> values);

// A measurement's result. `reach` is the value to stay at or below, 0 for none.
struct Row {
  std::string name;
  const char* unit = "x";  // "x" for ratios
  double reach = 0;
  Summary value;
};

// Collects a measurement's rounds and reports them.
class Rounds {
 public:
  Rounds(benchmark::State& state, const char* name, const char* unit, double reach)
      : state_(state), name_(name), unit_(unit), reach_(reach) {}
  // Runs `loop` and `reference` in each round, `count` operations each, and takes the ratio.
  void Compare(uint64_t count, const Loop& reference, const Loop& loop);
  // The same, but takes the difference, ns.
  void Subtract(uint64_t count, const Loop& reference, const Loop& loop);
  // Runs `loop` alone in each round and takes its cost, ns.
  void Measure(uint64_t count, const Loop& loop);
  // Adds one round's value of something else; `seconds` is its time in Google Benchmark's output.
  void Add(double value, double seconds);
  // After the state's loop: counters and the table's row.
  void Report();

 private:
  void CompareBy(uint64_t count, const Loop& reference, const Loop& loop, double (*join)(double, double));
  benchmark::State& state_;
  const char* name_;
  const char* unit_;
  double reach_;
  std::vector<double> values_, cost_ns_, reference_ns_;
};

// Registers a measurement: `run` gets the state and measures in `rounds` rounds.
void Register(const char* name, int rounds, void (*run)(benchmark::State& state, Rounds& rounds), const char* unit,
              double reach);

// A benchmark program: runs the benchmarks of `register_all`, selected by --benchmark_filter. Standard output is Google
// Benchmark's alone, in any of its formats; the table goes to standard error. Returns the exit status.
int Run(int argc, char** argv, void (*register_all)());

}  // namespace pitot::benchmarks

#endif  // PITOT_BENCHMARKS_ROUNDS_H_
