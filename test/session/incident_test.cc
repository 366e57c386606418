// SPDX-License-Identifier: Apache-2.0
//
// From a trigger to an incident on disk, and the host's hooks on the way.
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fakes/child.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_clock.h"
#include "fakes/wait_until.h"
#include "session/host.h"
#include "session/short_turns.h"
#include "session/worker_priority.h"

namespace {

using fakes::Attribute;
using fakes::EventsNamed;
using fakes::Text;
using fakes::VirtualClock;
using pitot::Outcome;
using pitot::Request;
using pitot::StatusCode;
using session_test::Contains;
using session_test::Host;
using session_test::Rounds;

constexpr uint64_t kMs = 1'000'000;

unsigned Mode(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

// The trace of the only incident, with this cause and this request.
pitot::model::Trace OnlyIncident(Host& host, const std::string& cause, uint64_t request) {
  REQUIRE(host.Flush());
  REQUIRE(host.traces().size() == 1);
  pitot::model::Trace trace = host.traces()[0];
  CHECK(pitot::model::FindInconsistency(trace) == "");
  REQUIRE(trace.firings.size() == 1);
  CHECK(Text(trace, trace.firings[0].cause) == cause);
  CHECK(trace.firings[0].request_id == request);
  CHECK(!Text(trace, trace.firings[0].detail).empty());
  CHECK(Attribute(trace, "incident.cause") == cause);
  REQUIRE(host.incidents().size() == 1);
  return trace;
}

}  // namespace

TEST_CASE("a stalled request is in its incident though thousands are open", "[incident]") {
  Host host;
  host.options.memory_budget_bytes = 8 << 20;
  host.options.max_open_requests = 4096;
  REQUIRE(host.Start());
  std::vector<Request> open;
  for (int i = 0; i < 3000; ++i) open.push_back(Request::Begin("/bulk"));
  const Request victim = Request::Begin("/victim");
  REQUIRE(host.recorder.Add(pitot::MakeStallTrigger({.route = "/victim", .request_open_ms = 20})).ok());
  REQUIRE(fakes::WaitUntil([&] { return host.recorder.Stats().triggers_fired > 0; }));
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  const pitot::model::Trace trace = host.traces()[0];
  const auto is_victim = [&](const auto& request) { return request.id == victim.id(); };
  const auto row = std::find_if(trace.requests.begin(), trace.requests.end(), is_victim);
  REQUIRE(row != trace.requests.end());
  CHECK(trace.strings[row->route] == "/victim");
  CHECK(row->begin_known);
  // None of them has ended.
  for (const auto& request : trace.requests) CHECK(request.duration_ns == pitot::model::kOpen);
  CHECK(trace.requests.size() < 3001);
  CHECK(std::any_of(trace.losses.begin(), trace.losses.end(), [&](const auto& loss) {
    return loss.reason == pitot::model::LossReason::kOpenRequests && loss.events >= 3001 - trace.requests.size();
  }));
}

TEST_CASE("a call leaves an incident with its reason, the chosen files and nothing else in the directory",
          "[incident]") {
  Host host;
  host.options.perfetto_file = true;
  REQUIRE(host.Start());
  PITOT_INSTANT("before the call");
  REQUIRE(host.TriggerAndFlush("the operator wanted it"));

  const auto trace = OnlyIncident(host, "manual", 0);

  CHECK(Text(trace, trace.firings[0].detail) == "the operator wanted it");
  CHECK(EventsNamed(trace, "before the call").size() == 1);
  CHECK(Text(trace, trace.process_name) == "test host");
  CHECK(trace.pid == getpid());
  CHECK(Attribute(trace, "pitot.version") == pitot::Version());
  CHECK(Attribute(trace, "incident.number") == "1");
  const std::string seconds = Attribute(trace, "cost.seconds");
  CHECK(seconds.find_first_not_of("0123456789.") == std::string::npos);
  CHECK((!seconds.empty() && std::stod(seconds) >= 0 && std::stod(seconds) < 1000));
  const std::string incident = host.directory / host.incidents()[0];
  CHECK(Contains(incident, "Z-0001-manual"));
  CHECK(fakes::NamesIn(incident) == std::vector<std::string>{"dump.pitot", "keep", "report.txt", "trace.pftrace"});
  for (const char* file : {"dump.pitot", "report.txt", "trace.pftrace"}) {
    CHECK(Mode(incident + "/" + file) == 0600);
    CHECK(!fakes::ReadFile(incident + "/" + file).empty());
  }
  CHECK(Mode(incident) == 0700);
  CHECK(host.log.Has(pitot::LogLevel::kInfo, incident));
}

TEST_CASE("a slow request leaves an incident about it", "[incident]") {
  VirtualClock clock;
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.route = "/classify", .above_ms = 50})).ok());
  Request::Begin("/classify").Finish(Outcome::kOk);
  Request slow = Request::Begin("/classify");
  const uint64_t id = slow.id();
  clock.Advance(51 * kMs);
  slow.Finish(Outcome::kOk);

  const auto trace = OnlyIncident(host, "latency /classify", id);

  REQUIRE(fakes::RequestOf(trace, id) != nullptr);
  CHECK(fakes::RequestOf(trace, id)->duration_ns == 51 * static_cast<int64_t>(kMs));
  CHECK(Contains(host.incidents()[0], "latency-classify"));
  CHECK(host.told()[0].slow_requests == 1);
  CHECK(host.told()[0].first_request == id);
}

