// SPDX-License-Identifier: Apache-2.0
//
// The budget and its use, at a simulated server with a known overhead.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "fakes/scale.h"
#include "governor/governor.h"
#include "governor/simulated_server.h"

namespace governor = pitot::governor;
using pitot::Depth;
using pitot::governor::Governor;
using pitot::governor::Report;
using simulated::kSecond;
using simulated::Load;
using simulated::Server;
using simulated::WithOverhead;

namespace {

// Steps of the base after that time, among those still listed by the report.
uint32_t StepsAfter(const Report& report, int64_t at_ns) {
  return static_cast<uint32_t>(
      std::count_if(report.steps, report.steps + report.step_count, [=](auto& step) { return step.at_ns > at_ns; }));
}

Load Quiet() {
  Load load;
  load.executors = 2;
  load.sigma = 0.15;
  return load;
}

// A policy with rounds at scopes and at graphs, and a cost set by the test.
class Told {
 public:
  void Round(double overhead) {
    const Depth depths[] = {Depth::kScopes, policy_.base(), Depth::kGraphs};
    governor::Round round;
    round.Begin(now_ns_, kBlockNs, depths, policy_.base(), &lots_);
    for (bool is_over = false; !is_over;) {
      const double duration = round.depth() == Depth::kScopes ? 1 : 1 + overhead;
      for (int work = 0; work < 50; ++work) round.Take(now_ns_ + kBlockNs / 2, {true, duration, work < 3});
      now_ns_ += kBlockNs;
      is_over = round.Advance(now_ns_);
    }
    policy_.Learn(now_ns_, round);
  }
  // Seconds until the base is that depth.
  double Until(Depth base, double overhead) {
    const int64_t begin_ns = now_ns_;
    while (policy_.base() != base && now_ns_ < begin_ns + 7200 * kSecond) Round(overhead);
    REQUIRE(policy_.base() == base);
    return static_cast<double>(now_ns_ - begin_ns) / kSecond;
  }
  void Wait(int64_t ns) { now_ns_ += ns; }

 private:
  static constexpr int64_t kBlockNs = 100 * simulated::kMs;
  governor::Policy policy_{0.01};
  governor::Lots lots_{1};
  int64_t now_ns_ = kSecond;
};

}  // namespace

TEST_CASE("a depth that was left is the base again after two minutes, each time twice as late, at most an hour",
          "[governor]") {
  Told told;
  CHECK(told.Until(Depth::kGraphs, 0) < 60);
  for (const double pause_s : {120, 240, 480, 960, 1920, 3600, 3600}) {
    told.Until(Depth::kScopes, 0.5);
    CHECK(told.Until(Depth::kGraphs, 0) == Approx(pause_s).margin(1));  // though it was cheap all the time
  }
  // A base held for an hour begins anew.
  for (int round = 0; round < 400; ++round) told.Round(0), told.Wait(9 * kSecond);
  told.Until(Depth::kScopes, 0.5);
  CHECK(told.Until(Depth::kGraphs, 0) == Approx(120).margin(1));
}

TEST_CASE("recording costs at most the budget on the mean and on the p99, whatever the depths cost", "[governor]") {
  struct Truth {
    double graphs, kernels, ops;
  };
  for (const Truth truth : {Truth{0, 0, 0}, Truth{0.005, 0.005, 0.005}, Truth{0.02, 0.02, 0.02},
                            Truth{0.08, 0.08, 0.08}, Truth{0.2, 0.2, 0.2}, Truth{0.64, 0.64, 0.64},
                            Truth{0.005, 0.02, 0.08}, Truth{0, 0.08, 0.64}, Truth{0.005, 0.64, 0.64}}) {
    double mean = 0, p99 = 0;
    const int runs = fakes::Scaled(2) + 1;
    for (int run = 1; run <= runs; ++run) {
      const auto governor = Governor::Make({.seed = static_cast<uint64_t>(run)});
      Load load = WithOverhead({}, truth.graphs, truth.kernels, truth.ops);
      load.executors = 2;
      load.drift = 0.3;
      Server server(load, static_cast<uint64_t>(run));
      server.Run(governor.get(), 1200);
      mean += 100 * server.MeanOverhead() / runs;
      p99 += 100 * server.P99Overhead() / runs;
    }

    INFO(truth.graphs << " " << truth.kernels << " " << truth.ops << ": " << mean << " " << p99);
    CHECK(mean <= 1);
    CHECK(p99 <= 1);
  }
}

