// SPDX-License-Identifier: Apache-2.0
#include "pitot/read/join.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"
#include "serialize/sample_trace.h"

using pitot::JoinTraces;
using pitot::Status;
using pitot::StatusCode;
using pitot::TracePart;
using pitot::model::kNone;
using pitot::model::Trace;
using pitot::test::RandomTrace;
using pitot::test::SampleTrace;
using pitot::test::TraceMaker;

namespace {

constexpr int64_t kDateNs = 1'700'000'000'000'000'000;

// A trace with one request at a time of its own clock, which is at `origin_ns` of Unix time when it is 0.
Trace OneRequest(int64_t begin_ns, int64_t origin_ns, uint64_t id = 7) {
  TraceMaker maker;
  maker.trace.window_begin_ns = begin_ns;
  maker.trace.window_end_ns = begin_ns + 1000;
  maker.Request(id, "/r", begin_ns, 5);
  Trace trace = maker.Finish();
  trace.clock.monotonic_ns = begin_ns + 1000;
  trace.clock.realtime_ns = origin_ns + begin_ns + 1000;
  trace.clock.boottime_ns = 0;
  return trace;
}

Trace Joined(std::vector<TracePart> parts) {
  Trace joined;
  const Status status = JoinTraces(&parts, &joined);
  INFO(status.message());
  REQUIRE(status.ok());
  REQUIRE(FindInconsistency(joined) == "");
  return joined;
}

}  // namespace

TEST_CASE("traces of two machines are joined by their dates", "[join]") {
  const Trace joined = Joined({{"a", OneRequest(5'000, kDateNs)}, {"b", OneRequest(900'000, kDateNs - 890'000, 8)}});

  REQUIRE(joined.requests.size() == 2);
  CHECK(joined.requests[0].id == 7);
  CHECK(joined.requests[0].begin_ns == 5'000);
  CHECK(joined.requests[1].begin_ns == 10'000);
  CHECK(joined.window_begin_ns == 5'000);
  CHECK(joined.window_end_ns == 11'000);
  CHECK(joined.clock.realtime_ns - joined.clock.monotonic_ns == kDateNs);
}

TEST_CASE("traces of one machine are joined by its monotonic clock, whatever was done to the date", "[join]") {
  Trace a = OneRequest(5'000, kDateNs), b = OneRequest(6'000, kDateNs + 400'000'000, 8);
  a.clock.boottime_ns = a.clock.monotonic_ns;
  b.clock.boottime_ns = b.clock.monotonic_ns;

  CHECK(Joined({{"a", a}, {"b", b}}).requests[1].begin_ns == 6'000);
  b.attributes.push_back({b.strings.Add("host"), b.strings.Add("another")});
  CHECK(Joined({{"a", a}, {"b", b}}).requests[1].begin_ns == 400'006'000);
}

TEST_CASE("a trace that began before the first one's clock moves all", "[join]") {
  const Trace joined = Joined({{"a", OneRequest(5'000, kDateNs)}, {"b", OneRequest(5'000, kDateNs - 50'000, 8)}});

  CHECK(joined.requests[0].id == 8);
  CHECK(joined.requests[0].begin_ns == 1);
  CHECK(joined.requests[1].begin_ns == 50'001);
}

TEST_CASE("a request's id that is taken is replaced, also where a firing names it", "[join]") {
  Trace second = OneRequest(6'000, kDateNs);
  second.firings.push_back({6'005, 7, second.strings.Add("late"), 0});

  const Trace joined = Joined({{"a", OneRequest(5'000, kDateNs)}, {"b", std::move(second)}});

  CHECK(joined.requests[0].id == 7);
  CHECK(joined.requests[1].id != 7);
  REQUIRE(joined.firings.size() == 1);
  CHECK(joined.firings[0].request_id == joined.requests[1].id);
  CHECK(joined.strings[joined.firings[0].cause] == "late");
}

TEST_CASE("every table of both traces is there, and threads say whose they are", "[join]") {
  const Trace a = SampleTrace();
  for (uint32_t seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    Trace b = RandomTrace(seed, 20 + 20 * seed);
    b.clock = a.clock;

    const Trace joined = Joined({{"rank0", a}, {"rank1", b}});

    CHECK(joined.requests.size() == a.requests.size() + b.requests.size());
    CHECK(joined.batches.size() == a.batches.size() + b.batches.size());
    CHECK(joined.members.size() == a.members.size() + b.members.size());
    CHECK(joined.handoffs.size() == a.handoffs.size() + b.handoffs.size());
    CHECK(joined.events.size() == a.events.size() + b.events.size());
    CHECK(joined.calls.size() == a.calls.size() + b.calls.size());
    CHECK(joined.gpu.size() == a.gpu.size() + b.gpu.size());
    CHECK(joined.samples.size() == a.samples.size() + b.samples.size());
    CHECK(joined.losses.size() == a.losses.size() + b.losses.size());
    REQUIRE(joined.threads.size() == a.threads.size() + b.threads.size());
    for (uint32_t i = 0; i < b.threads.size(); ++i) {
      const auto& thread = joined.threads[a.threads.size() + i];
      const std::string own(b.strings[b.threads[i].name]);
      CHECK(joined.strings[thread.name] == (own.empty() ? "rank1" : "rank1: " + own));
      for (uint32_t k = 0; k < thread.event_count; ++k)
        CHECK(joined.EventName(thread.first_event + k) == b.EventName(b.threads[i].first_event + k));
    }
    for (uint32_t i = 0; i < b.gpu.size(); ++i)
      CHECK(joined.strings[joined.gpu.name[a.gpu.size() + i]] == b.strings[b.gpu.name[i]]);
  }
}

TEST_CASE("a trace without a date, or from another time, is named and not joined", "[join]") {
  Trace joined;
  std::vector<TracePart> parts = {{"a", OneRequest(5'000, kDateNs)}, {"b", OneRequest(5'000, kDateNs)}};
  parts[1].trace.clock.realtime_ns = 0;
  const Status undated = JoinTraces(&parts, &joined);
  CHECK(undated.code() == StatusCode::kInvalidArgument);
  CHECK(std::string(undated.message()).find("b has no date") == 0);
  CHECK(joined.requests.empty());

  std::vector<TracePart> none;
  CHECK(JoinTraces(&none, &joined).code() == StatusCode::kInvalidArgument);
}
