// SPDX-License-Identifier: Apache-2.0
//
// The simulator's proof of the recorder. Its events, put together, are the truth; they suffice to explain every
// nanosecond of a request; and missing ones are reported as such.
#include "simulator/simulator.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "fakes/scale.h"
#include "fakes/string_sink.h"
#include "pitot/serialize/dump.h"
#include "simulator/facts.h"
#include "simulator/reconstruct.h"
#include "simulator/world.h"

using namespace simulator;
using pitot::model::kOpen;

namespace {

constexpr uint64_t kServers = fakes::kSlower > 1 ? 60 : 300;

std::string DumpOf(const pitot::model::Trace& trace) {
  fakes::StringSink sink;
  REQUIRE(pitot::MakeDumpSerializer()->Serialize(trace, sink).ok());
  return sink.bytes;
}

std::string Describe(const std::vector<Segment>& path) {
  std::string text;
  for (const Segment& segment : path) text += ToString(segment) + "\n";
  return text;
}

// The reason for closing a batch is recorded when it ends.
std::vector<Segment> AsRecorded(std::vector<Segment> path, const std::set<uint64_t>& open_batches) {
  for (Segment& segment : path) {
    if (open_batches.count(segment.culprit.batch) != 0) segment.close = pitot::BatchClose::kUnknown;
  }
  return path;
}

// Calls check(true request, path found in the trace) for every request that ended.
template <class Check> void ForEachPath(const Run& run, Check check) {
  const std::vector<std::vector<Segment>> paths = Reconstruct(run.trace);
  std::map<uint64_t, size_t> rows;
  for (size_t row = 0; row < paths.size(); ++row) rows[run.trace.requests[row].id] = row;
  for (const TrueRequest& request : run.truth.requests) {
    if (request.end_ns != kOpen) check(request, paths[rows.at(request.id)]);
  }
}

// True if a record of the thread at that time may be missing from the trace, by the trace's own account.
bool IsLost(const pitot::model::Trace& trace, const Fact::Record& record) {
  if (record.at_ns < trace.window_begin_ns) return true;
  return std::any_of(trace.losses.begin(), trace.losses.end(), [&](const pitot::model::LossRow& loss) {
    return loss.thread != pitot::model::kNone && trace.threads[loss.thread].number == record.thread &&
           loss.begin_ns <= record.at_ns && record.at_ns <= loss.end_ns;
  });
}

// The first of the facts, for messages.
std::string First(const std::vector<Fact>& facts) { return facts.empty() ? "" : facts[0].text; }

// Checks that everything in the trace is true, and that missing facts are reported as lost.
void CheckHonesty(const Run& run) {
  REQUIRE(FindInconsistency(run.trace) == "");
  const std::vector<Fact> truth = Facts(run.truth), trace = Facts(run.trace);
  REQUIRE(First(Missing(trace, truth)) == "");
  for (const Fact& fact : Missing(truth, trace)) {
    INFO(fact.text);
    REQUIRE(std::any_of(fact.records.begin(), fact.records.end(), [&](auto& r) { return IsLost(run.trace, r); }));
  }
  REQUIRE(First(Missing(Contexts(run.trace), PossibleContexts(run.truth))) == "");
}

// Threads that accept, wake up in 10 ns, and serve two requests of one route.
ServerSpec SmallServer(uint32_t threads, const std::vector<Step>& steps) {
  ServerSpec server;
  server.requests = 2;
  server.mean_interval_ns = 100;
  server.wake_up = {10, 0};
  server.pools.resize(1);
  server.pools[0].name = "http";
  server.pools[0].threads = threads;
  server.pools[0].queue.name = "accept";
  server.routes.resize(1);
  server.routes[0].name = "/classify";
  server.routes[0].steps = steps;
  return server;
}

}  // namespace

