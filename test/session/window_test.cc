// SPDX-License-Identifier: Apache-2.0
//
// The contents of one incident, and the number of incidents.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "fakes/trace_text.h"
#include "fakes/virtual_clock.h"
#include "fakes/wait_until.h"
#include "session/host.h"
#include "session/incident_budget.h"

namespace {

using fakes::EventsNamed;
using fakes::VirtualClock;
using pitot::Outcome;
using pitot::Request;
using pitot::StatusCode;
using session_test::Host;
using session_test::Rounds;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kMinute = 60'000 * kMs;

// A thread that records a megabyte a second, numbered.
struct Paced {
  explicit Paced(VirtualClock* of) : clock(of) {}
  void Run(const Rounds& rounds, int ms) {
    for (int i = 0; i < ms; ++i) {
      for (int n = 0; n < 42; ++n) PITOT_INSTANT("paced", serial++);
      clock->Advance(kMs);
      if (i % 100 == 99) REQUIRE(rounds.Pass());
    }
  }
  VirtualClock* clock;
  uint64_t serial = 0;
};

}  // namespace

TEST_CASE("an incident holds the window before its trigger and the one after it", "[window]") {
  VirtualClock clock(100'000 * kMs);
  Host host;
  host.options.pre_window_ms = 1000;
  host.options.post_window_ms = 100;
  REQUIRE(host.Start());
  const Rounds rounds(&host);
  PITOT_INSTANT("long before");
  clock.Advance(5000 * kMs);
  PITOT_INSTANT("before");
  clock.Advance(900 * kMs);
  REQUIRE(host.recorder.Trigger("now").ok());
  const auto at_ns = static_cast<int64_t>(clock.now_ns());
  REQUIRE(rounds.Pass());
  clock.Advance(50 * kMs);
  PITOT_INSTANT("after");
  CHECK(host.traces().empty());
  clock.Advance(50 * kMs);
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  const auto trace = host.traces()[0];
  CHECK(trace.window_begin_ns == at_ns - 1000 * static_cast<int64_t>(kMs));
  CHECK(trace.window_end_ns == at_ns + 100 * static_cast<int64_t>(kMs));
  CHECK(trace.firings[0].at_ns == at_ns);
  CHECK(EventsNamed(trace, "long before").empty());
  CHECK(EventsNamed(trace, "before").size() == 1);
  CHECK(EventsNamed(trace, "after").size() == 1);
}

TEST_CASE("a trigger's own windows replace the recorder's", "[window]") {
  VirtualClock clock(100'000 * kMs);
  Host host;
  host.options.post_window_ms = 60'000;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({.pre_window_ms = 200, .post_window_ms = 1})).ok());
  PITOT_INSTANT("outside");
  clock.Advance(1000 * kMs);
  Request::Begin("/r").Finish(Outcome::kFailed);
  REQUIRE(host.recorder.Flush(100).code() == StatusCode::kUnavailable);
  clock.Advance(1 * kMs);
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  CHECK(host.traces()[0].window_end_ns - host.traces()[0].window_begin_ns == 201 * static_cast<int64_t>(kMs));
  CHECK(EventsNamed(host.traces()[0], "outside").empty());
}

TEST_CASE("the window reaches back to the beginning of the slow request, however slow it was", "[window]") {
  VirtualClock clock(100'000 * kMs);
  Host host;
  host.options.pre_window_ms = 1000;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.above_ms = 50})).ok());
  Request slow = Request::Begin("/slow");
  const uint64_t id = slow.id();
  PITOT_INSTANT("at its beginning");
  clock.Advance(30'000 * kMs);
  slow.Finish(Outcome::kOk);
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  const auto trace = host.traces()[0];
  CHECK(EventsNamed(trace, "at its beginning").size() == 1);
  CHECK(EventsNamed(trace, "at its beginning")[0].request_id == id);
  CHECK(trace.window_begin_ns == 100'000 * static_cast<int64_t>(kMs));
  CHECK(fakes::RequestOf(trace, id)->begin_thread == 0);
}

TEST_CASE("the window of a late token begins before its gap, not with the stream", "[window]") {
  VirtualClock clock(100'000 * kMs);
  Host host;
  host.options.pre_window_ms = 1000;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeTokensTrigger({.gap_above_ms = 50})).ok());
  Request stream = Request::Begin("/generate");
  PITOT_INSTANT("at its beginning");
  clock.Advance(30 * kMs);
  stream.Emit();
  for (int i = 0; i < 1000; ++i) {
    clock.Advance(40 * kMs);
    stream.Emit();
  }
  PITOT_INSTANT("in the gap");
  clock.Advance(3'000 * kMs);
  stream.Emit();
  REQUIRE(host.Flush());
  stream.Finish(Outcome::kOk);

  REQUIRE(host.traces().size() == 1);
  const auto trace = host.traces()[0];
  CHECK(trace.firings.at(0).at_ns - trace.window_begin_ns == 3'000 * static_cast<int64_t>(kMs));
  CHECK(EventsNamed(trace, "in the gap").size() == 1);
  CHECK(EventsNamed(trace, "at its beginning").empty());
}

TEST_CASE("the window has the beginning of the slow request, however long its trigger took to fire", "[window]") {
  Host host;
  host.options.pre_window_ms = 1;
  REQUIRE(host.Start());
  REQUIRE(host.recorder
              .Add(pitot::MakePredicateTrigger({.predicate =
                                                    [](void*, const pitot::RequestView&) {
                                                      std::this_thread::sleep_for(std::chrono::milliseconds(2));
                                                      return true;
                                                    }}))
              .ok());
  Request request = Request::Begin("/slow");
  const uint64_t id = request.id();
  PITOT_INSTANT("first");
  (void)request.Enqueue("queue");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  request.Finish(Outcome::kOk);
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  const pitot::model::Trace trace = host.traces()[0];
  REQUIRE(trace.requests.size() == 1);
  CHECK(trace.requests[0].id == id);
  CHECK(trace.window_begin_ns <= trace.requests[0].begin_ns);
  CHECK(fakes::EventsNamed(trace, "first").size() == 1);
  CHECK(trace.handoffs.size() == 1);
}

TEST_CASE("the window reaches back to the recorder's start at most", "[window]") {
  // On a machine up for longer than the window, and on one up for less.
  for (const uint64_t uptime_ns : {100'000 * kMs, 1 * kMs}) {
    VirtualClock clock(uptime_ns);
    Host host;
    host.options.pre_window_ms = 5000;
    host.options.post_window_ms = 100;
    REQUIRE(host.Start());
    const Rounds rounds(&host);
    REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({.pre_window_ms = 90'000})).ok());
    PITOT_INSTANT("at the start");
    clock.Advance(2000 * kMs);
    REQUIRE(host.recorder.Trigger("soon").ok());
    REQUIRE(rounds.Pass());
    Request::Begin("/joins").Finish(Outcome::kFailed);
    REQUIRE(rounds.Pass());
    clock.Advance(100 * kMs);
    REQUIRE(host.Flush());

    REQUIRE(host.traces().size() == 1);
    const auto trace = host.traces()[0];
    CHECK(trace.firings.size() == 2);
    CHECK(trace.window_begin_ns == static_cast<int64_t>(uptime_ns));
    CHECK(trace.window_end_ns == static_cast<int64_t>(uptime_ns + 2100 * kMs));
    CHECK(EventsNamed(trace, "at the start").size() == 1);
  }
}

TEST_CASE("spikes in one window join one incident, and it reaches back for all of them", "[window]") {
  VirtualClock clock(100'000 * kMs);
  Host host;
  host.options.pre_window_ms = 1000;
  host.options.post_window_ms = 100;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.above_ms = 50, .cool_down_ms = 0})).ok());
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({.cool_down_ms = 0, .pre_window_ms = 90'000})).ok());
  PITOT_INSTANT("long ago");
  clock.Advance(60'000 * kMs);
  std::vector<uint64_t> ids;
  for (int i = 0; i < 3; ++i) {
    Request slow = Request::Begin("/slow");
    ids.push_back(slow.id());
    clock.Advance(60 * kMs);
    slow.Finish(Outcome::kOk);
    clock.Set(clock.now_ns() - 40 * kMs);  // so that all three end in the post window of the first
  }
  Request failed = Request::Begin("/failed");
  ids.push_back(failed.id());
  failed.Finish(Outcome::kFailed);
  REQUIRE(host.recorder.Flush(100).code() == StatusCode::kUnavailable);
  clock.Advance(200 * kMs);
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  const auto trace = host.traces()[0];
  CHECK(pitot::model::FindInconsistency(trace) == "");
  REQUIRE(trace.firings.size() == 4);
  std::vector<uint64_t> fired;
  for (const auto& firing : trace.firings) fired.push_back(firing.request_id);
  std::sort(fired.begin(), fired.end());
  std::sort(ids.begin(), ids.end());
  CHECK(fired == ids);
  CHECK(EventsNamed(trace, "long ago").size() == 1);
  REQUIRE(host.told().size() == 2);
  CHECK(host.told()[0].slow_requests == 4);
  CHECK(host.told()[0].cause == "latency /slow");
}

TEST_CASE("a cause joining an incident gets its own post window, once", "[window]") {
  VirtualClock clock(100'000 * kMs);
  Host host;
  host.options.post_window_ms = 100;
  REQUIRE(host.Start());
  const Rounds rounds(&host);
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({.cool_down_ms = 0, .post_window_ms = 1000})).ok());
  REQUIRE(host.recorder.Trigger("begins").ok());
  const auto begin_ns = static_cast<int64_t>(clock.now_ns());
  REQUIRE(rounds.Pass());
  clock.Advance(50 * kMs);
  Request::Begin("/r").Finish(Outcome::kFailed);
  REQUIRE(rounds.Pass());
  clock.Advance(500 * kMs);
  Request::Begin("/r").Finish(Outcome::kFailed);
  REQUIRE(rounds.Pass());
  clock.Advance(499 * kMs);
  REQUIRE(rounds.Pass());
  CHECK(host.recorder.Flush(1).code() == StatusCode::kUnavailable);
  clock.Advance(1 * kMs);
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  CHECK(host.traces()[0].firings.size() == 3);
  CHECK(host.traces()[0].window_end_ns - begin_ns == 1050 * static_cast<int64_t>(kMs));
}

TEST_CASE("an incident waits for at most a minute, whatever joins it", "[window]") {
  VirtualClock clock(100'000 * kMs);
  Host host;
  host.options.post_window_ms = 100;
  REQUIRE(host.Start());
  const Rounds rounds(&host);
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({.post_window_ms = 60'000})).ok());
  REQUIRE(host.recorder.Trigger("begins").ok());
  REQUIRE(rounds.Pass());
  clock.Advance(50 * kMs);
  Request::Begin("/r").Finish(Outcome::kFailed);
  REQUIRE(rounds.Pass());
  clock.Advance(59'949 * kMs);
  REQUIRE(rounds.Pass());
  CHECK(host.recorder.Flush(1).code() == StatusCode::kUnavailable);
  clock.Advance(1 * kMs);
  REQUIRE(host.Flush());

  CHECK(host.traces().size() == 1);
}

TEST_CASE("the post window ends before the rings forget what led up to the trigger", "[window]") {
  VirtualClock clock(100'000 * kMs);
  Host host;
  host.options.max_ring_bytes = host.options.max_grown_ring_bytes = 1 << 17;  // there is room for it in the budget
  host.options.post_window_ms = 60'000;
  REQUIRE(host.Start());
  const Rounds rounds(&host);
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.above_ms = 50})).ok());
  const uint64_t instants = host.options.max_ring_bytes / 16;  // the ring holds
  for (uint64_t i = 0; i < instants; ++i) {
    PITOT_INSTANT("before");
    if (i % 64 == 0) clock.Advance(kMs);
  }
  Request slow = Request::Begin("/slow");
  const uint64_t id = slow.id();
  clock.Advance(60 * kMs);
  slow.Finish(Outcome::kOk);
  REQUIRE(rounds.Pass());
  for (uint64_t i = 0; i < instants / 10; ++i) PITOT_INSTANT("after");
  clock.Advance(9 * kMs);
  REQUIRE(rounds.Pass());
  CHECK(host.recorder.Flush(1).code() == StatusCode::kUnavailable);  // it waits for more
  for (uint64_t i = 0; i < instants / 20; ++i) PITOT_INSTANT("after");
  clock.Advance(10 * kMs);
  REQUIRE(rounds.Pass());
  for (uint64_t i = 0; i < instants; ++i) PITOT_INSTANT("overwrites it");
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  const auto trace = host.traces()[0];
  const auto* request = fakes::RequestOf(trace, id);
  REQUIRE(request != nullptr);
  CHECK(request->end_known);
  CHECK(request->duration_ns == 60 * static_cast<int64_t>(kMs));
  CHECK(EventsNamed(trace, "after").size() == instants / 10 + instants / 20);
  CHECK(EventsNamed(trace, "before").size() > instants / 10 * 8);
  CHECK(EventsNamed(trace, "overwrites it").empty());
}

TEST_CASE("an incident has the request that fired, though its ring was overwritten before anyone looked", "[window]") {
  struct Blocking final : pitot::Trigger {
    explicit Blocking(std::shared_ptr<fakes::Gate> to) : gate(std::move(to)) {}
    bool WatchesOpenRequests() const noexcept override {
      if (!gate->left) gate->Pass();
      return false;
    }
    std::shared_ptr<fakes::Gate> gate;
  };
  VirtualClock clock(100'000 * kMs);
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.above_ms = 50})).ok());
  const auto watcher = std::make_shared<fakes::Gate>();
  REQUIRE(host.recorder.Add(std::make_unique<Blocking>(watcher)).ok());
  REQUIRE(watcher->WaitUntilReached());
  Request slow = Request::Begin("/slow");
  slow.SetLabel("model", "resnet");
  slow.Stage("decode");
  const uint64_t id = slow.id();
  clock.Advance(60 * kMs);
  slow.Finish(Outcome::kTimedOut);
  for (uint64_t i = 0; i < host.options.max_ring_bytes / 8; ++i) PITOT_INSTANT("overwrites it");
  watcher->open = true;
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  const auto trace = host.traces()[0];
  CHECK(pitot::model::FindInconsistency(trace) == "");
  const auto* request = fakes::RequestOf(trace, id);
  REQUIRE(request != nullptr);
  CHECK(request->end_known);
  CHECK(request->outcome == Outcome::kTimedOut);
  CHECK(request->duration_ns == 60 * static_cast<int64_t>(kMs));
  CHECK(request->end_thread == request->begin_thread);
  CHECK(request->labels.size() == 1);
  CHECK(request->stages.size() == 1);
}

TEST_CASE("firings beyond an incident's list are counted in it", "[window]") {
  VirtualClock clock(100'000 * kMs);
  Host host;
  host.options.post_window_ms = 1000;
  REQUIRE(host.Start());
  const Rounds rounds(&host);
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({.cool_down_ms = 0})).ok());
  for (int i = 0; i < 400; ++i) {
    Request::Begin("/r").Finish(Outcome::kFailed);
    if (i % 32 == 0) REQUIRE(rounds.Pass());  // the first begins it; the queue is empty
  }
  REQUIRE(rounds.Pass());
  const uint64_t fired = host.recorder.Stats().triggers_fired - host.recorder.Stats().incidents_suppressed;
  clock.Advance(1000 * kMs);
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  const auto trace = host.traces()[0];
  uint64_t unlisted = 0;
  for (const auto& attribute : trace.attributes) {
    if (trace.strings[attribute.key] == "incident.firings_unlisted")
      unlisted = std::stoull(std::string(trace.strings[attribute.value]));
  }
  CHECK(trace.firings.size() <= 256);
  CHECK(trace.firings.size() + unlisted == fired);
}

TEST_CASE("a cause has a budget an hour, with refills, and another cause has its own", "[window]") {
  VirtualClock clock(100'000 * kMs);
  Host host;
  host.options.max_incidents_per_cause_and_hour = 2;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({.cool_down_ms = 0})).ok());

  CHECK(host.TriggerAndFlush());
  CHECK(host.TriggerAndFlush());
  CHECK(host.recorder.Trigger("too many").code() == StatusCode::kResourceExhausted);
  CHECK(host.recorder.Stats().incidents_suppressed == 1);
  for (int i = 0; i < 3; ++i) {
    Request::Begin("/r").Finish(Outcome::kFailed);
    REQUIRE(host.Flush());
  }
  CHECK(host.recorder.Stats().incidents_written == 4);
  CHECK(host.recorder.Stats().incidents_suppressed == 2);
  clock.Advance(29 * kMinute);
  CHECK(host.recorder.Trigger("still too many").code() == StatusCode::kResourceExhausted);
  clock.Advance(1 * kMinute + kMs);
  CHECK(host.TriggerAndFlush());
  CHECK(host.recorder.Trigger("again too many").code() == StatusCode::kResourceExhausted);
  clock.Advance(600 * kMinute);
  CHECK(host.TriggerAndFlush());
  CHECK(host.TriggerAndFlush());
  CHECK(host.recorder.Trigger("not saved up for ever").code() == StatusCode::kResourceExhausted);
}

