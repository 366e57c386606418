// SPDX-License-Identifier: Apache-2.0
//
// The stated savings of a cause against the actual ones: the simulator plays the server with the cause and without.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "pitot/analyze/verdict.h"
#include "simulator/simulator.h"

namespace pitot::test {

using namespace analyze;
using simulator::Step;
using simulator::Time;

namespace {

constexpr int64_t kUs = 1'000, kMs = 1'000 * kUs;

// One request at a time; they differ only in their arrival.
simulator::ServerSpec Server(std::vector<Step> steps, int64_t forward_ns) {
  simulator::ServerSpec spec;
  spec.requests = 100;
  spec.mean_interval_ns = 2'000 * kMs;
  spec.wake_up = {2 * kUs, 0};
  spec.streams = 1;
  simulator::Pool http;
  http.name = http.queue.name = "http";
  spec.pools = {http};
  simulator::Model model;
  model.name = model.queue.name = "resnet50";
  model.steps = {Step::Compute("forward", {forward_ns, 0})};
  spec.models = {model};
  simulator::Route route;
  route.name = "/classify";
  route.steps = std::move(steps);
  spec.routes = {route};
  return spec;
}

struct Played {
  explicit Played(const simulator::ServerSpec& spec) : run(Simulate(spec)) {
    REQUIRE(BlameIndex::Make(run.trace, {}, &index).ok());
  }
  RequestBlame Blame(uint32_t row) const {
    RequestBlame blame;
    REQUIRE(FindBlame(index, row, &blame).ok());
    return blame;
  }
  simulator::Run run;
  BlameIndex index;
};

}  // namespace

TEST_CASE("a cause saves what the simulator saves without it", "[verdict]") {
  const auto steps = [](int64_t kernel_ns, int64_t meanwhile_ns, int kind) {
    const Step code = Step::Compute("meanwhile", {meanwhile_ns, 0});
    const Step first = Step::Compute("decode", {kMs, 0}), last = Step::Compute("respond", {kMs, 0});
    const Time sync{8 * kUs, 0}, api{20 * kUs, 0};
    switch (kind) {
      case 0:  // waits once
        return std::vector<Step>{first, Step::InferAndWait(0, {code}), last};
      case 1:  // and for a disk before
        return std::vector<Step>{first, Step::InferAndWait(0, {code, Step::Io("disk", {2 * kMs, 0}), code}), last};
      case 2:  // twice
        return std::vector<Step>{first, Step::InferAndWait(0, {code}), Step::InferAndWait(0, {code}), last};
      default:  // for a GPU
        return std::vector<Step>{first, Step::Launch(0, "conv", {kernel_ns, 0}, api), code, Step::Sync(0, sync), last};
    }
  };
  for (int kind = 0; kind < 4; ++kind) {
    for (const int64_t meanwhile_ns : {kMs, 5 * kMs, 12 * kMs}) {
      const Played normal(Server(steps(3 * kMs, meanwhile_ns, kind), 3 * kMs));
      const Played slow(Server(steps(15 * kMs, meanwhile_ns, kind), 15 * kMs));
      Baseline baseline;
      for (uint32_t row = 0; row < normal.run.trace.requests.size(); ++row) {
        const RequestBlame blame = normal.Blame(row);
        REQUIRE(baseline.Add("/classify", 0, {0, blame.blame, WorkOf(normal.index, blame)}).ok());
      }
      const RequestBlame blame = slow.Blame(50);
      Verdict verdict;
      REQUIRE(FindVerdict(slow.index, blame, baseline, 0, {}, &verdict).ok());
      INFO("kind " << kind << ", meanwhile " << meanwhile_ns << "\n" << VerdictText(slow.index, blame, verdict));

      const int64_t saved_ns = verdict.latency_ns - normal.Blame(50).blame.Total();
      if (verdict.kind == VerdictKind::kNotUnusual) {
        CHECK(saved_ns < 200 * kUs);
        continue;
      }
      REQUIRE_FALSE(verdict.causes.empty());
      CHECK(std::llabs(verdict.joint_saving_ns - saved_ns) < 200 * kUs);
    }
  }
}

}  // namespace pitot::test
