// SPDX-License-Identifier: Apache-2.0
//
// Allocations that fail when the process first uses a GPU.
#include <atomic>
#include <catch2/catch.hpp>
#include <vector>

#include "collect/counters/rig.h"
#include "fakes/failing_allocations.h"

using namespace fakes;

namespace {

constexpr uint64_t kRingBytes = 64 * 4321;  // nothing else has this size

}  // namespace

TEST_CASE("a GPU without memory for its samples is tried again each round, and incidents say why it has none",
          "[counters]") {
  Rig rig;
  rig.options.memory_bytes = kRingBytes;
  g_refused_bytes = kRingBytes;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(2 * kSecond));
  CounterTrace trace = rig.AskBack(kSecond);
  CHECK(trace.attributes["counters.no_gpu"].empty());
  CHECK(trace.NotRecorded() == "there was no memory for its samples; it is tried again every 0.5 s");
  CHECK(trace.samples.empty());
  CHECK(rig.collector->HeldBytes() == 0);
  CHECK(rig.Seen(&FakePm::calls) == 0);

  g_refused_bytes = 0;
  REQUIRE(rig.timer->Pass(counters::kRoundNs));
  REQUIRE(rig.timer->Pass(kSecond));
  trace = rig.AskBack(500 * kMs);
  CHECK(trace.NotRecorded().empty());
  CHECK_FALSE(trace.Of("SM active").empty());
  CHECK(rig.collector->HeldBytes() == kRingBytes);
}

TEST_CASE("a second GPU without memory for its samples does not end those of the first", "[counters]") {
  Rig rig;
  rig.options.memory_bytes = kRingBytes;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  g_refused_bytes = kRingBytes;
  rig.Script([&](FakePm&) { rig.gpus.push_back({1, "NVIDIA H100"}); });
  REQUIRE(rig.timer->Pass(5 * kSecond));
  CounterTrace trace = rig.AskBack(kSecond);
  CHECK_FALSE(trace.Of("SM active", 0).empty());
  CHECK(trace.NotRecorded(0).empty());
  CHECK(trace.NotRecorded(1) == "there was no memory for its samples; it is tried again every 0.5 s");

  g_refused_bytes = 0;
  REQUIRE(rig.timer->Pass(2 * kSecond));
  trace = rig.AskBack(kSecond);
  CHECK_FALSE(trace.Of("SM active", 0).empty());
  CHECK_FALSE(trace.Of("SM active", 1).empty());
  CHECK(trace.NotRecorded(1).empty());
}

TEST_CASE("a GPU is sampled although any one allocation failed when it was found", "[counters]") {
  int failures = 0;
  for (bool fails = true; fails; failures += fails) {
    INFO("allocation " << failures);
    std::atomic<int> rounds{0};
    std::atomic<bool> has_failed{false};
    Rig rig;
    rig.environment.find_gpus = [&] {
      std::vector<counters::Gpu> gpus = rig.gpus;
      const int round = rounds++;
      rig.Script([](FakePm& fake) { fake.until_failure = &t_until_failure; });
      if (round == 1) has_failed = t_until_failure < 0;
      t_until_failure = round == 0 ? failures : -1;
      return gpus;
    };
    REQUIRE(rig.Start().ok());
    REQUIRE(rig.timer->Pass(counters::kRetryNs + 2 * kSecond));
    fails = has_failed;
    const CounterTrace trace = rig.AskBack(kSecond);
    CHECK(trace.NotRecorded() == "");
    CHECK_FALSE(trace.Of("SM active").empty());
  }
  CHECK(failures >= 3);
}
