// SPDX-License-Identifier: Apache-2.0
//
// When Pitot's threads may rest, and how work wakes them.
#include "trace/rest.h"

#include <catch2/catch.hpp>
#include <optional>

#include "fakes/observer.h"
#include "fakes/recording.h"
#include "pitot/request.h"
#include "trace/requests.h"

namespace {

using pitot::Batch;
using pitot::Request;
using pitot::trace::Rest;

constexpr int64_t kQuiet = Rest::kQuietNs;

// Rests from `*now_ns` + kQuiet on, if nothing is open.
bool FallAsleep(Rest* rest, int64_t* now_ns) {
  rest->May(*now_ns);
  return rest->May(*now_ns += kQuiet);
}

}  // namespace

TEST_CASE("a thread may rest once nothing has begun or been open for a second", "[rest]") {
  const fakes::Recording recording;
  Rest rest;
  CHECK_FALSE(rest.May(0));
  CHECK_FALSE(rest.May(kQuiet - 1));
  CHECK(rest.May(kQuiet));

  std::optional<Request> request = Request::Begin("/a");
  CHECK_FALSE(rest.May(5 * kQuiet));
  CHECK_FALSE(rest.May(9 * kQuiet));
  request.reset();
  CHECK_FALSE(rest.May(10 * kQuiet - 1));
  CHECK(rest.May(10 * kQuiet));

  { const Batch batch = Batch::Begin("executor"); }  // between two looks
  CHECK_FALSE(rest.May(20 * kQuiet));
  CHECK(rest.May(21 * kQuiet));
}

TEST_CASE("the recorder is told of the first work after a rest, and of no other", "[rest]") {
  const fakes::Recording recording;
  const fakes::Observer told;
  Rest rest, other;
  int64_t now_ns = 0;
  { const Request request = Request::Begin("/a"); }  // ends what a test before may have left
  const int before = told.works();

  REQUIRE(FallAsleep(&rest, &now_ns));
  REQUIRE(FallAsleep(&other, &now_ns));
  for (int i = 0; i < 100; ++i) {
    const Request request = Request::Begin("/a");
  }
  CHECK(told.works() == before + 1);

  REQUIRE(FallAsleep(&rest, &now_ns));
  const Batch batch = Batch::Begin("executor");
  { const Request request = Request::Begin("/a"); }
  CHECK(told.works() == before + 2);
}

TEST_CASE("a request of another process ends a rest", "[rest]") {
  const fakes::Recording recording;
  const fakes::Observer told;
  Request request = Request::Begin("/a");
  pitot::Token foreign = request.token();
  foreign.process ^= 0x1234;
  request.Finish(pitot::Outcome::kOk);
  Rest rest;
  int64_t now_ns = 0;
  REQUIRE(FallAsleep(&rest, &now_ns));
  const int before = told.works();

  { const pitot::Adopt adopt(foreign); }

  CHECK(told.works() == before + 1);
  CHECK_FALSE(rest.May(now_ns));
}

TEST_CASE("threads are woken as long as they are there", "[rest]") {
  int first_woken = 0, second_woken = 0;
  const auto count = [](void* context) { ++*static_cast<int*>(context); };
  std::optional<Rest> first(std::in_place, count, &first_woken);
  {
    const Rest second(count, &second_woken);
    pitot::trace::WakeResting();
  }
  pitot::trace::WakeResting();
  first.reset();
  pitot::trace::WakeResting();

  CHECK(first_woken == 2);
  CHECK(second_woken == 1);
}
