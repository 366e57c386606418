// SPDX-License-Identifier: Apache-2.0
//
// The session's smaller parts: the CPU of its threads, calls of the host, its triggers, and its threads.
#include "session/parts.h"

#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fakes/serializers.h"
#include "fakes/wait_until.h"
#include "session/own_threads.h"
#include "session/triggers.h"
#include "session/worker_priority.h"

namespace {

using pitot::Firing;
using pitot::FiringSink;
using pitot::RequestView;
using pitot::Status;
using pitot::StatusCode;
using pitot::session::HostCalls;
using pitot::session::OwnThreads;
using pitot::session::Triggers;
using session_test::kMs;
using session_test::kSecond;
using session_test::Parts;

// Remembers firings.
struct FakeTaker final : pitot::session::FiringTaker {
  bool Push(const Firing& firing, uint64_t begin_ticks) noexcept override {
    taken.push_back("pushed " + std::string(firing.cause) + " " + std::to_string(begin_ticks));
    return has_room;
  }
  bool MayJoin() noexcept override { return may_join; }
  bool TakeStall(const Firing& firing, uint64_t begin_ticks) noexcept override {
    taken.push_back("stalled " + std::string(firing.cause) + " " + std::to_string(begin_ticks));
    return true;
  }
  std::vector<std::string> taken;
  bool has_room = true, may_join = false;
};

// Fires at each request, and remembers the sink's answers.
struct FiringTrigger final : pitot::Trigger {
  void OnFinish(const RequestView&, FiringSink& sink) noexcept override { Fire(sink); }
  void OnTokens(const RequestView&, uint64_t, FiringSink& sink) noexcept override { Fire(sink); }
  bool WatchesOpenRequests() const noexcept override { return watches_requests; }
  bool WatchesOpenScopes() const noexcept override { return watches_scopes; }
  uint64_t LateAfterNs(const char*) noexcept override { return late_after_ns; }
  void Fire(FiringSink& sink) {
    Firing firing;
    firing.cause = "fake";
    was_taken = sink.Fire(firing);
    may_join = sink.MayJoin();
  }
  bool was_taken = false, may_join = false;
  bool watches_requests = false, watches_scopes = false;
  uint64_t late_after_ns = 0;
};

}  // namespace

TEST_CASE("the worker may save up a second of CPU time, and then waits for its share", "[throttle]") {
  Parts parts(false, 10);
  parts.throttle->Enter();
  session_test::cpu_ns += 1000 * kMs;
  REQUIRE(parts.throttle->Proceed());
  CHECK(parts.timer.waited_ns == 0);
  parts.timer.now_ns += 3600 * kSecond;
  REQUIRE(parts.throttle->Proceed());
  session_test::cpu_ns += 1000 * kMs;
  REQUIRE(parts.throttle->Proceed());
  CHECK(parts.timer.waited_ns == 0);

  // It does not wake up for less than 5 ms of CPU time.
  session_test::cpu_ns += 10 * kMs;
  REQUIRE(parts.throttle->Proceed());
  CHECK(parts.timer.waited_ns / kMs == 150);
}

TEST_CASE("work behind verdicts leaves 400 ms of CPU time for them, and ends when one is awaited", "[throttle]") {
  Parts parts(false, 10);
  parts.throttle->Enter();
  session_test::cpu_ns += 600 * kMs;
  CHECK(parts.throttle->ProceedBehindVerdicts([] { return false; }));
  CHECK(parts.timer.waited_ns == 0);
  session_test::cpu_ns += 1 * kMs;
  CHECK(parts.throttle->ProceedBehindVerdicts([] { return false; }));
  CHECK(parts.timer.waited_ns / kMs == 60);

  session_test::cpu_ns += 100 * kMs;
  int asked = 0;
  CHECK_FALSE(parts.throttle->ProceedBehindVerdicts([&] { return ++asked == 3; }));
  CHECK(parts.timer.waited_ns / kMs == 60 + 2 * 50);  // it looks around while it waits
}

TEST_CASE("the worker does not wait for its share while the host waits for it, and ends when the time is up",
          "[throttle]") {
  Parts parts(false, 10);
  parts.throttle->Enter();
  session_test::cpu_ns += 60 * kSecond;
  CHECK_FALSE(parts.throttle->IsFinishing());
  parts.throttle->Finish();
  CHECK(parts.throttle->IsFinishing());

  CHECK(parts.throttle->Proceed());
  CHECK(parts.timer.waited_ns == 0);
  parts.lifetime.GiveUp();
  CHECK_FALSE(parts.throttle->Proceed());
}

TEST_CASE("the worker pays for CPU time that the writer used, and the writer has saved up for some dumps",
          "[throttle]") {
  Parts parts(false, 10);
  pitot::session::CpuThrottle writer(10, &parts.lifetime, &parts.timer, session_test::CpuClock);
  writer.EnterAtNormal();
  session_test::cpu_ns += 1000 * kMs;
  REQUIRE(writer.Proceed());
  CHECK(parts.timer.waited_ns == 0);
  session_test::cpu_ns += 10 * kMs;
  REQUIRE(writer.Proceed());
  CHECK(parts.timer.waited_ns / kMs == 150);

  session_test::cpu_ns = 0;
  parts.throttle->Enter();
  parts.timer.waited_ns = 0;
  parts.throttle->Charge(1030 * kMs);
  REQUIRE(parts.throttle->Proceed());
  CHECK(parts.timer.waited_ns / kMs == 350);
  REQUIRE(parts.throttle->Proceed());
  CHECK(parts.timer.waited_ns / kMs == 350);
}

