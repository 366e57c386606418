// SPDX-License-Identifier: Apache-2.0
#include "trace/profile_runs.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "fakes/child.h"
#include "trace/process.h"

using pitot::trace::kMostProfileRuns;
using pitot::trace::ProfileRun;
using pitot::trace::ProfileRuns;
using pitot::trace::ProfileRunsWithin;

namespace {

int64_t Now() { return pitot::base::ClockNs(CLOCK_MONOTONIC); }

}  // namespace

TEST_CASE("a profile run lasts from its begin to its end, and goes on before that", "[profile_runs]") {
  const int64_t before_ns = Now();
  std::optional<ProfileRun> run(std::in_place);
  const int64_t inside_ns = Now();
  const ProfileRuns under_way = ProfileRunsWithin(before_ns, inside_ns);
  run.reset();
  const int64_t after_ns = Now();
  const ProfileRuns ended = ProfileRunsWithin(before_ns, after_ns);

  REQUIRE(under_way.count == 1);
  CHECK(under_way.runs[0].end_ns == INT64_MAX);
  REQUIRE(ended.count == 1);
  CHECK((ended.runs[0].begin_ns >= before_ns && ended.runs[0].begin_ns <= inside_ns));
  CHECK((ended.runs[0].end_ns >= inside_ns && ended.runs[0].end_ns <= after_ns));
  CHECK(ended.are_all);
}

TEST_CASE("profile runs before and after a time are not in it", "[profile_runs]") {
  { const ProfileRun before; }
  const int64_t begin_ns = Now();
  { const ProfileRun inside; }
  const int64_t end_ns = Now();
  { const ProfileRun after; }

  const ProfileRuns found = ProfileRunsWithin(begin_ns, end_ns);
  REQUIRE(found.count == 1);
  CHECK((found.runs[0].begin_ns >= begin_ns && found.runs[0].end_ns <= end_ns));
  CHECK(ProfileRunsWithin(end_ns + 1'000'000'000, end_ns + 2'000'000'000).count == 0);
}

TEST_CASE("the newest profile runs are kept, and forgotten ones within a time are told", "[profile_runs]") {
  const int64_t begin_ns = Now();
  for (uint32_t i = 0; i < kMostProfileRuns; ++i) const ProfileRun run;
  const int64_t middle_ns = Now();
  { const ProfileRun run; }

  const ProfileRuns found = ProfileRunsWithin(begin_ns, Now());
  CHECK(found.count == kMostProfileRuns);
  CHECK_FALSE(found.are_all);
  for (uint32_t i = 1; i < found.count; ++i) CHECK(found.runs[i].end_ns <= found.runs[i - 1].begin_ns);
  CHECK(ProfileRunsWithin(middle_ns, Now()).count == 1);
  CHECK(ProfileRunsWithin(middle_ns, Now()).are_all);
}

TEST_CASE("the child of a fork has no profile runs of its parent", "[profile_runs]") {
  REQUIRE(pitot::trace::WatchForks());
  const int64_t before_ns = Now();
  const ProfileRun run;
  const int result = fakes::InChild([before_ns] {
    HOLDS(ProfileRunsWithin(before_ns, Now()).count == 0);
    HOLDS(ProfileRunsWithin(before_ns, Now()).are_all);
    const ProfileRun own;
    HOLDS(ProfileRunsWithin(before_ns, Now()).count == 1);
    return 0;
  });
  CHECK(result == 0);
  CHECK(ProfileRunsWithin(before_ns, Now()).count == 1);
}
