// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/index.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "fakes/failing_allocations.h"
#include "model/flatten.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using model::kNone;
using model::kOpen;
using model::Segment;
using model::Trace;

namespace {

// The innermost scope at a moment, found among all scopes.
uint32_t Innermost(const Trace& trace, uint32_t thread, int64_t at_ns) {
  uint32_t innermost = kNone;
  const model::ThreadRow& row = trace.threads[thread];
  for (uint32_t event = row.first_event; event < row.first_event + row.event_count; ++event) {
    if (!model::IsScope(trace.sites[trace.events.site[event]].kind)) continue;
    if (trace.events.begin_ns[event] <= at_ns && at_ns < trace.EventEnd(event)) innermost = event;
  }
  return innermost;
}

std::vector<uint32_t> Rows(model::RequestIndex::Range range) { return {range.begin(), range.end()}; }

}  // namespace

TEST_CASE("a flattened thread shows the innermost scope at every moment and nothing elsewhere", "[index]") {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Trace trace = RandomTrace(seed, 4 * seed);
    const model::ThreadFlatten flatten(trace);
    for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
      const std::vector<Segment>& segments = flatten.Thread(thread);
      for (size_t i = 0; i < segments.size(); ++i) {
        REQUIRE(segments[i].begin_ns < segments[i].end_ns);
        if (i > 0) REQUIRE(segments[i - 1].end_ns <= segments[i].begin_ns);
        if (i > 0 && segments[i - 1].end_ns == segments[i].begin_ns)
          REQUIRE(segments[i - 1].event != segments[i].event);
      }
      for (int64_t at_ns = trace.window_begin_ns - 1; at_ns <= trace.window_end_ns + 1; ++at_ns) {
        const uint32_t found = flatten.Find(thread, at_ns);
        const bool is_in = found != kNone && at_ns < segments[found].end_ns;
        const uint32_t expected = Innermost(trace, thread, at_ns);
        if ((is_in ? segments[found].event : kNone) != expected) {
          FAIL("seed " << seed << " thread " << thread << " at " << at_ns);
        }
      }
    }
  }
}

TEST_CASE("a part of a flattened thread is the whole, cut", "[index]") {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Trace trace = RandomTrace(seed, 4 * seed);
    const model::ThreadFlatten flatten(trace);
    const int64_t quarter_ns = (trace.window_end_ns - trace.window_begin_ns) / 4;
    const int64_t begin_ns = trace.window_begin_ns + quarter_ns, end_ns = trace.window_end_ns - quarter_ns;
    for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
      std::vector<Segment> expected;
      for (const Segment& s : flatten.Thread(thread)) {
        const Segment cut{std::max(s.begin_ns, begin_ns), std::min(s.end_ns, end_ns), s.event};
        if (cut.begin_ns < cut.end_ns) expected.push_back(cut);
      }
      const std::vector<Segment> part = model::FlattenThread(trace, thread, begin_ns, end_ns);
      REQUIRE(part.size() == expected.size());
      for (size_t i = 0; i < part.size(); ++i) {
        REQUIRE(part[i].begin_ns == expected[i].begin_ns);
        REQUIRE(part[i].end_ns == expected[i].end_ns);
        REQUIRE(part[i].event == expected[i].event);
      }
    }
  }
}

TEST_CASE("find gives the segment at a moment, otherwise the last before it", "[index]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  const uint32_t thread = maker.Thread("t"), site = maker.Site(SiteKind::kScope, "s");
  maker.Thread("idle");
  maker.Event(thread, site, 100, 50);
  maker.Event(thread, site, 110, 10);
  maker.Event(thread, site, 300, kOpen);
  const Trace trace = maker.Finish();
  const model::ThreadFlatten flatten(trace);
  REQUIRE(flatten.Thread(thread).size() == 4);
  CHECK(flatten.Find(thread, 99) == kNone);
  CHECK(flatten.Find(thread, 100) == 0);
  CHECK(flatten.Find(thread, 110) == 1);
  CHECK(flatten.Find(thread, 120) == 2);
  CHECK(flatten.Find(thread, 200) == 2);
  CHECK(flatten.Find(thread, 5000) == 3);
  CHECK(flatten.Thread(thread)[3].end_ns == 1000);
  CHECK(flatten.Thread(1).empty());
  CHECK(flatten.Find(1, 100) == kNone);
}

TEST_CASE("the latest of scopes that do not nest is the innermost", "[index]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  const uint32_t thread = maker.Thread("t"), site = maker.Site(SiteKind::kScope, "s");
  maker.Event(thread, site, 0, 100);
  maker.Event(thread, site, 50, 100);
  const Trace trace = maker.Finish();
  const model::ThreadFlatten flatten(trace);
  const std::vector<Segment>& segments = flatten.Thread(thread);
  REQUIRE(segments.size() == 2);
  CHECK((segments[0].begin_ns == 0 && segments[0].end_ns == 50 && segments[0].event == 0));
  CHECK((segments[1].begin_ns == 50 && segments[1].end_ns == 150 && segments[1].event == 1));
}