TEST_CASE("the worker is hurried while somebody waits for it, and may be idle afterwards", "[throttle]") {
  if (!pitot::session::MayReturnFromIdle()) return;
  Parts parts;
  std::thread worker([&] {
    const auto is_idle = [&] {
      parts.throttle->priority()->BeIdle();
      const bool idle = sched_getscheduler(0) == SCHED_IDLE;
      parts.throttle->priority()->BeNormal();
      return idle;
    };
    parts.throttle->Enter();
    CHECK(is_idle());
    {
      const pitot::session::CpuThrottle::Awaited awaited(parts.throttle.get());
      CHECK_FALSE(is_idle());
    }
    CHECK(is_idle());
    parts.throttle->Finish();
    { const pitot::session::CpuThrottle::Awaited awaited(parts.throttle.get()); }
    CHECK_FALSE(is_idle());
  });
  worker.join();
}

TEST_CASE("one hook is called at a time, and the writer does not wait for the one in progress", "[host]") {
  Parts parts;
  static std::shared_ptr<fakes::Gate> gate;
  gate = std::make_shared<fakes::Gate>();
  static std::atomic<int> told;
  told = 0;
  pitot::Hooks hooks;
  hooks.on_verdict = [](void*, const pitot::IncidentInfo&) { gate->Pass(); };
  hooks.on_incident = [](void*, const pitot::IncidentInfo&) { ++told; };
  parts.host.SetHooks(hooks);
  const auto incident = session_test::MakeIncident(1);
  CHECK(parts.host.TellIfFree(&pitot::Hooks::on_incident, *incident, "", {}));
  CHECK(told == 1);
  std::thread worker([&] { parts.host.Tell(&pitot::Hooks::on_verdict, *incident, "", {}, ""); });
  REQUIRE(gate->WaitUntilReached());

  CHECK_FALSE(parts.host.TellIfFree(&pitot::Hooks::on_incident, *incident, "", {}));
  CHECK(told == 1);
  gate->open = true;
  parts.host.Tell(&pitot::Hooks::on_incident, *incident, "", {}, "");
  CHECK(gate->left);
  CHECK(told == 2);
  worker.join();
}

TEST_CASE("nobody waits for a hook that hangs once the recorder gives up", "[host]") {
  Parts parts;
  static std::shared_ptr<fakes::Gate> gate;
  gate = std::make_shared<fakes::Gate>();
  static std::atomic<int> told;
  told = 0;
  pitot::Hooks hooks;
  hooks.on_incident = [](void*, const pitot::IncidentInfo&) { gate->Pass(); };
  hooks.on_verdict = [](void*, const pitot::IncidentInfo&) { ++told; };
  parts.host.SetHooks(hooks);
  const auto incident = session_test::MakeIncident(1);
  std::thread writer([&] { parts.host.Tell(&pitot::Hooks::on_incident, *incident, "", {}, ""); });
  REQUIRE(gate->WaitUntilReached());
  std::thread worker([&] { parts.host.Tell(&pitot::Hooks::on_verdict, *incident, "", {}, ""); });

  parts.lifetime.GiveUp();
  parts.host.NoteGivenUp();
  worker.join();
  CHECK_FALSE(gate->left);
  CHECK(told == 0);
  gate->open = true;
  writer.join();
}

TEST_CASE("an incident that waits for its verdict keeps one firing, and tells as many slow requests", "[host]") {
  for (const uint64_t first : {7, 0}) {
    auto incident = session_test::MakeIncident(first);
    for (uint64_t i = 0; i < 255; ++i) incident->firings.push_back(session_test::QueuedFiring("x", 0, 100 + i % 9));
    const uint64_t requests = SlowRequests(*incident);
    CHECK(requests == (first != 0 ? 10 : 9));

    for (int i = 0; i < 2; ++i) {
      KeepForHooks(incident.get());
      CHECK(incident->firings.capacity() == 1);
      CHECK(incident->firings.front().request == first);
      CHECK(SlowRequests(*incident) == requests);
    }
  }
}

TEST_CASE("a silenced host is not called any more", "[host]") {
  Parts parts;
  int told = 0;
  pitot::Hooks hooks;
  hooks.context = &told;
  hooks.on_incident = [](void* context, const pitot::IncidentInfo&) { ++*static_cast<int*>(context); };
  parts.host.SetHooks(hooks);
  const auto tell = [&] {
    parts.host.Log(pitot::LogLevel::kInfo, "line");
    parts.host.Tell(&pitot::Hooks::on_incident, *session_test::MakeIncident(1), "", {}, "");
  };
  tell();
  CHECK(parts.log.lines().size() == 1);
  CHECK(told == 1);

  parts.host.Silence(kSecond);
  tell();
  CHECK(parts.log.lines().size() == 1);
  CHECK(told == 1);
  CHECK_FALSE(HostCalls::Entry(&parts.host).is_allowed());
}