TEST_CASE("a failed and a timed out request leave an incident, an ok one does not", "[incident]") {
  for (const Outcome outcome : {Outcome::kFailed, Outcome::kTimedOut}) {
    Host host;
    REQUIRE(host.Start());
    REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({})).ok());
    Request::Begin("/r").Finish(Outcome::kOk);
    Request request = Request::Begin("/r");
    const uint64_t id = request.id();
    request.Finish(outcome);
    REQUIRE(host.Flush());

    REQUIRE(host.traces().size() == 1);
    const auto trace = OnlyIncident(host, Text(host.traces()[0], host.traces()[0].firings[0].cause), id);
    CHECK(fakes::RequestOf(trace, id)->outcome == outcome);
  }
}

TEST_CASE("the host's own predicate leaves an incident under the host's name for it", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  uint64_t wanted = 0;
  REQUIRE(host.recorder
              .Add(pitot::MakePredicateTrigger({.predicate =
                                                    [](void* context, const pitot::RequestView& request) {
                                                      return request.id == *static_cast<uint64_t*>(context);
                                                    },
                                                .context = &wanted,
                                                .cause = "my own reason"}))
              .ok());
  Request::Begin("/r").Finish(Outcome::kOk);
  Request request = Request::Begin("/r");
  wanted = request.id();
  request.Finish(Outcome::kOk);

  OnlyIncident(host, "my own reason", wanted);
}

TEST_CASE("a late first token and a long gap between tokens leave incidents while the request is open", "[incident]") {
  VirtualClock clock;
  Host host;
  REQUIRE(host.Start());
  REQUIRE(
      host.recorder.Add(pitot::MakeTokensTrigger({.first_token_above_ms = 100, .gap_above_ms = 20, .cool_down_ms = 0}))
          .ok());
  Request request = Request::Begin("/generate");
  clock.Advance(150 * kMs);
  request.Emit();
  REQUIRE(host.Flush());
  CHECK(host.traces().size() == 1);
  clock.Advance(10 * kMs);
  request.Emit();
  REQUIRE(host.Flush());
  CHECK(host.traces().size() == 1);
  clock.Advance(21 * kMs);
  request.Emit();
  REQUIRE(host.Flush());

  const auto traces = host.traces();

  REQUIRE(traces.size() == 2);
  for (const auto& trace : traces) {
    CHECK(trace.firings[0].request_id == request.id());
    CHECK(fakes::RequestOf(trace, request.id())->duration_ns == pitot::model::kOpen);
  }
  CHECK(traces[0].firings[0].cause != 0);
  CHECK(Text(traces[0], traces[0].firings[0].cause) != Text(traces[1], traces[1].firings[0].cause));
  request.Finish(Outcome::kOk);
}

