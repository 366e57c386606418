// SPDX-License-Identifier: Apache-2.0
//
// Steps of tasks, garbage collections, holders of the interpreter's lock, and names of threads.
#include "pitot/interpreter.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <thread>

#include "fakes/recording.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_server.h"
#include "pitot/manual.h"
#include "pitot/request.h"
#include "pitot/wait.h"
#include "trace/rings.h"

namespace {

using fakes::EventsNamed;
using fakes::kStartNs;
using fakes::VirtualServer;
using pitot::BeginScope;
using pitot::BeginStep;
using pitot::EndScope;
using pitot::EndStep;
using pitot::Intern;

constexpr uint64_t kSlowNs = 1'000'000;
using Args = std::vector<std::pair<std::string, std::string>>;

// A request whose thread goes on without it.
pitot::Request BeginRequest(const char* route) {
  BeginStep(0);
  pitot::Request request = pitot::Request::Begin(route);
  EndStep(kSlowNs);
  return request;
}

}  // namespace

TEST_CASE("events of a step belong to the step's request", "[interpreter]") {
  VirtualServer server;
  pitot::Request a = BeginRequest("/a"), b = BeginRequest("/b");
  PITOT_INSTANT("before");
  BeginStep(a.id());
  PITOT_INSTANT("of a");
  CHECK(pitot::ThisOwner().request == a.id());
  EndStep(kSlowNs);
  BeginStep(b.id());
  PITOT_INSTANT("of b");
  EndStep(kSlowNs);
  BeginStep(0);
  PITOT_INSTANT("of nobody");
  EndStep(kSlowNs);
  BeginStep(a.id());
  PITOT_INSTANT("of a again");
  EndStep(kSlowNs);
  PITOT_INSTANT("after");
  CHECK(pitot::ThisOwner().request == 0);

  const auto trace = server.Trace();

  const auto request_of = [&](const char* name) { return EventsNamed(trace, name).at(0).request_id; };
  CHECK(request_of("before") == 0);
  CHECK(request_of("of a") == a.id());
  CHECK(request_of("of b") == b.id());
  CHECK(request_of("of nobody") == 0);
  CHECK(request_of("of a again") == a.id());
  CHECK(request_of("after") == 0);
}

TEST_CASE("a thread with an event loop is marked once a second", "[interpreter]") {
  VirtualServer server;
  for (int i = 0; i < 4; ++i) {
    BeginStep(0);
    EndStep(kSlowNs);
    server.clock.Advance(600'000'000);
  }

  CHECK(EventsNamed(server.Trace(), "event loop").size() == 2);
}

TEST_CASE("a step without events leaves no record", "[interpreter]") {
  VirtualServer server;
  pitot::Request a = BeginRequest("/a"), b = BeginRequest("/b");
  const uint64_t head = server.threads.ring(0)->head;

  for (const uint64_t id : {a.id(), b.id(), uint64_t{0}, a.id()}) {
    BeginStep(id);
    CHECK(pitot::ThisOwner().request == id);
    EndStep(kSlowNs);
  }

  CHECK(server.threads.ring(0)->head == head);
}

TEST_CASE("a request that begins and ends in a step leaves the thread without a request", "[interpreter]") {
  VirtualServer server;
  BeginStep(0);
  pitot::Request a = pitot::Request::Begin("/a");
  const uint64_t id = a.id();
  PITOT_INSTANT("of a");
  a.Finish(pitot::Outcome::kOk);
  PITOT_INSTANT("after it");
  EndStep(kSlowNs);

  const auto trace = server.Trace();

  CHECK(EventsNamed(trace, "of a").at(0).request_id == id);
  CHECK(EventsNamed(trace, "after it").at(0).request_id == 0);
}

TEST_CASE("a loop that runs in a request leaves the thread its request", "[interpreter]") {
  VirtualServer server;
  pitot::Request other = BeginRequest("/a"), sync = pitot::Request::Begin("/sync");
  for (const uint64_t id : {other.id(), uint64_t{0}, sync.id()}) {
    for (const bool has_event : {false, true}) {
      BeginStep(id);
      CHECK(pitot::ThisOwner().request == id);
      if (has_event) PITOT_INSTANT("in a step");
      EndStep(kSlowNs);
      CHECK(pitot::ThisOwner().request == sync.id());
    }
  }
  PITOT_INSTANT("after");

  const auto trace = server.Trace();

  const auto steps = EventsNamed(trace, "in a step");
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].request_id == other.id());
  CHECK(steps[1].request_id == 0);
  CHECK(steps[2].request_id == sync.id());
  CHECK(EventsNamed(trace, "after").at(0).request_id == sync.id());
}

