// SPDX-License-Identifier: Apache-2.0
//
// The recorded depth and its cost, losses, and incidents, from C++ to C.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "convert.h"

namespace {

bool IsKnown(const pitot_overhead& overhead, double percent) {
  return overhead.is_known == 1 && overhead.reserved == 0 && overhead.percent == percent &&
         overhead.low_percent == percent - 1 && overhead.high_percent == percent + 2;
}

bool IsUnknown(const pitot_overhead& overhead) {
  return overhead.is_known == 0 && overhead.percent == 0 && overhead.low_percent == 0 && overhead.high_percent == 0;
}

}  // namespace

TEST_CASE("C gets the depth and the cost of each depth", "[bindings]") {
  const auto known = [](double percent) { return pitot::Overhead{true, percent, percent - 1, percent + 2}; };
  pitot::Stats stats{};
  stats.depth.depth = pitot::Depth::kGraphs;
  std::strcpy(stats.depth.state, "holding graphs; measuring kernels");
  stats.depth.cost = known(10);
  stats.depth.mean[1] = known(11);
  stats.depth.mean[3] = known(13);
  stats.depth.p99[1] = known(21);
  stats.depth.p99[2] = known(22);
  for (size_t i = 0; i < 4; ++i) stats.depth.works[i] = 100 + i;
  stats.depth.armed_percent = 0.25;
  stats.depth.works_lost = 7;

  const pitot_stats of_c = pitot::c::ToC(stats);

  CHECK(of_c.depth == PITOT_DEPTH_GRAPHS);
  CHECK(of_c.reserved == 0);
  CHECK(of_c.depth_state == std::string("holding graphs; measuring kernels"));
  CHECK(IsKnown(of_c.depth_cost, 10));
  CHECK(IsUnknown(of_c.depth_mean[0]));
  CHECK(IsKnown(of_c.depth_mean[1], 11));
  CHECK(IsUnknown(of_c.depth_mean[2]));
  CHECK(IsKnown(of_c.depth_mean[3], 13));
  CHECK(IsUnknown(of_c.depth_p99[0]));
  CHECK(IsKnown(of_c.depth_p99[1], 21));
  CHECK(IsKnown(of_c.depth_p99[2], 22));
  CHECK(IsUnknown(of_c.depth_p99[3]));
  for (size_t i = 0; i < 4; ++i) CHECK(of_c.depth_works[i] == 100 + i);
  CHECK(of_c.depth_armed_percent == 0.25);
  CHECK(of_c.depth_works_lost == 7);
}

TEST_CASE("C gets health", "[bindings]") {
  pitot::Health health;
  health.state = pitot::HealthState::kStalled;
  health.requests_open = 1;
  health.requests_waiting = 2;
  health.request = 3;
  health.open_ms = 4;
  health.quiet_ms = 5;
  std::strcpy(health.route, "/r");
  std::strcpy(health.stage, "s");
  std::strcpy(health.text, "t");
  const pitot_health of_c = pitot::c::ToC(health);
  CHECK(of_c.state == PITOT_HEALTH_STALLED);
  CHECK(of_c.requests_open == 1);
  CHECK(of_c.requests_waiting == 2);
  CHECK(of_c.request == 3);
  CHECK(of_c.open_ms == 4);
  CHECK(of_c.quiet_ms == 5);
  CHECK(of_c.route == std::string("/r"));
  CHECK(of_c.stage == std::string("s"));
  CHECK(of_c.text == std::string("t"));
}

TEST_CASE("C gets the number of folded incidents, and what became of verdicts", "[bindings]") {
  pitot::Stats stats{};
  stats.incidents_folded = 1;
  stats.verdicts_given = 2;
  stats.verdicts_failed = 3;
  stats.verdicts_displaced = 4;
  stats.verdicts_cut_off = 5;
  stats.verdicts_stopped = 6;
  stats.findings_added = 7;
  stats.findings_left_out = 8;
  stats.samples_learned = 9;
  stats.samples_failed = 10;

  const pitot_stats of_c = pitot::c::ToC(stats);

  const uint64_t got[] = {of_c.incidents_folded, of_c.verdicts_given,   of_c.verdicts_failed, of_c.verdicts_displaced,
                          of_c.verdicts_cut_off, of_c.verdicts_stopped, of_c.findings_added,  of_c.findings_left_out,
                          of_c.samples_learned,  of_c.samples_failed};
  for (uint64_t i = 0; i < 10; ++i) CHECK(got[i] == i + 1);
}

TEST_CASE("C gets an incident with its verdict, and how often it was there before", "[bindings]") {
  pitot::IncidentInfo info{};
  info.number = 7;
  info.cause = "latency /classify";
  info.detail = "71 ms";
  info.directory = "/incidents/7";
  info.slow_requests = 3;
  info.first_request = 99;
  info.status = pitot::Status(pitot::StatusCode::kIoError, "no report");
  info.verdict = "Request 63";
  info.again = 22;

  const pitot_incident of_c = pitot::c::ToC(info);

  CHECK(of_c.size == sizeof of_c);
  CHECK((of_c.status == PITOT_IO_ERROR && of_c.message == std::string("no report")));
  CHECK((of_c.cause == info.cause && of_c.detail == info.detail && of_c.directory == info.directory));
  CHECK((of_c.number == 7 && of_c.slow_requests == 3 && of_c.first_request == 99));
  CHECK(of_c.verdict == info.verdict);
  CHECK(of_c.again == 22);
}