TEST_CASE("a hanging request and a hanging scope leave incidents with them open", "[incident]") {
  VirtualClock clock;
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeStallTrigger({.request_open_ms = 500})).ok());
  REQUIRE(host.recorder.Add(pitot::MakeStallTrigger({.scope = "stuck", .scope_open_ms = 3000})).ok());
  Request request = Request::Begin("/hangs");
  PITOT_SCOPE("not watched");
  PITOT_SCOPE("stuck");
  clock.Advance(501 * kMs);
  REQUIRE(fakes::WaitUntil([&] { return host.recorder.Stats().incidents_written == 1; }));
  clock.Advance(2500 * kMs);
  REQUIRE(fakes::WaitUntil([&] { return host.recorder.Stats().incidents_written == 2; }));
  REQUIRE(host.Flush());

  const auto traces = host.traces();

  REQUIRE(traces.size() == 2);
  CHECK(Contains(Text(traces[0], traces[0].firings[0].cause), "/hangs"));
  CHECK(traces[0].firings[0].request_id == request.id());
  CHECK(fakes::RequestOf(traces[0], request.id())->duration_ns == pitot::model::kOpen);
  REQUIRE(EventsNamed(traces[0], "stuck").size() == 1);
  CHECK(EventsNamed(traces[0], "stuck")[0].duration_ns == pitot::model::kOpen);
  CHECK(Contains(Text(traces[1], traces[1].firings[0].cause), "stuck"));
  request.Finish(Outcome::kOk);
}

TEST_CASE("an incident keeps its window though the one before it is still being written or told", "[incident]") {
  for (const bool in_hook : {false, true}) {
    const auto gate = std::make_shared<fakes::Gate>();
    Host host;
    REQUIRE(host.Start());
    const Rounds rounds(&host);
    pitot::Hooks hooks;
    hooks.context = gate.get();
    hooks.on_incident = [](void* context, const pitot::IncidentInfo&) { static_cast<fakes::Gate*>(context)->Pass(); };
    REQUIRE((in_hook ? host.recorder.SetHooks(hooks) : host.recorder.Add(fakes::MakeGateSerializer(gate))).ok());
    REQUIRE(host.recorder.Trigger("first").ok());
    REQUIRE(gate->WaitUntilReached());

    PITOT_INSTANT("before the second");
    REQUIRE(host.recorder.Trigger("second").ok());
    REQUIRE(rounds.Pass());
    for (uint64_t i = 0; i < host.options.max_ring_bytes / 16; ++i) PITOT_INSTANT("overwrites what was before");
    gate->open = true;
    REQUIRE(host.Flush());

    const auto traces = host.traces();
    REQUIRE(traces.size() == 2);
    CHECK(EventsNamed(traces[1], "before the second").size() == 1);
    CHECK(EventsNamed(traces[1], "overwrites what was before").empty());
    CHECK(pitot::model::FindInconsistency(traces[1]) == "");
  }
}

TEST_CASE("slow requests of one post window are in one incident, cool-down or not", "[incident]") {
  VirtualClock clock;
  Host host;
  host.options.post_window_ms = pitot::Options().post_window_ms;
  REQUIRE(host.Start());
  const Rounds rounds(&host);
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.above_ms = 50, .cool_down_ms = 3'600'000})).ok());
  std::vector<Request> slow;
  for (int i = 0; i < 20; ++i) slow.push_back(Request::Begin("/r"));
  const uint64_t first = slow[0].id();
  clock.Advance(51 * kMs);
  for (int i = 0; i < 10; ++i) slow[i].Finish(Outcome::kOk);  // before the watcher looks
  REQUIRE(rounds.Pass());
  clock.Advance(99 * kMs);
  for (int i = 10; i < 20; ++i) slow[i].Finish(Outcome::kOk);
  REQUIRE(rounds.Pass());
  clock.Advance(1 * kMs);
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  CHECK(host.traces()[0].firings.size() == 20);
  CHECK(host.told()[0].slow_requests == 20);
  CHECK(host.told()[0].first_request == first);
  // It still cools down, and no incident is pending for another slow request to join.
  Request late = Request::Begin("/r");
  clock.Advance(51 * kMs);
  late.Finish(Outcome::kOk);
  REQUIRE(rounds.Pass());
  clock.Advance(200 * kMs);
  REQUIRE(host.Flush());
  CHECK(host.traces().size() == 1);
}