TEST_CASE("causes beyond the first 256 share one budget", "[window]") {
  using Answer = pitot::session::IncidentBudget::Answer;
  pitot::session::IncidentBudget budget(1);
  const auto take = [&](const std::string& cause, int64_t now_ns) {
    return budget.Take(cause, now_ns, pitot::session::IncidentBudget::Reserve::kNone);
  };
  int taken = 0;
  for (int i = 0; i < 1000; ++i) taken += take("cause " + std::to_string(i), 0) == Answer::kTaken;

  CHECK(taken == 257);
  CHECK_FALSE(budget.Has("cause 2000", 0, pitot::session::IncidentBudget::Reserve::kNone));
  CHECK(take("cause 7", 0) == Answer::kRefused);
  CHECK(take("cause 7", 0) == Answer::kRefusedAgain);
  CHECK(take("cause 7", 3'600'000'000'000) == Answer::kTaken);
  CHECK(take("cause 7", 3'600'000'000'000) == Answer::kRefused);
}

TEST_CASE("a used-up budget of a cause is reported once", "[window]") {
  VirtualClock clock(100'000 * kMs);
  Host host;
  host.options.max_incidents_per_cause_and_hour = 1;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({.cool_down_ms = 0})).ok());
  for (int i = 0; i < 4; ++i) {
    Request::Begin("/r").Finish(Outcome::kFailed);
    REQUIRE(host.Flush());
  }

  CHECK(host.incidents().size() == 1);
  CHECK(host.recorder.Stats().incidents_suppressed == 3);
  const auto lines = host.log.lines();
  CHECK(std::count_if(lines.begin(), lines.end(), [](const fakes::LogLine& line) {
          return line.level == pitot::LogLevel::kWarning &&
                 session_test::Contains(line.text, "no incident for \"failed /r\": Options::max_incidents_per_cause");
        }) == 1);
}

