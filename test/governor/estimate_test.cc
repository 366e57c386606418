// SPDX-License-Identifier: Apache-2.0
//
// Estimates against the truth of a simulated server.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "fakes/scale.h"
#include "governor/governor.h"
#include "governor/simulated_server.h"

using pitot::BitOf;
using pitot::Depth;
using pitot::governor::Estimate;
using pitot::governor::Governor;
using pitot::governor::Report;
using simulated::kMs;
using simulated::Load;
using simulated::Server;
using simulated::WithOverhead;

namespace {

struct Case {
  std::string name;
  Load load;
  double seconds = 900;
  double arms_beyond = 0;
};

// Estimates of many runs against the truth, in standard errors.
struct Score {
  int known = 0, held = 0;
  double sum = 0;

  void Add(const Estimate& estimate, double truth) {
    if (!estimate.is_known) return;
    ++known;
    held += estimate.low_percent <= truth && truth <= estimate.high_percent;
    sum += (estimate.percent - truth) / ((estimate.high_percent - estimate.low_percent) / 3.92);
  }
  // The chance of so few or fewer held intervals, at 95 % each, must be above one in a thousand.
  bool HoldsOftenEnough() const {
    double chance = 0, of_so_many = std::pow(0.95, known);  // of all held; then, of one less
    for (int missed = 0; missed <= known; ++missed) {
      if (missed >= known - held) chance += of_so_many;
      of_so_many *= 0.05 / 0.95 * (known - missed) / (missed + 1);
    }
    return chance > 0.001;
  }
  // An unbiased estimator's mean score has a standard error of 1/sqrt(n): four of them.
  bool IsUnbiased() const { return std::abs(sum / known) <= 4 / std::sqrt(known); }
};

struct Scores {
  Score mean, p99;
};

Scores Try(const Case& c, int runs, double true_mean, double true_p99) {
  Scores scores;
  for (int run = 1; run <= runs; ++run) {
    const auto governor = Governor::Make({.seed = static_cast<uint64_t>(run) * 977});
    Server server(c.load, static_cast<uint64_t>(run) * 31337);
    if (c.arms_beyond != 0) server.set_arms_beyond(c.arms_beyond, 200 * kMs);
    server.Run(governor.get(), c.seconds);
    const Report report = governor->GetReport();
    scores.mean.Add(report.depths[1].mean, true_mean);
    scores.p99.Add(report.depths[1].p99, true_p99);
  }
  return scores;
}

// The budget allows any cost of the one depth, and the cost was measured: the depth is the base.
std::unique_ptr<Governor> MakeAtGraphs(uint64_t seed, Server* server) {
  auto governor = Governor::Make({.budget_percent = 100, .seed = seed});
  governor->SetAvailable(BitOf(Depth::kGraphs));
  while (governor->GetReport().base != Depth::kGraphs) server->Run(governor.get(), 1);
  server->ForgetOverhead();
  return governor;
}

// A smaller server than usual, for speed.
Load Small() {
  Load load;
  load.executors = 2;
  load.requests_per_second = 200;
  return load;
}

}  // namespace

TEST_CASE("intervals hold the true overhead as often as claimed, whatever the server does, at the default budget",
          "[governor]") {
  std::vector<Case> cases(8);
  cases[0] = {"calm", Small()};
  cases[1] = {"drifting", Small()};
  cases[1].load.drift = 0.5;
  cases[2] = {"bursts", Small()};
  cases[2].load.burst = 4;
  cases[3] = {"heavy tails", Small()};
  cases[3].load.sigma = 1;
  cases[4] = {"switching stalls the server for 20 ms", Small()};
  cases[4].load.stall_after_switch = 1.5;
  cases[5] = {"slow works fire and arm", Small()};
  cases[5].arms_beyond = 3;
  cases[6] = {"few works", Small()};
  cases[6].load.requests_per_second = 20;
  cases[7] = {"long works", Small()};  // blocks of a second and more
  cases[7].load.batch_ms = 30;
  cases[7].load.requests_per_second = 20;
  cases[7].seconds = 3600;

  const int runs = fakes::Scaled(16);
  Scores all;
  for (const Case& c : cases) {
    for (const double overhead : {0.0, 0.03}) {
      Load load = WithOverhead(c.load, overhead, overhead, overhead);
      if (overhead != 0) load.contention = 0;  // it would enlarge the overhead
      Case with = c;
      with.load = load;
      const Scores scores = Try(with, runs, 100 * overhead, 100 * overhead);
      INFO(c.name << ", overhead " << overhead << ": " << scores.mean.held << " of " << scores.mean.known << " hold, "
                  << scores.p99.held << " of " << scores.p99.known << " on the p99; mean scores "
                  << scores.mean.sum / scores.mean.known << ", " << scores.p99.sum / scores.p99.known);
      REQUIRE(2 * scores.mean.known > runs);
      CHECK(scores.mean.IsUnbiased());
      CHECK(scores.mean.HoldsOftenEnough());
      for (auto part : {&Scores::mean, &Scores::p99}) {
        (all.*part).known += (scores.*part).known;
        (all.*part).held += (scores.*part).held;
      }
    }
  }

  INFO(all.mean.held << " of " << all.mean.known << ", " << all.p99.held << " of " << all.p99.known);
  CHECK(all.mean.HoldsOftenEnough());
  CHECK(all.p99.HoldsOftenEnough());
}

TEST_CASE("a drift across a step of the base does not fool the estimate", "[governor]") {
  // Rounds before the step have two blocks at scopes, those after it two at the depth (Simpson's paradox).
  Load load = Small();
  load.sigma = 0.1;
  load.drift = 0.5;

  const Scores scores = Try({"", load, 900}, fakes::Scaled(20), 0, 0);

  INFO(scores.mean.sum / scores.mean.known);
  CHECK(scores.mean.IsUnbiased());
  CHECK(scores.mean.HoldsOftenEnough());
}

TEST_CASE("an overhead of a fixed time a work is found, in percent of the mean", "[governor]") {
  Load load = Small();
  load.contention = 0;
  for (auto& cost : load.cost) cost.extra_ms = &cost == load.cost ? 0 : 0.3;
  double sum = 0;
  constexpr int kRuns = 10;
  double truth = 0;
  for (uint64_t run = 1; run <= kRuns; ++run) {
    Server server(load, run);
    const auto governor = MakeAtGraphs(run, &server);
    server.Run(governor.get(), 300);
    sum += governor->GetReport().depths[1].mean.percent;
    truth += 100 * server.MeanOverhead() / 0.95;  // it is not recorded a twentieth of the time
  }

  CHECK(sum / kRuns == Approx(truth / kRuns).epsilon(0.1));
}

TEST_CASE("an overhead on the tail alone is found on the p99", "[governor]") {
  // One work in fifty takes a third longer: 0.7 % on the mean.
  Load load = Small();
  load.contention = 0;
  load.cost[1].tail_factor = 4.0 / 3;
  double truth = 0, mean = 0, p99 = 0;
  constexpr int kRuns = 5;
  for (uint64_t run = 1; run <= kRuns; ++run) {
    Server server(load, run);
    const auto governor = MakeAtGraphs(run, &server);
    server.Run(governor.get(), 1800);
    const Report report = governor->GetReport();
    REQUIRE(report.depths[1].p99.is_known);
    mean += report.depths[1].mean.percent / kRuns;
    p99 += report.depths[1].p99.percent / kRuns;
    truth += 100 * server.P99Overhead() / kRuns;
  }

  CHECK(mean == Approx(0.67).margin(0.5));
  CHECK(truth > 1.5);
  CHECK(p99 == Approx(truth).margin(1));
}
