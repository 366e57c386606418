// SPDX-License-Identifier: Apache-2.0
//
// The simulator, and what it proves: that the recorder's events, put together, are what happened, and that they suffice to
// say what every nanosecond of a request was spent on.
#include "simulator/simulator.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "pitot/extend/serializer.h"
#include "pitot/serialize/dump.h"
#include "simulator/facts.h"
#include "simulator/reconstruct.h"

using namespace simulator;

namespace {

constexpr uint64_t kServers = 3000;

std::string Describe(const std::vector<Segment>& path) {
  std::string text;
  for (const Segment& segment : path) text += ToString(segment) + "\n";
  return text;
}

}  // namespace

TEST_CASE("of hundreds of random servers the trace holds exactly what happened", "[simulator]") {
  for (uint64_t seed = 0; seed < kServers; ++seed) {
    const Run run = Simulate(RandomServer(seed));

    INFO("seed " << seed);
    REQUIRE(FindInconsistency(run.trace) == "");
    REQUIRE(run.trace.losses.empty());
    REQUIRE(Difference(Facts(run.truth), Facts(run.trace)) == "");
    REQUIRE(Difference(Contexts(run.truth), Contexts(run.trace)) == "");
  }
}

TEST_CASE("the truth tiles every finished request exactly", "[simulator]") {
  for (uint64_t seed = 0; seed < kServers; ++seed) {
    const Run run = Simulate(RandomServer(seed));

    INFO("seed " << seed);
    for (const TrueRequest& request : run.truth.requests) {
      if (request.end_ns == pitot::model::kOpen) continue;
      int64_t at_ns = request.begin_ns;
      INFO(Describe(request.path));
      for (const Segment& segment : request.path) {
        REQUIRE(segment.begin_ns == at_ns);
        REQUIRE(segment.end_ns > at_ns);
        at_ns = segment.end_ns;
      }
      REQUIRE(at_ns == request.end_ns);
    }
  }
}

TEST_CASE("the events suffice to find the true cause of every nanosecond", "[simulator]") {
  for (uint64_t seed = 0; seed < kServers; ++seed) {
    const Run run = Simulate(RandomServer(seed));
    const std::vector<std::vector<Segment>> paths = Reconstruct(run.trace);
    std::map<uint64_t, const TrueRequest*> truth;
    for (const TrueRequest& request : run.truth.requests) truth[request.id] = &request;

    INFO("seed " << seed);
    for (size_t row = 0; row < paths.size(); ++row) {
      const TrueRequest& request = *truth.at(run.trace.requests[row].id);
      if (request.end_ns == pitot::model::kOpen) continue;
      INFO("request " << request.id << "\ntruth\n" << Describe(request.path) << "trace\n" << Describe(paths[row]));
      REQUIRE((paths[row] == request.path));
    }
  }
}