TEST_CASE("the directory keeps a number of incidents, with the first and the newest", "[window]") {
  Host host;
  host.options.max_incidents_kept = 3;
  REQUIRE(host.Start());
  for (int i = 0; i < 5; ++i) REQUIRE(host.TriggerAndFlush());

  REQUIRE(host.incidents().size() == 3);
  CHECK(host.told().size() == 10);
  CHECK(host.told().front().directory == host.directory / host.incidents().front());
  CHECK(host.told().back().directory == host.directory / host.incidents().back());
}

TEST_CASE("the directory keeps a number of bytes, but never less than the newest incident", "[window]") {
  Host host;
  host.options.max_incident_directory_bytes = 1;
  REQUIRE(host.Start());
  for (int i = 0; i < 3; ++i) REQUIRE(host.TriggerAndFlush());

  REQUIRE(host.incidents().size() == 1);
  CHECK(host.told()[4].directory == host.directory / host.incidents()[0]);
}

namespace {

// A host whose rings may grow to a window of 2 s.
struct GrowingHost : Host {
  GrowingHost() {
    options.memory_budget_bytes = 128 << 20;
    options.max_ring_bytes = 1 << 16;
    options.max_grown_ring_bytes = 16 << 20;
    options.pre_window_ms = 2000;
    REQUIRE(Start());
  }
};

}  // namespace