TEST_CASE("an overhead on the tail alone stays within the budget of the p99", "[governor]") {
  Load load = Quiet();
  for (auto& cost : load.cost) cost.tail_factor = &cost == load.cost ? 1 : 1.2;
  double p99 = 0;
  constexpr int kRuns = 3;
  for (uint64_t run = 1; run <= kRuns; ++run) {
    const auto governor = Governor::Make({.seed = run});
    Server server(load, run);
    server.Run(governor.get(), 3600);
    p99 += 100 * server.P99Overhead() / kRuns;
  }

  CHECK(p99 <= 1);
}

TEST_CASE("the deepest affordable depth is found and held", "[governor]") {
  struct Truth {
    double graphs, kernels, ops;
    Depth deepest;
  };
  for (const Truth truth : {Truth{0, 0, 0, Depth::kOps}, Truth{0.002, 0.004, 0.08, Depth::kKernels},
                            Truth{0.004, 0.04, 0.08, Depth::kGraphs}, Truth{0.04, 0.05, 0.2, Depth::kScopes}}) {
    for (uint64_t run = 1; run <= 2; ++run) {
      const auto governor = Governor::Make({.seed = run});
      Server server(WithOverhead(Quiet(), truth.graphs, truth.kernels, truth.ops), run);
      server.Run(governor.get(), 3600);
      const int64_t found_ns = server.now_ns();
      CHECK(governor->GetReport().base == truth.deepest);
      server.Run(governor.get(), 900);

      const Report report = governor->GetReport();
      INFO(report.state);
      CHECK(report.base == truth.deepest);
      CHECK(StepsAfter(report, found_ns) == 0);
    }
  }
}

TEST_CASE("steps do not oscillate if the overhead is the budget itself, or near it", "[governor]") {
  for (const double overhead : {0.008, 0.01, 0.012}) {
    const auto governor = Governor::Make({.seed = 3});
    Server server(WithOverhead(Quiet(), overhead, overhead, overhead), 3);
    server.Run(governor.get(), 3 * 3600);

    const Report report = governor->GetReport();
    INFO(overhead << ": " << report.steps_total << " steps, " << report.state << ", paid "
                  << 100 * server.MeanOverhead());
    CHECK(report.steps_total <= 3 * 4);  // an hour: two up, two down
    CHECK(server.MeanOverhead() < 0.01);
  }
}

TEST_CASE("a depth that becomes too expensive is left within minutes, with the reason", "[governor]") {
  for (const double overhead : {0.08, 0.3}) {
    const auto governor = Governor::Make({});
    Server server(WithOverhead(Quiet(), 0.002, 0.1, 0.1), 1);
    server.Run(governor.get(), 1800);
    REQUIRE(governor->GetReport().base == Depth::kGraphs);
    server.set_costs(WithOverhead({}, overhead, overhead, overhead));
    server.ForgetOverhead();
    const int64_t changed_ns = server.now_ns();
    while (governor->GetReport().base != Depth::kScopes && server.now_ns() < changed_ns + 600 * kSecond)
      server.Run(governor.get(), 1);

    const Report report = governor->GetReport();
    INFO(overhead << ": after " << static_cast<double>(server.now_ns() - changed_ns) * 1e-9 << " s");
    REQUIRE(report.base == Depth::kScopes);
    CHECK(std::string(report.steps[report.step_count - 1].reason).find("over the budget") != std::string::npos);
    CHECK(server.now_ns() - changed_ns < 300 * kSecond);
  }
}

TEST_CASE("a depth that becomes affordable is found", "[governor]") {
  const auto governor = Governor::Make({});
  Server server(WithOverhead(Quiet(), 0.2, 0.2, 0.2), 1);
  server.Run(governor.get(), 1800);
  CHECK(std::string(governor->GetReport().state) == "holding scopes; over budget at graphs");
  server.set_costs(WithOverhead({}, 0, 0.2, 0.2));
  server.Run(governor.get(), 4 * 3600);

  CHECK(governor->GetReport().base == Depth::kGraphs);
}