TEST_CASE("a request that fires twice is one slow request", "[incident]") {
  VirtualClock clock;
  Host host;
  host.options.post_window_ms = 100;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.above_ms = 50})).ok());
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({})).ok());
  const Rounds rounds(&host);
  Request request = Request::Begin("/r");
  clock.Advance(51 * kMs);
  request.Finish(Outcome::kFailed);
  REQUIRE(rounds.Pass());
  clock.Advance(100 * kMs);
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  CHECK(host.traces()[0].firings.size() == 2);
  CHECK(host.told()[0].slow_requests == 1);
}

TEST_CASE("a hang leaves one incident with every stalled request", "[incident]") {
  VirtualClock clock;
  Host host;
  REQUIRE(host.Start());
  const Rounds rounds(&host);
  REQUIRE(host.recorder.Add(pitot::MakeStallTrigger({.request_open_ms = 500})).ok());
  std::vector<Request> hang;
  for (int i = 0; i < 100; ++i) hang.push_back(Request::Begin("/hangs"));
  clock.Advance(501 * kMs);
  REQUIRE(fakes::WaitUntil([&] { return host.recorder.Stats().incidents_written == 1; }));
  for (int i = 0; i < 10; ++i) {
    clock.Advance(11'000 * kMs);  // longer than the cool-down
    REQUIRE(rounds.Pass());
  }
  REQUIRE(host.Flush());

  REQUIRE(host.traces().size() == 1);
  CHECK(host.traces()[0].firings.size() == 100);
  CHECK(host.told()[0].slow_requests == 100);
  for (Request& request : hang) request.Finish(Outcome::kOk);
}

TEST_CASE("an idle waiting thread is not a stalled scope unless waits are watched", "[incident]") {
  for (const char* asked : {static_cast<const char*>(nullptr), "wait"}) {
    VirtualClock clock;
    Host host;
    REQUIRE(host.Start());
    const Rounds rounds(&host);
    REQUIRE(host.recorder.Add(pitot::MakeStallTrigger({.scope = asked, .scope_open_ms = 3000})).ok());
    pitot::Mutex mutex("work");
    pitot::ConditionVariable condition("work");
    bool is_waiting = false, over = false;
    std::thread idle([&] {
      std::unique_lock lock(mutex);
      is_waiting = true;
      condition.wait(lock, [&] { return over; });
    });
    REQUIRE(fakes::WaitUntil([&] {
      const std::lock_guard lock(mutex);
      return is_waiting;
    }));
    {
      PITOT_SCOPE("stuck");
      clock.Advance(3001 * kMs);
      REQUIRE(fakes::WaitUntil([&] { return host.recorder.Stats().incidents_written == 1; }));
      REQUIRE(rounds.Pass());
    }
    REQUIRE(host.Flush());

    REQUIRE(host.traces().size() == 1);
    REQUIRE(host.traces()[0].firings.size() == 1);
    CHECK(host.told()[0].cause == (asked == nullptr ? "stall scope stuck" : "stall scope wait"));
    {
      const std::lock_guard lock(mutex);
      over = true;
    }
    condition.notify_all();
    idle.join();
  }
}

TEST_CASE("a stalled scope named at run time goes by that name", "[incident]") {
  VirtualClock clock;
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeStallTrigger({.scope = "op 7", .scope_open_ms = 3000})).ok());
  pitot::BeginScope(pitot::Intern("op 6"));
  pitot::BeginScope(pitot::Intern("op 7"));
  clock.Advance(3001 * kMs);
  const bool is_written = fakes::WaitUntil([&] { return host.recorder.Stats().incidents_written == 1; }, 20);
  pitot::EndScope();
  pitot::EndScope();
  REQUIRE(is_written);
  REQUIRE(host.Flush());

  CHECK(host.told()[0].cause == "stall scope op 7");

  PITOT_SCOPE_NAMED(pitot::Intern("op 7"), "arguments that are too long to be shown while it is open");
  clock.Advance(3001 * kMs);
  REQUIRE(fakes::WaitUntil([&] { return host.recorder.Stats().incidents_written == 2; }, 20));
}

