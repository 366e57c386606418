// SPDX-License-Identifier: Apache-2.0
//
// The governor from tick to tick.
#include "governor/governor.h"

#include <catch2/catch.hpp>
#include <limits>
#include <memory>
#include <string>

#include "governor/simulated_server.h"

using pitot::BitOf;
using pitot::Depth;
using pitot::governor::Governor;
using pitot::governor::Report;
using simulated::kMs;
using simulated::kSecond;
using simulated::kTick;
using simulated::Load;
using simulated::Server;
using simulated::WithOverhead;

namespace {

// The budget allows any cost: a measured depth is the base, in the end the deepest of all.
std::unique_ptr<Governor> MakeGenerous(uint32_t depths) {
  auto governor = Governor::Make({.budget_percent = 100});
  governor->SetAvailable(depths);
  return governor;
}

// Serves until the base is this depth, and until a moment of a round at scopes, its reference.
void RunIntoRound(Governor* governor, Depth base, Server* server) {
  while (governor->GetReport().base != base) server->Run(governor, 1);
  while (governor->GetReport().depth != Depth::kScopes) server->Run(governor, 0.01);
}

constexpr int64_t kEarliest = std::numeric_limits<int64_t>::min(), kLatest = std::numeric_limits<int64_t>::max();

}  // namespace

TEST_CASE("everything stays unknown and at scopes without work", "[governor]") {
  const auto governor = Governor::Make({});
  for (int64_t now = 0; now < 600 * kSecond; now += kTick) REQUIRE(governor->Tick(now) == Depth::kScopes);

  const Report report = governor->GetReport();
  CHECK(std::string(report.state) == "holding scopes; no work to measure");
  CHECK(report.rounds_begun == 0);
  CHECK(report.depths[0].time_percent == Approx(100));
  for (const auto& depth : report.depths) {
    CHECK_FALSE(depth.mean.is_known);
    CHECK_FALSE(depth.p99.is_known);
  }
}

TEST_CASE("rounds stop with the work", "[governor]") {
  const auto governor = Governor::Make({});
  Server server({}, 1);
  server.Run(governor.get(), 120);
  CHECK(governor->GetReport().rounds_begun > 0);
  CHECK(std::string(governor->GetReport().state) == "holding scopes; measuring graphs");

  const int64_t now = server.now_ns();
  for (int64_t i = 0; i < 1200; ++i) governor->Tick(now + i * kTick);
  const uint64_t rounds = governor->GetReport().rounds_begun;
  for (int64_t i = 1200; i < 100000; ++i) REQUIRE(governor->Tick(now + i * kTick) == Depth::kScopes);

  CHECK(governor->GetReport().rounds_begun == rounds);
}

TEST_CASE("without work, ticks when something is due are as good as ticks every 10 ms", "[governor]") {
  const auto always = Governor::Make({}), rarely = Governor::Make({});
  Server server({}, 1), same({}, 1);
  server.Run(always.get(), 120);
  same.Run(rarely.get(), 120);
  int64_t now = server.now_ns();
  int ticks = 0;
  always->Arm(now, now + 55 * kMs), rarely->Arm(now, now + 55 * kMs);
  CHECK(rarely->DueNs() == now + 55 * kMs);
  for (int64_t i = 0; i < 6000; ++i) {
    now += kTick;
    const Depth depth = always->Tick(now);
    if (now < rarely->DueNs()) continue;
    ++ticks;
    REQUIRE(rarely->Tick(now) == depth);
  }

  CHECK(rarely->DueNs() == kLatest);
  CHECK(ticks < 100);
  const Report a = always->GetReport(), b = rarely->GetReport();
  CHECK(b.rounds_begun == a.rounds_begun);
  CHECK(b.rounds_void == a.rounds_void);
  CHECK(b.depth == a.depth);
}

