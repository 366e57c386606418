// SPDX-License-Identifier: Apache-2.0
#include "simulator/slow.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace simulator;

namespace {

constexpr int64_t kMs = 1'000'000;

// One stream, a kernel of 1 ms a request, and a thread that computes 1 ms before it.
ServerSpec Small() {
  ServerSpec spec;
  spec.requests = 40;
  spec.mean_interval_ns = 10 * kMs;
  spec.streams = 1;
  spec.pools.resize(1);
  spec.pools[0].name = spec.pools[0].queue.name = "http";
  spec.routes.resize(1);
  spec.routes[0].name = "/classify";
  spec.routes[0].steps = {
      Step::Compute("decode", {kMs, 0}, {Step::Launch(0, "gemm", {kMs, 0}, {20'000, 0}), Step::Sync(0, {5'000, 0})})};
  return spec;
}

int64_t Longest(const pitot::model::Trace& trace) {
  return *std::max_element(trace.gpu.duration_ns.begin(), trace.gpu.duration_ns.end());
}

}  // namespace

TEST_CASE("work takes longer by its lost time, wherever it begins", "[simulator]") {
  const std::vector<Slow> slows = {{100, 200, 0.5}, {300, 400, 0.25}};
  CHECK(EndOfWork(0, 100, slows) == 100);
  CHECK(EndOfWork(0, 110, slows) == 120);
  CHECK(EndOfWork(100, 50, slows) == 200);
  CHECK(EndOfWork(150, 50, slows) == 225);
  CHECK(EndOfWork(0, 275, slows) == 400);  // 100 + 50 + 100 + 25
  CHECK(EndOfWork(500, 7, slows) == 507);
  for (int64_t begin_ns = 0; begin_ns < 420; begin_ns += 7) {
    const int64_t end_ns = EndOfWork(begin_ns, 60, slows);
    CHECK(std::llabs(end_ns - begin_ns - 60 - LostNs(begin_ns, end_ns, slows)) <= 2);  // rounded at each edge
  }
  CHECK(LostNs(0, 1000, {}) == 0);
}

TEST_CASE("a low clock stretches kernels, and is recorded ten times a second", "[simulator]") {
  ServerSpec spec = Small();
  const Run usual = Simulate(spec);
  CHECK(usual.trace.counters.empty());
  spec.slow_clocks = {{100 * kMs, 300 * kMs, 0.5}};

  const Run low = Simulate(spec);

  REQUIRE(FindInconsistency(low.trace) == "");
  CHECK(Longest(usual.trace) == kMs);
  CHECK(Longest(low.trace) == 2 * kMs);
  REQUIRE(low.trace.counters.size() == 2);
  CHECK(low.trace.strings[low.trace.counters[0].name] == "GPU 0 (simulated): SM clock");
  CHECK(std::count(low.trace.samples.value.begin(), low.trace.samples.value.end(), 990) == 1);
}

TEST_CASE("code is longer by its run-queue delay if others take CPUs", "[simulator]") {
  ServerSpec spec = Small();
  spec.taken_cpus = {{0, 1000 * kMs, 0.5}};

  const Run run = Simulate(spec);

  REQUIRE(FindInconsistency(run.trace) == "");
  REQUIRE(run.trace.counters.size() == 2);  // of the one thread
  const pitot::model::SampleColumns& samples = run.trace.samples;
  const auto last = [&](uint32_t counter) {
    double value = 0;
    for (uint32_t i = 0; i < samples.size(); ++i) value = samples.counter[i] == counter ? samples.value[i] : value;
    return value;
  };
  CHECK(last(0) == Approx(40 * (kMs + 20'000)));
  CHECK(last(1) == Approx(40 * kMs).epsilon(0.01));
}