TEST_CASE("a hundred thousand nested scopes are flattened without recursion", "[index]") {
  TraceMaker maker;
  constexpr int64_t kDepth = 100000;
  maker.trace.window_end_ns = 10 * kDepth;
  const uint32_t thread = maker.Thread("t"), site = maker.Site(SiteKind::kScope, "s");
  for (int64_t i = 0; i < kDepth; ++i) maker.Event(thread, site, i, 4 * kDepth - 2 * i);
  const Trace trace = maker.Finish();
  CHECK(model::ThreadFlatten(trace).Thread(thread).size() == 2 * kDepth - 1);
}

TEST_CASE("the segments of a thread are visited with memory for its open scopes only", "[index]") {
  TraceMaker maker;
  constexpr uint32_t kScopes = 20000;
  maker.trace.window_end_ns = 10 * kScopes;
  const uint32_t thread = maker.Thread("t"), site = maker.Site(SiteKind::kScope, "s");
  for (uint32_t i = 0; i < kScopes; ++i) {
    maker.Event(thread, site, 10 * i, 8);
    maker.Event(thread, site, 10 * i + 2, 4);
  }
  const Trace trace = maker.Finish();
  std::vector<Segment> visited;
  visited.reserve(3 * kScopes);

  fakes::g_largest_bytes = 0;
  model::VisitSegments(trace, thread, {0, 10 * kScopes}, [&](const Segment& segment) { visited.push_back(segment); });

  CHECK(fakes::g_largest_bytes <= 1024);
  REQUIRE(visited.size() == size_t{3} * kScopes);
  CHECK(visited[4].begin_ns == 12);
  CHECK(visited[4].end_ns == 16);
}

TEST_CASE("scopes that overlap in a chain are forgotten once they have ended", "[index]") {
  TraceMaker maker;
  constexpr uint32_t kScopes = 20000;
  maker.trace.window_end_ns = 10 * kScopes + 5;
  const uint32_t thread = maker.Thread("t"), site = maker.Site(SiteKind::kScope, "s");
  for (uint32_t i = 0; i < kScopes; ++i) maker.Event(thread, site, 10 * i, 15);
  const Trace trace = maker.Finish();
  int64_t ns = 0;

  fakes::g_largest_bytes = 0;
  model::VisitSegments(trace, thread, {0, 10 * kScopes + 5},
                       [&](const Segment& segment) { ns += segment.end_ns - segment.begin_ns; });

  CHECK(fakes::g_largest_bytes <= 1024);
  CHECK(ns == 10 * kScopes + 5);
}

TEST_CASE("the request index finds the rows of a request", "[index]") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Trace trace = RandomTrace(seed, 200);
    const model::RequestIndex index(trace);
    for (uint32_t row = 0; row < trace.requests.size(); ++row) {
      const model::RequestRow& request = trace.requests[row];
      std::vector<uint32_t> events, batches, handoffs, asyncs, tokens;
      for (uint32_t event = 0; event < trace.events.size(); ++event) {
        if (trace.events.request[event] == row && trace.events.begin_ns[event] <= trace.RequestEnd(request) &&
            trace.EventEnd(event) >= request.begin_ns) {
          events.push_back(event);
        }
      }
      for (const model::MemberRow& member : trace.members) {
        if (member.request == row && (batches.empty() || batches.back() != member.batch))
          batches.push_back(member.batch);
      }
      for (uint32_t i = 0; i < trace.handoffs.size(); ++i) {
        if (trace.handoffs[i].request == row) handoffs.push_back(i);
      }
      for (uint32_t i = 0; i < trace.asyncs.size(); ++i) {
        if (trace.asyncs[i].request == row) asyncs.push_back(i);
      }
      for (uint32_t i = 0; i < trace.tokens.size(); ++i) {
        if (trace.tokens[i].request == row) tokens.push_back(i);
      }
      REQUIRE(Rows(index.Events(row)) == events);
      REQUIRE(Rows(index.Batches(row)) == batches);
      REQUIRE(Rows(index.Handoffs(row)) == handoffs);
      REQUIRE(Rows(index.Asyncs(row)) == asyncs);
      REQUIRE(Rows(index.Tokens(row)) == tokens);
      REQUIRE(trace.requests[index.Row(request.id)].id == request.id);
    }
    for (uint32_t batch = 0; batch < trace.batches.size(); ++batch) {
      std::vector<uint32_t> events;
      for (uint32_t event = 0; event < trace.events.size(); ++event) {
        if (trace.events.batch[event] == batch) events.push_back(event);
      }
      REQUIRE(Rows(index.BatchEvents(batch)) == events);
    }
    CHECK(index.Row(0xdeadbeef00000000) == kNone);
  }
}

TEST_CASE("indexes of an empty trace are empty", "[index]") {
  const model::ThreadFlatten flatten{Trace()};
  const model::RequestIndex index{Trace()};
  CHECK(index.Row(1) == kNone);
}

}  // namespace pitot::test