TEST_CASE("arming means full depth at once, until its end, and voids the round", "[governor]") {
  const auto governor = Governor::Make({});
  Server server({}, 1);
  uint64_t voids = 0;
  for (int i = 0; i < 200; ++i) {
    server.Run(governor.get(), 1);
    const int64_t now = server.now_ns();
    REQUIRE(governor->Arm(now, now + 30 * kMs) == Depth::kOps);
    REQUIRE(governor->Tick(now + 10 * kMs) == Depth::kOps);
    if (i == 100) {
      CHECK(std::string(governor->GetReport().state) == "armed: ops");
      // A second time while it is armed: the later end counts.
      governor->Arm(now + 10 * kMs, now + 20 * kMs);
      REQUIRE(governor->Tick(now + 20 * kMs) == Depth::kOps);
    }
    REQUIRE(governor->Tick(now + 30 * kMs) == Depth::kScopes);
    voids = governor->GetReport().rounds_void;
  }

  CHECK(voids > 0);
  const Report report = governor->GetReport();
  CHECK(report.rounds_begun >= voids);
  CHECK(report.armed_percent == Approx(3).margin(1));
  CHECK(report.depths[3].time_percent >= report.armed_percent - 0.01);
}

TEST_CASE("the state says if no collector offers more than scopes, armed or not", "[governor]") {
  const auto governor = Governor::Make({});
  Server server({}, 1);
  governor->SetAvailable(0);
  server.Run(governor.get(), 10);
  const std::string idle = governor->GetReport().state;
  const int64_t now = server.now_ns();

  REQUIRE(governor->Arm(now, now + 30 * kMs) == Depth::kScopes);

  CHECK(idle == "auto, at scopes: no collector offers a deeper one now");
  CHECK(governor->GetReport().state == idle);
  governor->SetAvailable(pitot::governor::kAllDepths);
  CHECK(governor->Arm(now, now + 30 * kMs) == Depth::kOps);
  CHECK(std::string(governor->GetReport().state) == "armed: ops");
}

TEST_CASE("arming forever ends after a minute, and for no time does nothing", "[governor]") {
  const auto governor = Governor::Make({});
  governor->Tick(kSecond);
  CHECK(governor->Arm(kSecond, kSecond) == Depth::kScopes);
  CHECK(governor->Arm(kSecond, 0) == Depth::kScopes);

  CHECK(governor->Arm(kSecond, kLatest) == Depth::kOps);
  CHECK(governor->Tick(60 * kSecond) == Depth::kOps);
  CHECK(governor->Tick(61 * kSecond) == Depth::kScopes);
}

TEST_CASE("absent depths are never chosen", "[governor]") {
  const auto governor = Governor::Make({});
  Load load;
  load.sigma = 0.05;
  Server server(load, 1);
  governor->SetAvailable(BitOf(Depth::kGraphs));
  server.Run(governor.get(), 900);

  Report report = governor->GetReport();
  CHECK(report.base == Depth::kGraphs);
  CHECK(std::string(report.state) == "holding graphs");
  CHECK(report.depths[2].time_percent == 0);
  CHECK(report.depths[3].time_percent == 0);
  CHECK(governor->Arm(server.now_ns(), server.now_ns() + kMs) == Depth::kGraphs);

  governor->SetAvailable(0);
  CHECK(governor->Tick(server.now_ns() + kTick) == Depth::kScopes);
  report = governor->GetReport();
  CHECK(report.base == Depth::kScopes);
  CHECK(std::string(report.steps[report.step_count - 1].reason) == "no longer available");
}

TEST_CASE("measurements of a depth are forgotten when it comes to record more", "[governor]") {
  constexpr uint32_t kOpsOnly = BitOf(Depth::kOps), kKernels = BitOf(Depth::kGraphs) | BitOf(Depth::kKernels);
  const auto governor = Governor::Make({});
  Load load;
  load.sigma = 0.05;
  Server server(load, 1);
  governor->SetAvailable(kOpsOnly);
  server.Run(governor.get(), 900);
  REQUIRE(governor->GetReport().base == Depth::kOps);
  REQUIRE(governor->GetReport().depths[3].mean.is_known);

  governor->SetAvailable(kOpsOnly | kKernels);

  CHECK(governor->Tick(server.now_ns() + kTick) == Depth::kScopes);
  const Report report = governor->GetReport();
  CHECK_FALSE(report.depths[3].mean.is_known);
  CHECK(std::string(report.steps[report.step_count - 1].reason) == "not measured as it is now");
}