TEST_CASE("silence waits for calls in progress, for a limited time", "[host]") {
  Parts parts;
  auto entry = std::make_unique<HostCalls::Entry>(&parts.host);
  REQUIRE(entry->is_allowed());
  parts.host.Silence(0);  // its time is up
  std::atomic<bool> is_silent{false};
  std::thread stopper([&] {
    parts.host.Silence(600 * kSecond);
    is_silent = true;
  });
  const bool was_silent = is_silent;
  entry.reset();
  stopper.join();
  CHECK_FALSE(was_silent);
}

TEST_CASE("an incident's hook tells its first firing and its slow requests, each once", "[host]") {
  Parts parts;
  pitot::Hooks hooks;
  static uint64_t slow_requests, first_request;
  static std::string directory;
  hooks.on_verdict = [](void*, const pitot::IncidentInfo& info) {
    slow_requests = info.slow_requests, first_request = info.first_request;
    directory = info.directory;
    throw 1;
  };
  parts.host.SetHooks(hooks);
  const auto incident = session_test::MakeIncident(7);
  for (const uint64_t request : {8, 7, 0, 8}) incident->firings.push_back(session_test::QueuedFiring("x", 0, request));
  parts.host.Tell(&pitot::Hooks::on_verdict, *incident, "/there", {}, "");

  CHECK(slow_requests == 2);
  CHECK(first_request == 7);
  CHECK(directory == "/there");
  CHECK(parts.log.Has(pitot::LogLevel::kError, "a hook threw an exception"));
}

TEST_CASE("a trigger's firings go on with the begin of their request", "[triggers]") {
  Parts parts;
  FakeTaker taker;
  Triggers triggers(true, &parts.host, &taker);
  auto made = std::make_unique<FiringTrigger>();
  FiringTrigger& trigger = *made;
  REQUIRE(triggers.Add(std::move(made)).ok());
  triggers.OnFinish({}, 5);
  CHECK(trigger.was_taken);
  CHECK_FALSE(trigger.may_join);

  taker.has_room = false, taker.may_join = true;
  triggers.OnTokens({}, 6, 100);
  CHECK_FALSE(trigger.was_taken);
  CHECK(trigger.may_join);
  CHECK(taker.taken == std::vector<std::string>{"pushed fake 5", "pushed fake 6"});
}

TEST_CASE("what one trigger watches is watched, and the earliest lateness counts", "[triggers]") {
  Parts parts;
  FakeTaker taker;
  Triggers triggers(true, &parts.host, &taker);
  CHECK_FALSE(triggers.WatchedWork().requests);
  CHECK(triggers.LateAfterNs("/r") == 0);
  for (const uint64_t late_ns : {0, 300, 200}) {
    auto trigger = std::make_unique<FiringTrigger>();
    trigger->watches_scopes = trigger->late_after_ns = late_ns;
    REQUIRE(triggers.Add(std::move(trigger)).ok());
  }

  CHECK_FALSE(triggers.WatchedWork().requests);
  CHECK(triggers.WatchedWork().scopes);
  CHECK(triggers.LateAfterNs("/r") == 200);
}

TEST_CASE("a recorder takes 32 triggers", "[triggers]") {
  Parts parts;
  FakeTaker taker;
  Triggers triggers(true, &parts.host, &taker);
  CHECK(triggers.Add(nullptr).code() == StatusCode::kResourceExhausted);
  for (uint32_t i = 0; i < Triggers::kMost; ++i) CHECK(triggers.Add(std::make_unique<FiringTrigger>()).ok());

  CHECK(triggers.Add(std::make_unique<FiringTrigger>()).code() == StatusCode::kResourceExhausted);
  triggers.OnFinish({}, 1);
  CHECK(taker.taken.size() == Triggers::kMost);
}

TEST_CASE("threads that have ended are joined, and nothing is kept", "[threads]") {
  OwnThreads threads;
  std::atomic<int> ran{0};
  threads.Start(OwnThreads::Role::kWatcher, [&] { ++ran; });
  threads.Start(OwnThreads::Role::kWorker, [&] { ++ran; });
  const auto kept = std::make_shared<int>(7);

  CHECK(threads.Join(kept, 600 * kSecond));
  CHECK(ran == 2);
  CHECK(kept.use_count() == 1);
}

TEST_CASE("a thread that does not come back keeps what it works on, until it ends", "[threads]") {
  auto threads = std::make_shared<OwnThreads>();
  const auto gate = std::make_shared<fakes::Gate>();
  threads->Start(OwnThreads::Role::kTeller, [gate] { gate->Pass(); });
  REQUIRE(gate->WaitUntilReached());

  CHECK_FALSE(threads->Join(threads, 1));
  threads->Detach();
  const std::weak_ptr<OwnThreads> kept = threads;
  threads.reset();
  CHECK_FALSE(kept.expired());
  gate->open = true;
  CHECK(fakes::WaitUntil([&] { return kept.expired(); }));
}