TEST_CASE("a trigger is shown only the open work it watches", "[incident]") {
  struct Shown {
    std::atomic<int> requests{0}, scopes{0}, waits{0};
  };
  struct Watches final : pitot::Trigger {
    Watches(std::shared_ptr<Shown> to, bool with_requests, bool with_scopes)
        : shown(std::move(to)), requests(with_requests), scopes(with_scopes) {}
    bool WatchesOpenRequests() const noexcept override { return requests; }
    void OnOpenRequest(const pitot::RequestView&, pitot::FiringSink&) noexcept override { ++shown->requests; }
    bool WatchesOpenScopes() const noexcept override { return scopes; }
    void OnOpenScope(const pitot::OpenScopeView& scope, pitot::FiringSink&) noexcept override {
      ++(scope.is_wait ? shown->waits : shown->scopes);
    }
    std::shared_ptr<Shown> shown;
    bool requests, scopes;
  };
  for (const bool scopes : {false, true}) {
    VirtualClock clock;
    Host host;
    REQUIRE(host.Start());
    const Rounds rounds(&host);
    const auto shown = std::make_shared<Shown>();
    REQUIRE(host.recorder.Add(std::make_unique<Watches>(shown, !scopes, scopes)).ok());
    Request request = Request::Begin("/r");
    PITOT_SCOPE("open");
    PITOT_WAIT(pitot::WaitKind::kOther, "nothing", pitot::Owner{});
    clock.Advance(20 * kMs);
    REQUIRE(rounds.Pass());

    CHECK((shown->requests > 0) == !scopes);
    CHECK((shown->scopes > 0) == scopes);
    CHECK((shown->waits > 0) == scopes);
    request.Finish(Outcome::kOk);
  }
}

TEST_CASE("a trigger added while another's incident is written works", "[incident]") {
  VirtualClock clock;
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Trigger("first").ok());
  REQUIRE(host.recorder.Add(pitot::MakeFailureTrigger({})).ok());
  Request::Begin("/r").Finish(Outcome::kFailed);
  REQUIRE(host.Flush());

  size_t firings = 0;
  for (const auto& trace : host.traces()) firings += trace.firings.size();
  CHECK(firings == 2);
}

TEST_CASE("a route named by a trigger is kept apart, or the log says that it is not", "[recorder]") {
  // In a process of its own, because routes are kept for a process's life.
  CHECK(fakes::InChild([] {
          Host host;
          if (!host.Start()) return 1;
          if (!host.recorder.Add(pitot::MakeFailureTrigger({.route = "/important"})).ok()) return 2;
          for (int i = 0; i < 80; ++i)
            pitot::Request::Begin(("/" + std::to_string(i)).c_str()).Finish(pitot::Outcome::kOk);
          pitot::Request::Begin("/important").Finish(pitot::Outcome::kFailed);
          if (!host.Flush() || host.told().empty() || host.told()[0].cause != "failed /important") return 3;
          if (!host.recorder.Add(pitot::MakeFailureTrigger({.route = "/late"})).ok()) return 4;
          return host.log.Has(pitot::LogLevel::kWarning, "\"/late\" came after 63 others") ? 0 : 5;
        }) == 0);
}

TEST_CASE("hooks are called in order with the state on disk", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.TriggerAndFlush("one"));
  REQUIRE(host.TriggerAndFlush("two"));

  const auto told = host.told();
  const auto incidents = host.incidents();

  REQUIRE(incidents.size() == 2);
  REQUIRE(told.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(told[i].hook == (i % 2 == 0 ? "incident" : "verdict"));
    CHECK(told[i].number == 1 + i / 2);
    CHECK(told[i].cause == "manual");
    CHECK(told[i].detail == (i < 2 ? "one" : "two"));
    CHECK(told[i].directory == host.directory / incidents[i / 2]);
    CHECK(told[i].slow_requests == 0);
    CHECK(told[i].first_request == 0);
    CHECK(told[i].code == StatusCode::kOk);
  }
}

TEST_CASE("hooks may be missing, and may be replaced", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.SetHooks({}).ok());
  REQUIRE(host.TriggerAndFlush());
  CHECK(host.told().empty());
  std::atomic<int> called{0};
  pitot::Hooks hooks;
  hooks.context = &called;
  hooks.on_verdict = [](void* context, const pitot::IncidentInfo&) { ++*static_cast<std::atomic<int>*>(context); };
  REQUIRE(host.recorder.SetHooks(hooks).ok());
  REQUIRE(host.TriggerAndFlush());
  CHECK(called == 1);
}