TEST_CASE("a request that ends in a step does not come back after it", "[interpreter]") {
  VirtualServer server;
  pitot::Request other = BeginRequest("/a"), sync = pitot::Request::Begin("/sync");
  const uint64_t step_request = GENERATE(0, 1) == 0 ? other.id() : sync.id();
  BeginStep(step_request);
  sync.Finish(pitot::Outcome::kOk);
  EndStep(kSlowNs);

  CHECK(pitot::ThisOwner().request == 0);
}

TEST_CASE("a step without an end does not give the thread its request", "[interpreter]") {
  VirtualServer server;
  pitot::Request a = BeginRequest("/a");
  BeginStep(a.id());
  BeginStep(a.id());
  EndStep(kSlowNs);

  CHECK(pitot::ThisOwner().request == 0);
}

TEST_CASE("a scope that a step leaves open is counted and not recorded", "[interpreter]") {
  VirtualServer server;
  BeginScope(Intern("around the loop"));
  BeginStep(0);
  BeginScope(Intern("suspended"));
  server.clock.Advance(10);
  EndStep(kSlowNs);
  CHECK(pitot::trace::CountRings().closed_elsewhere == 1);
  BeginStep(0);
  BeginScope(Intern("another task's"));
  server.clock.Advance(20);
  EndScope();
  EndScope();  // of the suspended scope
  EndStep(kSlowNs);
  server.clock.Advance(30);
  EndScope();

  const auto trace = server.Trace();

  const auto events = fakes::Events(trace);
  REQUIRE(events.size() == 3);
  CHECK(events[0].name == "around the loop");
  CHECK(events[0].duration_ns == 60);
  CHECK(events[1].name == "event loop");
  CHECK(events[2].name == "another task's");
  CHECK(events[2].duration_ns == 20);
  CHECK(server.threads.ring(0)->depth == 0);
  CHECK(pitot::trace::CountRings().misnested == 0);
}

TEST_CASE("a wait that a step leaves open is counted and not recorded", "[interpreter]") {
  VirtualServer server;
  BeginStep(0);
  {
    PITOT_WAIT(pitot::WaitKind::kQueue, "jobs", pitot::Owner{});
    BeginScope(Intern("suspended in it"));
    EndStep(kSlowNs);
    server.clock.Advance(10);
    BeginStep(0);
  }
  EndStep(kSlowNs);

  CHECK(EventsNamed(server.Trace(), "wait").empty());
  CHECK(EventsNamed(server.Trace(), "suspended in it").empty());
  CHECK(pitot::trace::CountRings().closed_elsewhere == 2);
  CHECK(pitot::trace::CountRings().misnested == 0);
  CHECK(server.threads.ring(0)->depth == 0);
}

TEST_CASE("a slow step is recorded with the name of its task and its request", "[interpreter]") {
  VirtualServer server;
  pitot::Request a = BeginRequest("/a");
  BeginStep(a.id());
  server.clock.Advance(kSlowNs - 1);
  CHECK_FALSE(EndStep(kSlowNs));
  BeginStep(a.id());
  server.clock.Advance(kSlowNs);
  CHECK(EndStep(kSlowNs));
  pitot::RecordStep(Intern("handle (app.py:12)"), a.id());
  pitot::RecordStep(Intern("handle (app.py:12)"), a.id());  // it is recorded once

  const auto steps = EventsNamed(server.Trace(), "handle (app.py:12)");

  REQUIRE(steps.size() == 1);
  CHECK(steps[0].begin_ns == kStartNs + static_cast<int64_t>(kSlowNs) - 1);
  CHECK(steps[0].duration_ns == kSlowNs);
  CHECK(steps[0].args == Args{{"name", "handle (app.py:12)"}, {"request", std::to_string(a.id())}});
}

