// SPDX-License-Identifier: Apache-2.0
//
// The proof of the walk: on random servers it agrees with the simulator's truth on every nanosecond of every request.
// PITOT_SERVERS in the environment is the number of servers.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <set>

#include "analyze/truth.h"
#include "fakes/scale.h"
#include "pitot/analyze/why.h"
#include "simulator/simulator.h"

namespace pitot::test {

using analyze::Blame;
using analyze::BlameIndex;
using analyze::BlameOptions;
using analyze::RequestBlame;
using simulator::RandomGpuServer;
using simulator::RandomServer;
using simulator::Run;
using simulator::Segment;
using simulator::Simulate;
using simulator::TrueRequest;

namespace {

uint64_t Servers() {
  const char* const many = std::getenv("PITOT_SERVERS");
  if (many != nullptr) return std::strtoull(many, nullptr, 10);
  return static_cast<uint64_t>(fakes::Scaled(1500));
}

// The reason for closing a batch is recorded when it has been submitted, otherwise when it ends.
std::vector<Segment> AsRecorded(std::vector<Segment> path, const Run& run) {
  std::set<uint64_t> open;
  for (const simulator::TrueBatch& batch : run.truth.batches) {
    if (batch.end_ns == model::kOpen && batch.submitted_ns == 0) open.insert(batch.id);
  }
  for (Segment& segment : path) {
    if (open.count(segment.culprit.batch) != 0) segment.close = BatchClose::kUnknown;
  }
  return path;
}

// Calls check(true request, its blame) for every request that ended.
template <class Check> void ForEachRequest(const Run& run, const Check& check) {
  BlameIndex index;
  REQUIRE(BlameIndex::Make(run.trace, BlameOptions(), &index).ok());
  std::map<uint64_t, uint32_t> rows;
  for (uint32_t row = 0; row < run.trace.requests.size(); ++row) rows[run.trace.requests[row].id] = row;
  for (const TrueRequest& request : run.truth.requests) {
    if (request.end_ns == model::kOpen) continue;
    RequestBlame blame;
    const Status status = FindBlame(index, rows.at(request.id), &blame);
    INFO(status.message());
    REQUIRE(status.ok());
    check(request, blame);
  }
}

// Plays servers and compares; returns the number of requests, and adds their causes.
template <class Make> uint64_t CompareServers(const Make& make, std::set<simulator::Cause>* causes) {
  uint64_t requests = 0;
  for (uint64_t seed = 0; seed < Servers(); ++seed) {
    Run run = Simulate(make(seed));
    run.trace.tokens.clear();  // prompts do not lengthen these iterations (prompts_test.cc has some that do)
    REQUIRE(FindInconsistency(run.trace) == "");

    ForEachRequest(run, [&](const TrueRequest& request, const RequestBlame& blame) {
      const std::vector<Segment> truth = AsRecorded(request.path, run), found = AsTruth(run.trace, blame);
      ++requests;
      for (const Segment& segment : truth) causes->insert(segment.cause);
      if (found == truth) return;
      FAIL("seed " << seed << " request " << request.id << "\ntruth\n"
                   << Describe(truth) << "found\n"
                   << Describe(found));
    });
  }
  if (std::getenv("PITOT_SERVERS") != nullptr) WARN(requests << " requests of " << Servers() << " servers");
  return requests;
}

}  // namespace

TEST_CASE("the walk finds the true cause of every nanosecond on thousands of random servers", "[why]") {
  std::set<simulator::Cause> causes;
  const uint64_t requests = CompareServers(RandomServer, &causes);
  CHECK(requests > 50 * Servers());
  CHECK(causes.size() == 7);
}

TEST_CASE("the walk finds the true cause of every nanosecond on thousands of random servers with GPUs", "[why]") {
  std::set<simulator::Cause> causes;
  const uint64_t requests = CompareServers(RandomGpuServer, &causes);
  CHECK(requests > 50 * Servers());
  CHECK(causes.size() == 13);
}

}  // namespace pitot::test
