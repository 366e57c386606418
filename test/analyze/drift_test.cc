// SPDX-License-Identifier: Apache-2.0
//
// A route that becomes slower as a whole.
#include "pitot/analyze/drift.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "analyze/unwrapped.h"

namespace pitot::test {

using analyze::BaselineRow;
using analyze::Blame;
using analyze::Drift;
using analyze::Regimes;

namespace {

constexpr int64_t kMs = 1'000'000, kMinute = 60'000 * kMs;

// One request every two seconds, with a jitter of +-20 %: mostly kernels; a fifth is code.
struct Route {
  Regimes& regimes;
  std::string name = "/classify";
  int64_t at_ns = 0;
  int number = 0;
  // Recorded at these depths in turn. Without its kernels, a request's time is the model's code.
  std::vector<Depth> depths = {Depth::kKernels};
  void Serve(int64_t minutes, double gpu_ms, double code_ms = 4) {
    for (const int64_t end_ns = at_ns + minutes * kMinute; at_ns < end_ns; at_ns += 2000 * kMs, ++number) {
      const double jitter = 0.8 + 0.4 * (number * 37 % 101) / 100;
      BaselineRow row;
      row.at_ns = at_ns;
      row.work.depth = depths[static_cast<size_t>(number) % depths.size()];
      row.work.steps = 1;
      const bool has_kernels = row.work.depth != Depth::kScopes;
      row.blame[has_kernels ? Blame::kGpuExecExpected : Blame::kHostOncpuFramework] =
          static_cast<int64_t>(gpu_ms * jitter * kMs);
      row.blame[Blame::kHostOncpuPre] = static_cast<int64_t>(code_ms * jitter * kMs);
      REQUIRE(regimes.Add(name, 18, row).ok());
    }
  }
};

}  // namespace

TEST_CASE("a route with slower kernels drifts, and the text says how much and since when", "[drift]") {
  Regimes regimes;
  Route route{regimes};
  route.Serve(20, 16);
  REQUIRE(regimes.Find().empty());
  route.Serve(10, 22);

  const std::vector<Drift> drifts = regimes.Find();

  REQUIRE(drifts.size() == 1);
  const Drift& drift = drifts[0];
  CHECK(drift.route == "/classify");
  CHECK(drift.before_ns == Approx(20 * kMs).epsilon(0.02));
  CHECK(drift.after_ns == Approx(26 * kMs).epsilon(0.02));
  CHECK(drift.since_ns == 20 * kMinute);
  const std::string text = pitot::test::Unwrapped(DriftText(drift, route.at_ns));
  CHECK(text.find("drift /classify (sizes from 131072) as a whole is slower: typically 2") == 0);
  CHECK(text.find("for 10 minutes") != std::string::npos);
  CHECK(text.find(" ms more in GPU work (gpu_exec_expected)") != std::string::npos);
  CHECK(text.find("host_oncpu_pre") == std::string::npos);
}

TEST_CASE("a drift compares GPUs' times at one depth, and folds them if there is none", "[drift]") {
  constexpr Depth kS = Depth::kScopes, kK = Depth::kKernels;
  using Depths = std::vector<Depth>;
  const auto [before, after, is_coarse] = GENERATE(table<Depths, Depths, bool>({
      {{kK}, {kS}, true},                                          // less deep since then
      {{kK, kS, Depth::kGraphs}, {kK, kS, Depth::kGraphs}, true},  // no depth has most
      {{kK, kS, kK, kK}, {kK, kK, kK, kS, kK}, false},             // most at one depth
      {{kK, kS, kK, kK}, {kS, kS, kS, kK, kS}, true},              // most at another one
      {{Depth::kOps}, {kK}, false},                                // the same knowledge of GPUs
  }));
  Regimes regimes;
  Route route{regimes};
  route.depths = before;
  route.Serve(20, 16);
  route.depths = after;
  route.Serve(10, 16, 10);

  REQUIRE(regimes.Find().size() == 1);
  const Drift drift = regimes.Find()[0];
  CHECK(drift.is_coarse == is_coarse);
  const std::string text = pitot::test::Unwrapped(DriftText(drift, route.at_ns));
  CHECK(text.find("(host_oncpu_pre)") != std::string::npos);
  CHECK(text.find("(host_oncpu_framework)") == std::string::npos);
  CHECK((text.find("recorded at different depths") != std::string::npos) == is_coarse);
  CHECK(drift.after[Blame::kGpuExecExpected] + drift.after[Blame::kHostOncpuFramework] ==
        Approx(16 * kMs).epsilon(0.05));
  CHECK((drift.after[Blame::kGpuExecExpected] == 0) == is_coarse);
}

TEST_CASE("a route that is as fast as before, faster, or a little slower does not drift", "[drift]") {
  Regimes regimes;
  const auto [gpu_ms, drifts] = GENERATE(table<double, size_t>({{16, 0}, {10, 0}, {17.5, 0}, {21, 1}}));
  Route route{regimes};
  route.Serve(25, 16);
  route.Serve(5, gpu_ms);

  CHECK(regimes.Find().size() == drifts);
}

TEST_CASE("a route that always went up and down does not drift", "[drift]") {
  Regimes regimes;
  Route route{regimes};
  for (int i = 0; i < 4; ++i) {
    route.Serve(5, 16);
    route.Serve(5, 24);
  }

  CHECK(regimes.Find().empty());
}

TEST_CASE("a slightly higher median is not a drift if requests of one kind differ much", "[drift]") {
  Regimes regimes({.least = 30});
  const auto serve = [&](int64_t minute, double ms) {
    for (int64_t i = 0; i < 31; ++i) {
      BaselineRow row;
      row.at_ns = minute * kMinute + i * 1000 * kMs;
      row.blame[Blame::kHostOncpuPre] = static_cast<int64_t>(ms * (0.1 + 1.8 * static_cast<double>(i) / 30) * kMs);
      REQUIRE(regimes.Add("/any", 0, row).ok());
    }
  };
  for (int64_t minute = 0; minute < 15; minute += 5) serve(minute, 20);
  serve(15, 24);
  CHECK(regimes.Find().empty());
  serve(20, 80);
  CHECK(regimes.Find().size() == 1);
}

TEST_CASE("too few periods, or too few requests in one, show no drift", "[drift]") {
  Regimes regimes;
  Route route{regimes};
  route.Serve(5, 16);
  route.Serve(5, 32);
  CHECK(regimes.Find().empty());

  Regimes few({.requests_per_period = 150, .least = 200});
  Route other{few};
  other.Serve(20, 16);
  other.Serve(10, 32);
  CHECK(few.Find().empty());
}

TEST_CASE("regimes are bounded in memory, and a silent route makes room", "[drift]") {
  Regimes regimes;
  for (int i = 0; i < 100; ++i) Route{regimes, "/" + std::to_string(i)}.Serve(150, 16);
  CHECK(regimes.memory_bytes() < 2 << 20);
  CHECK(regimes.memory_bytes() > 1 << 20);

  Regimes two({.periods = 3, .most_cells = 2});
  Route a{two, "/a"}, b{two, "/b"};
  a.Serve(5, 16);
  b.Serve(20, 16);
  Route c{two, "/c", b.at_ns};
  c.Serve(20, 16);
  c.Serve(10, 32);
  REQUIRE(two.Find().size() == 1);
  CHECK(two.Find()[0].route == "/c");
}

}  // namespace pitot::test