TEST_CASE("the ring of a busy thread grows until it holds the window, and so does its incident", "[window]") {
  VirtualClock clock(100'000 * kMs);
  GrowingHost host;
  const Rounds rounds(&host);
  Paced paced(&clock);
  REQUIRE(rounds.Pass());  // a first note on the rings; the next is due after a second
  paced.Run(rounds, 7000);

  const pitot::Stats stats = host.recorder.Stats();
  CHECK(stats.history_shortest_ms >= 2000);
  CHECK(stats.ring_bytes_used == (4 << 20) + 4096);  // 2 MB and a margin, as a power of two
  REQUIRE(host.TriggerAndFlush());
  REQUIRE(host.traces().size() == 1);
  const auto trace = host.traces()[0];
  const auto events = EventsNamed(trace, "paced");
  REQUIRE(events.size() >= 2000 * 42);
  CHECK(events.back().args[0].second == std::to_string(paced.serial - 1));
  CHECK(events.front().args[0].second == std::to_string(paced.serial - events.size()));
  CHECK(trace.losses.empty());
}

TEST_CASE("a watcher that lost its CPU while it read the rings makes none grow", "[window]") {
  VirtualClock clock(100'000 * kMs);
  GrowingHost host;
  const Rounds rounds(&host);
  Paced paced(&clock);
  REQUIRE(rounds.Pass());  // a first note on the rings; the next is due after a second
  paced.Run(rounds, 900);
  clock.SetStep(20 * kMs);  // from reading to reading
  clock.Advance(100 * kMs);
  REQUIRE(rounds.Pass());
  clock.SetStep(0);
  CHECK(host.recorder.Stats().ring_bytes_used < (1 << 20));

  paced.Run(rounds, 1500);
  CHECK(host.recorder.Stats().ring_bytes_used > (1 << 20));
}

TEST_CASE("events from before a ring grew are in the incident", "[window]") {
  VirtualClock clock(100'000 * kMs);
  GrowingHost host;
  const Rounds rounds(&host);
  Paced paced(&clock);
  REQUIRE(rounds.Pass());  // a first note on the rings; the next is due after a second
  paced.Run(rounds, 1000);
  REQUIRE(host.recorder.Stats().ring_bytes_used > (1 << 20));
  PITOT_INSTANT("the first in the larger ring");
  paced.Run(rounds, 10);
  REQUIRE(host.TriggerAndFlush());

  REQUIRE(host.traces().size() == 1);
  const auto events = EventsNamed(host.traces()[0], "paced");
  CHECK(events.size() >= 2600);  // 64 KiB of them, of which 420 came later
  CHECK(events.front().args[0].second == std::to_string(paced.serial - events.size()));
  CHECK(EventsNamed(host.traces()[0], "the first in the larger ring").size() == 1);
}