TEST_CASE("triggers fire and hooks are called without files if there is no directory", "[incident]") {
  for (const char* none : {static_cast<const char*>(nullptr), ""}) {
    Host host;
    host.options.incident_directory = none;
    REQUIRE(host.Start());
    REQUIRE(host.TriggerAndFlush());

    REQUIRE(host.told().size() == 2);
    CHECK(host.told()[0].directory.empty());
    CHECK(host.told()[0].code == StatusCode::kOk);
    CHECK(host.recorder.Stats().incidents_failed == 0);
    CHECK(host.recorder.Stats().triggers_fired == 1);
  }
}

TEST_CASE("the log says once that incidents are not kept without a directory, and how to keep them", "[incident]") {
  for (const char* none : {static_cast<const char*>(nullptr), ""}) {
    Host host;
    host.options.incident_directory = none;
    REQUIRE(host.Start());
    CHECK(host.log.lines().empty());
    REQUIRE(host.TriggerAndFlush());
    REQUIRE(host.TriggerAndFlush());

    const std::vector<fakes::LogLine> lines = host.log.lines();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].level == pitot::LogLevel::kWarning);
    CHECK(Contains(lines[0].text, "no file is written for incidents: Options::incident_directory is empty"));
    CHECK(Contains(lines[0].text, "PITOT_INCIDENT_DIRECTORY"));
  }
}

TEST_CASE("the log names the directory's option in the host's language", "[incident]") {
  Host host;
  host.options.incident_directory = nullptr;
  host.options.language = pitot::Language::kPython;
  REQUIRE(host.Start());
  REQUIRE(host.TriggerAndFlush());

  CHECK(host.log.Has(pitot::LogLevel::kWarning, "pitot.start(incident_directory=...) is empty"));
}

TEST_CASE("incidents that are kept log no warning", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.TriggerAndFlush());

  CHECK_FALSE(host.log.Has(pitot::LogLevel::kWarning, ""));
}

TEST_CASE("a serializer with an existing file's name replaces that file", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  const auto write = [](const std::string& text) {
    return [text](const pitot::model::Trace&, pitot::ByteSink& sink) {
      return sink.Write(text.data(), text.size()) ? pitot::Status() : pitot::Status(StatusCode::kIoError, "?");
    };
  };
  REQUIRE(host.recorder.Add(fakes::MakeCallSerializer("report.txt", write("mine"))).ok());
  REQUIRE(host.recorder.Add(fakes::MakeCallSerializer("extra.json", write("{}"))).ok());
  REQUIRE(host.recorder.Add(fakes::MakeCallSerializer("extra.json", write("{1}"))).ok());
  REQUIRE(host.TriggerAndFlush());

  REQUIRE(host.incidents().size() == 1);
  const std::string incident = host.directory / host.incidents()[0];
  CHECK(fakes::ReadFile(incident + "/report.txt") == "mine");
  CHECK(fakes::ReadFile(incident + "/extra.json") == "{1}");
  CHECK(fakes::NamesIn(incident).size() == 4);
}

TEST_CASE("a throwing or failing serializer costs its own file only, and this is logged", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer("throws.txt",
                                             [](const auto&, pitot::ByteSink& sink) -> pitot::Status {
                                               sink.Write("half", 4);
                                               throw std::runtime_error("the host's bug");
                                             }))
              .ok());
  REQUIRE(
      host.recorder
          .Add(fakes::MakeCallSerializer("odd.txt", [](const auto&, pitot::ByteSink&) -> pitot::Status { throw 7; }))
          .ok());
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer(
                  "fails.txt",
                  [](const auto&, pitot::ByteSink&) { return pitot::Status(StatusCode::kDataLoss, "nothing to say"); }))
              .ok());
  REQUIRE(host.TriggerAndFlush());
  REQUIRE(host.TriggerAndFlush());

  CHECK(host.recorder.Stats().incidents_written == 2);
  CHECK(host.recorder.Stats().incidents_failed == 0);
  REQUIRE(host.incidents().size() == 2);
  for (const auto& name : host.incidents())
    CHECK(fakes::NamesIn(host.directory / name) == std::vector<std::string>{"dump.pitot", "keep", "report.txt"});
  CHECK(host.recorder.Stats().files_failed == 6);
  CHECK(host.log.Has(pitot::LogLevel::kError, "throws.txt"));
  CHECK(host.log.Has(pitot::LogLevel::kError, "the host's bug"));
  CHECK(host.log.Has(pitot::LogLevel::kError, "odd.txt"));
  CHECK(host.log.Has(pitot::LogLevel::kError, "fails.txt: nothing to say"));
}