TEST_CASE("the same server leaves the same bytes, and another one others", "[simulator]") {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const std::string once = DumpOf(Simulate(RandomServer(seed)).trace);
    const std::string again = DumpOf(Simulate(RandomServer(seed)).trace);
    const std::string other = DumpOf(Simulate(RandomServer(seed + 100)).trace);

    REQUIRE((once == again));
    REQUIRE((once != other));
  }
}

TEST_CASE("the trace holds exactly the true facts on hundreds of random servers", "[simulator]") {
  for (uint64_t seed = 0; seed < kServers; ++seed) {
    const Run run = Simulate(RandomServer(seed));

    INFO("seed " << seed);
    REQUIRE(FindInconsistency(run.trace) == "");
    REQUIRE(run.trace.losses.empty());
    REQUIRE(Difference(Facts(run.truth), Facts(run.trace)) == "");
    REQUIRE(Difference(Contexts(run.truth), Contexts(run.trace)) == "");
  }
}

TEST_CASE("the events suffice to find the true cause of every nanosecond of a request", "[simulator]") {
  for (uint64_t seed = 0; seed < kServers; ++seed) {
    const Run run = Simulate(RandomServer(seed));
    std::set<uint64_t> open_batches;
    for (const TrueBatch& batch : run.truth.batches) {
      if (batch.end_ns == kOpen) open_batches.insert(batch.id);
    }

    INFO("seed " << seed);
    ForEachPath(run, [&](const TrueRequest& request, const std::vector<Segment>& found) {
      INFO("request " << request.id << "\ntruth\n" << Describe(request.path) << "trace\n" << Describe(found));
      int64_t at_ns = request.begin_ns;
      for (const Segment& segment : request.path) {
        REQUIRE(segment.begin_ns == at_ns);
        at_ns = segment.end_ns;
      }
      REQUIRE(at_ns == request.end_ns);
      REQUIRE((found == AsRecorded(request.path, open_batches)));
    });
  }
}

TEST_CASE("a trace from rings of 4 KiB is true, and the rest is reported as lost", "[simulator]") {
  uint64_t losses = 0;
  for (uint64_t seed = 0; seed < kServers / 2; ++seed) {
    const Run run = Simulate(RandomServer(seed), {.ring_bytes = 4096});

    INFO("seed " << seed);
    CheckHonesty(run);
    losses += run.trace.losses.size();
  }
  REQUIRE(losses > kServers / 2);
}

TEST_CASE("a trace from a snapshot reserve of 64 KiB is true, and the rest is reported as lost", "[simulator]") {
  uint64_t losses = 0;
  for (uint64_t seed = 0; seed < kServers / 6; ++seed) {
    const Run run = Simulate(RandomServer(seed), {.reserve_bytes = 64 << 10});

    INFO("seed " << seed);
    CheckHonesty(run);
    for (const pitot::model::LossRow& loss : run.trace.losses)
      losses += loss.reason == pitot::model::LossReason::kReserve;
  }
  REQUIRE(losses > kServers / 6);
}

TEST_CASE("a surviving part of a lost request belongs to a request of the trace", "[simulator]") {
  struct Programs {
    static Task<> Serve(World* world, Thread* self, pitot::Request* request) {
      *request = pitot::Request::Begin("/classify");
      co_await world->Delay(self, 100);
      request->Finish(pitot::Outcome::kOk);
      for (int i = 0; i < 1000; ++i) {
        PITOT_SCOPE("later");
        co_await world->Delay(self, 10);
      }
    }
    static Task<> CallOther(World* world, Thread* self, const pitot::Request* request) {
      co_await world->Delay(self, 50);
      const auto call = PITOT_ASYNC_SCOPE("call", request->token());
      co_await world->Delay(self, 10);
    }
  };
  pitot::Request request;
  Thread server, caller;
  World world({.ring_bytes = 4096}, 1);
  world.Start(&server, "server", Programs::Serve(&world, &server, &request));
  world.Start(&caller, "caller", Programs::CallOther(&world, &caller, &request));
  world.RunUntil(kForever);

  const pitot::model::Trace trace = world.TakeTrace();

  REQUIRE(FindInconsistency(trace) == "");
  REQUIRE(trace.asyncs.size() == 1);
  REQUIRE(trace.requests.size() == 1);
  REQUIRE_FALSE(trace.requests[0].begin_known);
}

