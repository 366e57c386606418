// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/rounds.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace pitot::benchmarks {
namespace {

std::vector<Row>& Rows() {
  static std::vector<Row> rows;
  return rows;
}

double Quantile(const std::vector<double>& sorted, double quantile) {
  const double at = quantile * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// For people.
std::string Table() {
  if (Rows().empty()) return "";
  std::string table;
  char line[256];
  std::snprintf(line, sizeof line, "%-44s %10s  %-21s %8s  %s\n", "what", "median", "[q1, q3]", "reach", "met?");
  table += line;
  for (const Row& row : Rows()) {
    char reach[32] = "", quartiles[64];
    const char* met = "";
    std::snprintf(quartiles, sizeof quartiles, "[%.3g, %.3g]", row.value.q1, row.value.q3);
    if (row.reach != 0) {
      std::snprintf(reach, sizeof reach, "%.3g", row.reach);
      // Where the median misses but a quarter of the rounds did not, the machine may be to blame.
      met = row.value.median <= row.reach ? "met" : row.value.q1 <= row.reach ? "NOT met (within noise)" : "NOT met";
    }
    std::snprintf(line, sizeof line, "%-44s %7.3g %-2s  %-21s %8s  %s\n", row.name.c_str(), row.value.median, row.unit,
                  quartiles, reach, met);
    table += line;
  }
  if (IsQuick()) table += "PITOT_BENCHMARK_QUICK=1: too few rounds to mean anything\n";
  return table;
}

}  // namespace

double ThreadCpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

bool IsQuick() {
  static const bool is_quick = [] {
    const char* value = getenv("PITOT_BENCHMARK_QUICK");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  return is_quick;
}

uint64_t Scaled(uint64_t count) { return IsQuick() ? std::max<uint64_t>(1, count / 1000) : count; }

Summary Summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {Quantile(values, 0.25), Quantile(values, 0.5), Quantile(values, 0.75)};
}

void Rounds::CompareBy(uint64_t count, const Loop& reference, const Loop& loop, double (*join)(double, double)) {
  count = Scaled(count);
  // Attaches the thread, faults pages in, and warms caches for both.
  reference(std::min<uint64_t>(count, 5000));
  loop(std::min<uint64_t>(count, 5000));
  bool reference_first = true;
  for (auto _ : state_) {
    double reference_ns = 0, cost_ns = 0;
    if (reference_first) reference_ns = reference(count);
    cost_ns = loop(count);
    if (!reference_first) reference_ns = reference(count);
    reference_first = !reference_first;
    reference_ns_.push_back(reference_ns);
    cost_ns_.push_back(cost_ns);
    Add(join(cost_ns, reference_ns), cost_ns * 1e-9);
  }
}

void Rounds::Compare(uint64_t count, const Loop& reference, const Loop& loop) {
  CompareBy(count, reference, loop, [](double cost, double of_reference) { return cost / of_reference; });
}

void Rounds::Subtract(uint64_t count, const Loop& reference, const Loop& loop) {
  CompareBy(count, reference, loop, [](double cost, double of_reference) { return cost - of_reference; });
}

void Rounds::Measure(uint64_t count, const Loop& loop) {
  count = Scaled(count);
  loop(std::min<uint64_t>(count, 5000));
  for (auto _ : state_) {
    const double cost_ns = loop(count);
    Add(cost_ns, cost_ns * 1e-9);
  }
}

void Rounds::Add(double value, double seconds) {
  values_.push_back(value);
  state_.SetIterationTime(seconds);
}

void Rounds::Report() {
  if (values_.empty()) return;
  Row row;
  row.name = name_;
  row.unit = unit_;
  row.reach = reach_;
  row.value = Summarize(values_);
  state_.counters["median"] = row.value.median;
  state_.counters["q1"] = row.value.q1;
  state_.counters["q3"] = row.value.q3;
  if (reach_ != 0) state_.counters["reach"] = reach_;
  if (!reference_ns_.empty()) state_.counters["reference_ns"] = Summarize(reference_ns_).median;
  if (!cost_ns_.empty()) state_.counters["cost_ns"] = Summarize(cost_ns_).median;
  Rows().push_back(row);
}

void Register(const char* name, int rounds, void (*run)(benchmark::State& state, Rounds& rounds), const char* unit,
              double reach) {
  benchmark::RegisterBenchmark(name,
                               [name, run, unit, reach](benchmark::State& state) {
                                 Rounds measured(state, name, unit, reach);
                                 run(state, measured);
                                 measured.Report();
                               })
      ->Iterations(IsQuick() ? std::min(rounds, 2) : rounds)
      ->UseManualTime()
      ->Unit(benchmark::kNanosecond);
}

int Run(int argc, char** argv, void (*register_all)()) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  register_all();
  const size_t run = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  std::fputs(Table().c_str(), stderr);
  return run == 0 ? 1 : 0;
}

}  // namespace pitot::benchmarks