TEST_CASE("the host's log and hooks are never called at idle priority", "[incident]") {
  std::atomic<int> called{0}, idle{0};
  struct Counts {
    std::atomic<int>*called, *idle;
  } counts{&called, &idle};
  Host host;
  host.options.log_context = &counts;
  host.options.log = [](void* context, pitot::LogLevel, const char*) {
    auto* to = static_cast<Counts*>(context);
    ++*to->called;
    if (sched_getscheduler(0) == SCHED_IDLE) ++*to->idle;
  };
  REQUIRE(host.Start());
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer(
                  "fails.txt",
                  [](const auto&, pitot::ByteSink&) { return pitot::Status(StatusCode::kDataLoss, "nothing to say"); }))
              .ok());
  pitot::Hooks hooks;
  hooks.context = &counts;
  hooks.on_incident = hooks.on_verdict = [](void* context, const pitot::IncidentInfo&) {
    auto* to = static_cast<Counts*>(context);
    ++*to->called;
    if (sched_getscheduler(0) == SCHED_IDLE) ++*to->idle;
  };
  REQUIRE(host.recorder.SetHooks(hooks).ok());
  REQUIRE(host.TriggerAndFlush());

  CHECK(called >= 4);  // the incident, its hook, the missing file, the last hook
  CHECK(idle == 0);
}

TEST_CASE("an incident's other files are written at idle priority", "[incident]") {
  if (!pitot::session::MayReturnFromIdle()) return;
  std::atomic<int> idle{0};
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer("file.txt",
                                             [&](const auto&, const auto&) {
                                               idle += sched_getscheduler(0) == SCHED_IDLE;
                                               return pitot::Status();
                                             }))
              .ok());
  // Several, because the patience with an idle worker may end on a busy machine.
  for (int i = 0; i < 10 && idle == 0; ++i) REQUIRE(host.TriggerAndFlush());

  CHECK(idle > 0);
}

TEST_CASE("an incident fails when every serializer does, and the next one may work", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  std::atomic<bool> fails{true};
  for (const char* name : {"dump.pitot", "report.txt", "keep"}) {
    REQUIRE(host.recorder
                .Add(fakes::MakeCallSerializer(name,
                                               [&](const auto&, pitot::ByteSink&) {
                                                 return fails ? pitot::Status(StatusCode::kInternal, "no luck")
                                                              : pitot::Status();
                                               }))
                .ok());
  }
  REQUIRE(host.TriggerAndFlush());
  CHECK(host.incidents().empty());
  CHECK(host.recorder.Stats().incidents_failed == 1);
  REQUIRE(host.told().size() == 2);
  CHECK(host.told()[0].directory.empty());
  CHECK(host.told()[0].code == StatusCode::kInternal);
  fails = false;
  REQUIRE(host.TriggerAndFlush());

  CHECK(host.incidents().size() == 1);
  CHECK(host.told()[2].number == 2);
}

TEST_CASE("Flush waits for every request before it, and gives up in time", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  CHECK(host.recorder.Flush(10'000).ok());  // nothing to wait for
  const auto gate = std::make_shared<fakes::Gate>();
  REQUIRE(host.recorder.Add(fakes::MakeGateSerializer(gate)).ok());
  REQUIRE(host.recorder.Trigger("slow").ok());
  REQUIRE(gate->WaitUntilReached());

  CHECK(host.recorder.Flush(20).code() == StatusCode::kUnavailable);
  CHECK(host.recorder.Stats().incidents_written == 1);  // its dump
  CHECK(fakes::ReadFile(host.directory / host.incidents()[0] + "/gate.txt").empty());
  gate->open = true;
  CHECK(host.recorder.Flush(60'000).ok());
  CHECK(host.recorder.Stats().incidents_written == 1);
  CHECK(fakes::ReadFile(host.directory / host.incidents()[0] + "/gate.txt") == "halfwhole");
}

TEST_CASE("host threads record, finish, trigger and ask while the worker is blocked forever", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.above_ms = 1000, .cool_down_ms = 0})).ok());
  const auto gate = std::make_shared<fakes::Gate>();
  REQUIRE(host.recorder.Add(fakes::MakeGateSerializer(gate)).ok());
  REQUIRE(host.recorder.Trigger("blocks").ok());
  REQUIRE(gate->WaitUntilReached());

  // None of this waits for the worker: that would last forever.
  for (int i = 0; i < 1000; ++i) {
    PITOT_SCOPE("goes on");
    Request request = Request::Begin("/r");
    request.Finish(Outcome::kOk);
    (void)host.recorder.Trigger("more");
  }
  (void)host.recorder.Stats();
  CHECK(host.recorder.Add(fakes::MakeEventsSerializer()).ok());
  CHECK(host.recorder.Add(pitot::MakeFailureTrigger({})).ok());
  CHECK(host.recorder.SetHooks({}).ok());
  CHECK(!gate->left);
  gate->open = true;
  CHECK(host.Flush());
  CHECK(host.recorder.Stats().incidents_written >= 2);
}