TEST_CASE("measurements of a depth that goes and comes back unchanged are kept", "[governor]") {
  const auto governor = MakeGenerous(pitot::governor::kAllDepths);
  Server server({}, 1);
  server.Run(governor.get(), 900);
  REQUIRE(governor->GetReport().depths[2].mean.is_known);

  governor->SetAvailable(0);
  governor->Tick(server.now_ns() + kTick);
  governor->SetAvailable(pitot::governor::kAllDepths);
  governor->Tick(server.now_ns() + 2 * kTick);

  CHECK(governor->GetReport().depths[2].mean.is_known);
}

TEST_CASE("a round does not count if a depth comes to record more in it", "[governor]") {
  const auto governor = MakeGenerous(BitOf(Depth::kOps));
  Server server({}, 1);
  RunIntoRound(governor.get(), Depth::kOps, &server);
  const uint64_t voids = governor->GetReport().rounds_void;

  governor->SetAvailable(pitot::governor::kAllDepths);

  governor->Tick(server.now_ns() + kTick);
  CHECK(governor->GetReport().base == Depth::kScopes);
  CHECK(governor->GetReport().rounds_void == voids + 1);
}

TEST_CASE("a depth that goes away in the middle of a round is left at the next tick", "[governor]") {
  const auto governor = MakeGenerous(BitOf(Depth::kGraphs));
  Server server({}, 1);
  RunIntoRound(governor.get(), Depth::kGraphs, &server);
  const uint64_t voids = governor->GetReport().rounds_void;

  governor->SetAvailable(BitOf(Depth::kScopes));
  for (int64_t i = 1; i < 1000; ++i) REQUIRE(governor->Tick(server.now_ns() + i * kTick) == Depth::kScopes);
  CHECK(governor->GetReport().rounds_void == voids + 1);

  // It is unchanged: the next round that ends makes it the base again.
  governor->SetAvailable(BitOf(Depth::kGraphs));
  server.Run(governor.get(), 60);
  CHECK(governor->GetReport().base == Depth::kGraphs);
}

TEST_CASE("a base that goes away is left for a depth known to be affordable, not for the next one", "[governor]") {
  const auto governor = Governor::Make({});
  Load load = WithOverhead({}, 0.3, 0, 0);
  load.sigma = 0.05;
  Server server(load, 1);
  governor->SetAvailable(BitOf(Depth::kGraphs) | BitOf(Depth::kKernels));
  for (int i = 0; i < 4 * 3600 && governor->GetReport().base != Depth::kKernels; ++i) server.Run(governor.get(), 1);
  REQUIRE(governor->GetReport().base == Depth::kKernels);

  governor->SetAvailable(BitOf(Depth::kGraphs));

  CHECK(governor->GetReport().base == Depth::kScopes);
}

TEST_CASE("a twentieth of the time goes to comparing the base with scopes", "[governor]") {
  const auto governor = MakeGenerous(BitOf(Depth::kKernels));
  Server server(WithOverhead({}, 0, 0.2, 0), 1);
  RunIntoRound(governor.get(), Depth::kKernels, &server);
  const auto at_scopes_s = [&] {
    return governor->GetReport().depths[0].time_percent / 100 * static_cast<double>(server.now_ns() - kSecond) * 1e-9;
  };
  const double before_s = at_scopes_s();
  server.Run(governor.get(), 1200);

  const Report report = governor->GetReport();
  CHECK(at_scopes_s() - before_s == Approx(60).margin(15));
  CHECK(report.depths[1].time_percent == 0);
  REQUIRE(report.depths[2].mean.is_known);
  CHECK(report.depths[2].mean.low_percent < 20);
  CHECK(report.depths[2].mean.high_percent > 20);
}