TEST_CASE("often armed servers still learn a depth's cost, and spend less on it", "[governor]") {
  double time_percent[2] = {};
  for (const bool is_armed : {false, true}) {
    const auto governor = Governor::Make({});
    Server server(WithOverhead({}, 0.03, 0.03, 0.03), 1);
    if (is_armed) server.set_arms_beyond(2.6, 100 * simulated::kMs);
    server.Run(governor.get(), 300);
    time_percent[is_armed] = governor->GetReport().depths[1].time_percent;
    if (!is_armed) continue;

    CHECK(governor->GetReport().armed_percent > 2);
    CHECK(governor->GetReport().rounds_void > 0);
    server.Run(governor.get(), 1500);
    CHECK(governor->GetReport().depths[1].mean.is_known);
  }

  CHECK(time_percent[true] < time_percent[false]);
}

TEST_CASE("the report has the present cost of recording, or unknown", "[governor]") {
  const auto none = Governor::Make({}), generous = Governor::Make({.budget_percent = 100});
  none->SetAvailable(0);  // scopes only: nothing was compared
  Server idle(Quiet(), 1);
  idle.Run(none.get(), 60);
  CHECK_FALSE(none->GetReport().cost.is_known);
  generous->SetAvailable(pitot::BitOf(Depth::kGraphs));
  Server first(WithOverhead(Quiet(), 0.1, 0.1, 0.1), 1);
  first.Run(generous.get(), 5);
  CHECK_FALSE(generous->GetReport().cost.is_known);
  first.Run(generous.get(), 3600);
  REQUIRE(generous->GetReport().base == Depth::kGraphs);

  const pitot::governor::Estimate cost = generous->GetReport().cost;
  REQUIRE(cost.is_known);
  CHECK(cost.percent == Approx(9.5).margin(1));
  CHECK(cost.low_percent < 9.5);
  CHECK(cost.high_percent > 9.5);
}

TEST_CASE("the reported sample is the present basis of the estimate, not everything ever measured", "[governor]") {
  const auto governor = Governor::Make({});
  Server server(WithOverhead(Quiet(), 0.002, 0.1, 0.1), 1);
  server.Run(governor.get(), 1800);
  const auto before = governor->GetReport().depths[1];
  REQUIRE(before.rounds > 100);
  CHECK(before.works / before.rounds == Approx(30).margin(20));

  SECTION("it has only later measurements once a change was noticed") {
    server.set_costs(WithOverhead({}, 0.3, 0.3, 0.3));
    server.Run(governor.get(), 300);
    REQUIRE(governor->GetReport().depths[1].mean.low_percent > 1);
    CHECK(governor->GetReport().depths[1].rounds < 0.8 * before.rounds);
    CHECK(governor->GetReport().depths[1].works < 0.8 * before.works);
  }
  SECTION("it is empty once a depth came to record more") {
    REQUIRE(governor->GetReport().depths[3].works > 0);
    governor->SetAvailable(pitot::BitOf(Depth::kGraphs) | pitot::BitOf(Depth::kOps));
    CHECK(governor->GetReport().depths[3].works == 0);
    CHECK(governor->GetReport().depths[1].works == before.works);  // graphs are unchanged
  }
  SECTION("it is small after hours without work") {
    governor->Tick(server.now_ns() + 5 * 3600 * kSecond);
    CHECK(governor->GetReport().depths[1].works < 0.2 * before.works);
  }
}

TEST_CASE("the report's shares of time add up, and steps are listed in order", "[governor]") {
  const auto governor = Governor::Make({});
  Server server(Quiet(), 1);
  server.Run(governor.get(), 3600);

  const Report report = governor->GetReport();
  double total = 0;
  for (const auto& depth : report.depths) total += depth.time_percent;
  CHECK(total == Approx(100));
  REQUIRE(report.step_count >= 2);
  for (uint32_t i = 1; i < report.step_count; ++i) {
    CHECK(report.steps[i].at_ns > report.steps[i - 1].at_ns);
    CHECK(report.steps[i].from == report.steps[i - 1].to);
  }
  CHECK(report.depths[1].works > report.depths[1].rounds);
  CHECK(report.notes_taken == server.works());
  CHECK(report.notes_lost == 0);
}