TEST_CASE("a due incident waiting for the worker costs no CPU", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  const auto gate = std::make_shared<fakes::Gate>();
  REQUIRE(host.recorder.Add(fakes::MakeGateSerializer(gate)).ok());
  REQUIRE(host.recorder.Trigger("blocks").ok());
  REQUIRE(gate->WaitUntilReached());
  REQUIRE(host.recorder.Trigger("waits").ok());
  const auto process_cpu_ms = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1'000'000;
  };

  const auto before = process_cpu_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // to let it spin, if it does
  const auto spent = process_cpu_ms() - before;
  gate->open = true;

  CHECK(spent < 100 * fakes::kSlower);
  CHECK(host.Flush());
}

TEST_CASE("calls that the host forgot are in the report, and once in the log", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  for (int i = 0; i < 25; ++i) {
    pitot::Request request = pitot::Request::Begin("/classify");
    { PITOT_SCOPE("decode"); }
    request.Finish(pitot::Outcome::kCancelled);
  }
  REQUIRE(host.TriggerAndFlush());
  REQUIRE(host.TriggerAndFlush());

  const std::string said = "all of 25 requests ended as cancelled or abandoned";
  for (const std::string& incident : host.incidents())
    CHECK(Contains(fakes::ReadFile(host.directory / incident + "/report.txt"), "\nMISSING CALLS: " + said));
  const std::vector<fakes::LogLine> lines = host.log.lines();
  CHECK(std::count_if(lines.begin(), lines.end(), [&](auto& line) { return Contains(line.text, said); }) == 1);
}

TEST_CASE("the watcher has short turns where the kernel grants them, so that it comes soon on busy CPUs",
          "[incident]") {
  using pitot::session::TurnAttributes;
  TurnAttributes usual;
  if (!pitot::session::ReadTurns(0, &usual) || usual.runtime_ns == 0) return;  // before Linux 6.12
  Host host;
  REQUIRE(host.Start());
  const auto has_short_turns = [] {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      if (fakes::ReadFile(task.path() / "comm") != "pitot-watch\n") continue;
      TurnAttributes turns;
      return pitot::session::ReadTurns(std::stoi(task.path().filename()), &turns) &&
             turns.runtime_ns == pitot::session::kShortTurnNs && turns.nice == getpriority(PRIO_PROCESS, 0);
    }
    return false;
  };
  CHECK(fakes::WaitUntil(has_short_turns));

  TurnAttributes after;
  REQUIRE(pitot::session::ReadTurns(0, &after));
  CHECK(after.runtime_ns == usual.runtime_ns);
}

TEST_CASE("a dump that could not be written is tried again", "[incident]") {
  Host host;
  REQUIRE(host.Start());
  int calls = 0;
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer("dump.pitot",
                                             [&calls](const auto&, pitot::ByteSink& sink) {
                                               if (++calls == 1) return pitot::Status(StatusCode::kIoError, "no room");
                                               sink.Write("whole", 5);
                                               return pitot::Status();
                                             }))
              .ok());
  REQUIRE(host.TriggerAndFlush());

  REQUIRE(host.incidents().size() == 1);
  CHECK(calls == 2);
  const auto files = fakes::NamesIn(host.directory / host.incidents()[0]);
  CHECK(std::count(files.begin(), files.end(), "dump.pitot") == 1);
  CHECK(host.recorder.Stats().files_failed == 0);
}