TEST_CASE("a request taken and handed on in the nanosecond of its enqueueing has each handoff once", "[simulator]") {
  struct Programs {
    static Task<> Serve(World* world, Thread* self) {
      auto request = pitot::Request::Begin("/classify");
      const pitot::Token first = request.Enqueue("second alphabetically");
      const pitot::Adopt taken(first);
      const pitot::Token second = request.Enqueue("first alphabetically");
      co_await world->Delay(self, 10);
      const pitot::Adopt taken_again(second);
    }
  };
  Thread server;
  World world({}, 1);
  world.Start(&server, "server", Programs::Serve(&world, &server));
  world.RunUntil(kForever);

  const pitot::model::Trace trace = world.TakeTrace();

  REQUIRE(trace.handoffs.size() == 2);
  REQUIRE(trace.strings[trace.handoffs[0].queue] == "second alphabetically");
  REQUIRE(trace.handoffs[0].take_ns == trace.handoffs[0].enqueue_ns);
  REQUIRE(trace.strings[trace.handoffs[1].queue] == "first alphabetically");
  REQUIRE(trace.handoffs[1].take_ns == trace.handoffs[1].enqueue_ns + 10);
}

TEST_CASE("parts enqueued in one nanosecond are still there if they were not taken", "[simulator]") {
  struct Programs {
    static Task<> Serve(World* world, Thread* self, pitot::Request* request) {
      *request = pitot::Request::Begin("/classify");
      const pitot::Token parts[] = {request->Enqueue("parts"), request->Enqueue("parts"), request->Enqueue("parts")};
      co_await world->Delay(self, 10);
      const pitot::Adopt taken(parts[0]);
    }
  };
  pitot::Request request;
  Thread server;
  World world({}, 1);
  world.Start(&server, "server", Programs::Serve(&world, &server, &request));
  world.RunUntil(kForever);

  const pitot::model::Trace trace = world.TakeTrace();

  REQUIRE(trace.handoffs.size() == 3);
  REQUIRE(std::count_if(trace.handoffs.begin(), trace.handoffs.end(), [](auto& h) { return h.take_ns == 0; }) == 2);
}

TEST_CASE("a short window holds exactly its own records", "[simulator]") {
  for (uint64_t seed = 0; seed < kServers / 6; ++seed) {
    const Run run = Simulate(RandomServer(seed), {.window_ns = 2'000'000});

    INFO("seed " << seed);
    CheckHonesty(run);
    REQUIRE(run.trace.losses.empty());
  }
}

TEST_CASE("random servers meet every cause, outcome and end of a batch", "[simulator]") {
  std::set<Cause> causes;
  std::set<pitot::Outcome> outcomes;
  std::set<pitot::BatchClose> closes;
  uint64_t by_request = 0, by_batch = 0, by_itself = 0, lock_changes = 0, room_waits = 0, open_requests = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Run run = Simulate(RandomServer(seed));
    for (const TrueRequest& request : run.truth.requests) {
      open_requests += request.end_ns == kOpen;
      if (request.end_ns != kOpen) outcomes.insert(request.outcome);
      for (size_t i = 0; i < request.path.size(); ++i) {
        const Segment& segment = request.path[i];
        causes.insert(segment.cause);
        if (segment.cause == Cause::kQueueWait)
          ++(segment.culprit.batch != 0 ? by_batch : segment.culprit.request != 0 ? by_request : by_itself);
        lock_changes += i > 0 && segment.cause == Cause::kLockWait && request.path[i - 1].cause == Cause::kLockWait;
      }
    }
    for (const TrueBatch& batch : run.truth.batches) closes.insert(batch.close);
    for (const TrueEvent& event : run.truth.events) room_waits += event.wait == pitot::WaitKind::kCondition;
  }

  CHECK(causes.size() == 7);
  CHECK(outcomes.size() == 6);
  CHECK(closes.size() == 4);  // full, timeout, step; unknown while open
  for (const uint64_t count : {by_request, by_batch, by_itself, lock_changes, room_waits, open_requests})
    CHECK(count > 10);
}