TEST_CASE("clocks that jump, stand still or go back do no harm", "[governor]") {
  const auto governor = Governor::Make({});
  Server server({}, 1);
  server.Run(governor.get(), 120);
  const int64_t now = server.now_ns();

  for (const int64_t jump : {now - 60 * kSecond, int64_t{0}, kEarliest, now, now, now + 3600 * kSecond, kLatest, now}) {
    const Depth depth = governor->Tick(jump);
    CHECK(static_cast<uint32_t>(depth) < pitot::governor::kDepths);
    governor->Arm(jump, kLatest);
    governor->Arm(jump, kEarliest);
    governor->Note(1, jump, jump);
  }
  governor->Tick(kLatest);

  const Report report = governor->GetReport();
  for (const auto& depth : report.depths) {
    CHECK(depth.time_percent >= 0);
    CHECK(depth.time_percent <= 100);
  }
}

TEST_CASE("a late watcher voids the round", "[governor]") {
  const auto governor = MakeGenerous(BitOf(Depth::kGraphs));
  Server server({}, 1);
  RunIntoRound(governor.get(), Depth::kGraphs, &server);
  const uint64_t voids = governor->GetReport().rounds_void;

  const double rounds = governor->GetReport().depths[1].rounds;
  CHECK(governor->Tick(server.now_ns() + 10 * kSecond) == Depth::kGraphs);

  CHECK(governor->GetReport().rounds_void == voids + 1);
  CHECK(governor->GetReport().depths[1].rounds <= rounds);
}

TEST_CASE("nonsensical notes are refused and counted, notes without a duration are taken", "[governor]") {
  const auto governor = Governor::Make({});
  governor->Tick(kSecond);
  governor->Note(1, kSecond, kSecond - 1);
  governor->Note(1, 2 * kSecond, 3 * kSecond);
  governor->Note(1, 0, kLatest);
  governor->Note(1, kEarliest, 0);
  governor->Note(1, kEarliest, kLatest);
  for (int i = 0; i < 300; ++i) governor->Note(1, kSecond, kSecond);
  governor->Tick(kSecond + kTick);

  CHECK(governor->GetReport().notes_refused == 5);
  CHECK(governor->GetReport().notes_taken == 300);
  for (int64_t now = kSecond; now < 60 * kSecond; now += kTick) {
    for (int i = 0; i < 10; ++i) governor->Note(1, now, now);
    governor->Tick(now);
  }
  CHECK(std::string(governor->GetReport().state) == "holding scopes; measuring graphs");
}

TEST_CASE("nonsensical options become the defaults", "[governor]") {
  const auto governor = Governor::Make({.budget_percent = -1, .block_ns = kEarliest});
  REQUIRE(governor != nullptr);
  Server server({}, 1);
  server.Run(governor.get(), 60);

  CHECK(std::string(governor->GetReport().state) == "holding scopes; measuring graphs");
}

TEST_CASE("the first blocks of a catastrophic depth are left early, and it is tried ever more rarely", "[governor]") {
  const auto governor = Governor::Make({});
  Server server(WithOverhead({}, 2, 2, 2), 1);
  uint64_t blocks = 0;
  Depth depth = Depth::kScopes;
  const auto run = [&] {
    for (int i = 0; i < 180'000; ++i) {
      server.Run(governor.get(), 0.01);
      const Depth now = governor->GetReport().depth;
      blocks += now == Depth::kGraphs && depth != now;
      depth = now;
    }
  };
  run();
  const double early_percent = governor->GetReport().depths[1].time_percent;
  const uint64_t early_blocks = blocks;
  run();

  const Report report = governor->GetReport();
  CHECK(std::string(report.state) == "holding scopes; over budget at graphs");
  CHECK(early_blocks > 5);
  CHECK(blocks > early_blocks);                                                  // it is still tried
  CHECK(blocks < 2 * early_blocks);                                              // more rarely
  CHECK(early_percent / 100 * 1800 < 0.16 * static_cast<double>(early_blocks));  // s, of blocks of 0.2
  CHECK(report.depths[1].time_percent < early_percent);
}