TEST_CASE("steps that were ready during a slow one are marked until the loop is idle", "[interpreter]") {
  VirtualServer server;
  pitot::Request a = BeginRequest("/a"), b = BeginRequest("/b");
  const auto step = [&](uint64_t id, int64_t ns) {
    BeginStep(id);
    server.clock.Advance(ns);
    EndStep(kSlowNs);
  };
  step(b.id(), 1'000);
  step(a.id(), kSlowNs);
  step(b.id(), 1'000);
  step(0, 1'000);
  server.clock.Advance(2'100'000);
  step(b.id(), 1'000);

  const auto resumed = EventsNamed(server.Trace(), "resumed");

  REQUIRE(resumed.size() == 1);
  CHECK(resumed[0].begin_ns == kStartNs + 1'000 + static_cast<int64_t>(kSlowNs));
  CHECK(resumed[0].request_id == b.id());
}

TEST_CASE("a collection is recorded with its beginning in the past", "[interpreter]") {
  VirtualServer server;
  server.clock.Advance(100);
  pitot::RecordCollection(10, 50, 2, 1234);

  const auto collections = EventsNamed(server.Trace(), "garbage collection");

  REQUIRE(collections.size() == 1);
  CHECK(collections[0].begin_ns == kStartNs + 40);
  CHECK(collections[0].duration_ns == 50);
  CHECK(collections[0].args == Args{{"generation", "2"}, {"collected", "1234"}});
}

TEST_CASE("a holder of the interpreter's lock is recorded with its thread and place", "[interpreter]") {
  VirtualServer server;
  server.clock.Advance(100);
  pitot::RecordLockHeld(10, 60, {77, Intern("cruncher"), Intern("app.py:88 render"), 55});

  const auto held = EventsNamed(server.Trace(), "waited for the interpreter's lock");

  REQUIRE(held.size() == 1);
  CHECK(held[0].begin_ns == kStartNs + 30);
  CHECK(held[0].duration_ns == 60);
  CHECK(held[0].args ==
        Args{{"tid", "77"}, {"thread", "cruncher"}, {"place", "app.py:88 render"}, {"on_cpu_ns", "55"}});
}

TEST_CASE("a stop of all threads is recorded with the thread that ran meanwhile", "[interpreter]") {
  VirtualServer server;
  server.clock.Advance(100);
  pitot::RecordThreadsStopped(10, 60, {77, Intern("sampler"), Intern(""), 55});

  const auto stopped = EventsNamed(server.Trace(), "the interpreter stopped its threads");

  REQUIRE(stopped.size() == 1);
  CHECK(stopped[0].begin_ns == kStartNs + 30);
  CHECK(stopped[0].duration_ns == 60);
  CHECK(stopped[0].args == Args{{"tid", "77"}, {"thread", "sampler"}, {"place", ""}, {"on_cpu_ns", "55"}});
}

TEST_CASE("a step is running from its beginning to its end, on any thread", "[interpreter]") {
  VirtualServer server;
  server.clock.Advance(100);
  CHECK_FALSE(pitot::IsStepRunning(0));
  BeginStep(0);
  server.clock.Advance(40);
  CHECK(pitot::IsStepRunning(40));
  CHECK_FALSE(pitot::IsStepRunning(41));
  CHECK(std::async(std::launch::async, [] { return pitot::IsStepRunning(40); }).get());
  EndStep(kSlowNs);
  CHECK_FALSE(pitot::IsStepRunning(0));
}

TEST_CASE("each thread that begins to record is counted", "[interpreter]") {
  VirtualServer server;
  const uint32_t before = pitot::ThreadsRecorded();
  std::async(std::launch::async, [] { PITOT_INSTANT("first"); }).get();
  CHECK(pitot::ThreadsRecorded() == before + 1);
}

TEST_CASE("without a recorder evidence of an interpreter does nothing", "[interpreter]") {
  BeginStep(1);
  CHECK_FALSE(EndStep(0));
  pitot::RecordStep(Intern("a"), 1);
  pitot::RecordCollection(0, 1, 0, 0);
  pitot::RecordLockHeld(0, 1, {});
  pitot::RecordThreadsStopped(0, 1, {});
  CHECK_FALSE(pitot::IsStepRunning(0));
  CHECK_FALSE(pitot::NameThread(static_cast<int64_t>(syscall(SYS_gettid)), "nobody"));
}

TEST_CASE("the CPU time of threads is read, and that of an unknown thread is 0", "[interpreter]") {
  const int64_t tids[] = {static_cast<int64_t>(syscall(SYS_gettid)), 0, int64_t{1} << 40};
  uint64_t cpu_ns[] = {7, 7, 7};

  const uint64_t now_ns = pitot::SleepAndReadCpu(0, tids, cpu_ns, 3);

  CHECK(now_ns > 0);
  CHECK(cpu_ns[0] > 7);
  CHECK(cpu_ns[1] == 0);
  CHECK(cpu_ns[2] == 0);
}

TEST_CASE("a thread that has recorded something is named by another, unless it named itself", "[interpreter]") {
  const fakes::Recording recording;
  std::promise<int64_t> ready[2];
  std::promise<void> named;
  const std::shared_future<void> go_on = named.get_future().share();
  const auto run = [&](int i) {
    if (i == 1) pitot::SetThreadName("named by itself");
    PITOT_INSTANT("an event");
    ready[i].set_value(static_cast<int64_t>(syscall(SYS_gettid)));
    go_on.wait();
  };
  std::thread threads[] = {std::thread(run, 0), std::thread(run, 1)};

  CHECK(pitot::NameThread(ready[0].get_future().get(), "http-1"));
  CHECK(pitot::NameThread(ready[1].get_future().get(), "http-2"));
  CHECK_FALSE(pitot::NameThread(int64_t{1} << 40, "nobody"));
  named.set_value();
  for (std::thread& thread : threads) thread.join();

  const auto events = EventsNamed(recording.Trace(), "an event");
  REQUIRE(events.size() == 2);
  const bool is_first = events[0].thread == "http-1";
  CHECK(events[is_first ? 0 : 1].thread == "http-1");
  CHECK(events[is_first ? 1 : 0].thread == "named by itself");
}