TEST_CASE("a wait for a lock names each holder in turn", "[simulator]") {
  const Step locked = Step::Lock(0, {Step::Compute("look up", {10'000, 0})});
  ServerSpec server = SmallServer(3, {Step::Compute("read", {1'000, 0}), locked});
  server.requests = 3;
  server.locks = {"cache"};

  const Run run = Simulate(server);

  const std::vector<TrueRequest>& requests = run.truth.requests;
  REQUIRE(requests.size() == 3);
  std::vector<std::string> causes;
  ForEachPath(run, [&](const TrueRequest& request, const std::vector<Segment>& found) {
    REQUIRE((found == request.path));
    if (request.id != requests[2].id) return;
    REQUIRE(found.size() == 5);  // woken, read, behind the first, behind the second, look up
    REQUIRE((found[2].cause == Cause::kLockWait));
    REQUIRE(found[2].culprit.request == requests[0].id);
    REQUIRE((found[3].cause == Cause::kLockWait));
    REQUIRE(found[3].culprit.request == requests[1].id);
    REQUIRE(found[3].end_ns - found[3].begin_ns == 10'000);
  });
}

TEST_CASE("a thread that got a lock still has to wake up", "[simulator]") {
  const Step locked = Step::Lock(0, {Step::Compute("look up", {10'000, 0})});
  ServerSpec server = SmallServer(2, {Step::Compute("read", {1'000, 0}), locked});
  server.locks = {"cache"};
  server.lock_wake_up = {500, 0};

  const Run run = Simulate(server);

  ForEachPath(run, [&](const TrueRequest& request, const std::vector<Segment>& found) {
    REQUIRE((found == request.path));
    if (request.id == run.truth.requests[0].id) return;
    const Segment &wait = found[2], &wake_up = found[3];
    REQUIRE((wait.cause == Cause::kLockWait));
    REQUIRE(wait.culprit.request == run.truth.requests[0].id);
    REQUIRE((wake_up.cause == Cause::kHandoff));
    REQUIRE(wake_up.end_ns - wake_up.begin_ns == 500);
  });
}

TEST_CASE("a request behind another's batch waits for that batch, then for its own to fill", "[simulator]") {
  ServerSpec server = SmallServer(2, {Step::Compute("read", {1'000, 0}), Step::InferAndWait(0)});
  Model model;
  model.name = "resnet50";
  model.queue.name = "images";
  model.max_batch = 4;
  model.max_delay_ns = 2'000;
  model.steps = {Step::Compute("forward", {50'000, 0})};
  model.scatter = {100, 0};
  server.models = {model};
  server.mean_interval_ns = 20'000;

  const Run run = Simulate(server);

  REQUIRE(run.truth.batches.size() == 2);
  ForEachPath(run, [&](const TrueRequest& request, const std::vector<Segment>& found) {
    REQUIRE((found == request.path));
    if (request.id == run.truth.requests[0].id) return;
    std::string causes;
    for (const Segment& segment : found) causes += std::string(CauseName(segment.cause)) + " " + segment.name + "; ";
    REQUIRE(causes ==
            "handoff accept; on_cpu read; queue_wait images; batch_window images; on_cpu forward; on_cpu scatter; "
            "handoff result; ");
    REQUIRE(found[2].culprit.batch == run.truth.batches[0].id);
    REQUIRE(found[3].culprit.batch == run.truth.batches[1].id);
    REQUIRE((found[3].close == pitot::BatchClose::kTimeout));
    REQUIRE(found[3].end_ns - found[3].begin_ns == 2'000);
    REQUIRE(found[6].end_ns - found[6].begin_ns == 10);
  });
}
