// SPDX-License-Identifier: Apache-2.0
//
// Health: signs in, state out, in fake time; and the signs of real requests.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "fakes/wait_until.h"
#include "pitot/pitot.h"
#include "session/health.h"
#include "session/host.h"
#include "snapshot/signs.h"

namespace {

using pitot::HealthState;
using pitot::Request;
using pitot::session::HealthLimits;
using pitot::session::JudgeHealth;
using pitot::snapshot::OpenSign;
using pitot::snapshot::Signs;
using pitot::snapshot::ThreadSign;

constexpr uint64_t kMs = 1'000'000, kSecond = 1'000'000'000, kNow = 10'000 * kSecond;

class Names final : public pitot::snapshot::Texts {
 public:
  std::string Name(uint32_t index) const override { return index == 0 ? "(other)" : "/" + std::to_string(index); }
  pitot::snapshot::SiteText Site(uint64_t) const override { return {}; }
  bool Literal(uint64_t, std::string*) const override { return false; }
  uint64_t ThreadEndSite() const override { return 0; }
};

// The signs of a server at kNow. Ticks are ns.
struct Server {
  Signs signs;
  Server() { signs.now_ticks = signs.life_ticks = kNow; }
  // Ages, ns.
  OpenSign& Open(uint32_t route, uint64_t open_ns, uint64_t quiet_ns) {
    OpenSign sign;
    sign.id = signs.requests.size() + 1;
    sign.route = route;
    sign.begin_ticks = kNow - open_ns;
    sign.sign_ticks = kNow - quiet_ns;
    sign.late_ticks = ~uint64_t{0};
    signs.requests.push_back(sign);
    return signs.requests.back();
  }
  void Ended(uint32_t route, uint64_t ago_ns, uint64_t longest_ns = 0) {
    signs.routes.push_back({route, kNow - ago_ns, longest_ns});
  }
  // As many failed. Ages, ns.
  pitot::trace::RouteProgress& Failed(uint32_t route, uint32_t count, uint64_t since_ns, uint64_t ago_ns) {
    pitot::trace::RouteProgress progress;
    progress.name = route;
    progress.failing_ticks = kNow - since_ns;
    progress.failed_ticks = kNow - ago_ns;
    progress.failed = count;
    signs.routes.push_back(progress);
    return signs.routes.back();
  }
  pitot::Health Judge() const { return JudgeHealth(signs, HealthLimits(), Names()); }
  HealthState State() const { return Judge().state; }
};

TEST_CASE("a process with nothing open is idle, however long", "[health]") {
  Server server;
  CHECK(server.State() == HealthState::kIdle);
  server.Ended(1, 24 * 3600 * kSecond);
  CHECK(server.State() == HealthState::kIdle);
}

TEST_CASE("a request without progress for the limit stalls its process, if no other of its route goes on", "[health]") {
  Server server;
  server.Open(1, 9 * kSecond, 9 * kSecond);
  CHECK(server.State() == HealthState::kProgressing);
  OpenSign& stuck = server.Open(1, 71 * kSecond, 34 * kSecond);
  stuck.stage = 7;
  const pitot::Health health = server.Judge();
  CHECK(health.state == HealthState::kStalled);
  CHECK(health.request == stuck.id);
  CHECK(health.open_ms == 71'000);
  CHECK(health.quiet_ms == 34'000);
  CHECK(health.requests_open == 2);
  CHECK(health.requests_waiting == 1);
  CHECK(std::string(health.route) == "/1");
  CHECK(std::string(health.stage) == "/7");
  CHECK(std::string(health.text) ==
        "stalled: request 0000000000000002 of /1 (open 71.00 s, stage /7) made no progress for 34.00 s; 1 other "
        "request waits behind it");
}

TEST_CASE("two requests of a route whose requests are short stall sooner", "[health]") {
  struct Case {
    uint64_t longest_ns, limit_ns;
  };
  for (const auto& [longest_ns, limit_ns] : {Case{0, 10 * kSecond}, Case{50 * kMs, 1500 * kMs},
                                             Case{kSecond, 4 * kSecond}, Case{60 * kSecond, 10 * kSecond}}) {
    Server server;
    server.Ended(1, 100 * kSecond, longest_ns);
    server.Ended(0, 0, 0);
    for (int i = 0; i < 2; ++i) server.Open(1, 60 * kSecond, limit_ns - kMs);
    CHECK(server.State() == HealthState::kProgressing);
    for (OpenSign& request : server.signs.requests) request.sign_ticks = kNow - limit_ns;
    CHECK(server.State() == HealthState::kStalled);
    // Another one's end, half of the limit after it.
    server.signs.routes[0].ok_ticks = kNow - limit_ns + limit_ns / 2 + 1;
    CHECK(server.State() == HealthState::kSlow);
  }
}

TEST_CASE("one long request of a route whose requests are short has the whole limit, and so have those that run",
          "[health]") {
  Server server;
  server.Ended(1, 100 * kSecond, 20 * kMs);
  server.Open(1, 9 * kSecond, 9 * kSecond);
  CHECK(server.State() == HealthState::kProgressing);
  server.Open(1, kSecond, kSecond);  // behind it
  CHECK(server.State() == HealthState::kProgressing);
  server.Open(1, 2 * kSecond, 2 * kSecond).is_running = true;
  CHECK(server.State() == HealthState::kProgressing);
  server.signs.requests[2].is_running = false;
  CHECK(server.State() == HealthState::kStalled);
  server.signs.requests[2].is_running = true;
  server.signs.requests[0].sign_ticks = kNow - 10 * kSecond;
  CHECK(server.State() == HealthState::kStalled);
}

TEST_CASE("a thread that uses a CPU runs for its request, its batch and the parent", "[health]") {
  Server server;
  for (int i = 0; i < 5; ++i) server.Open(1, 60 * kSecond, 60 * kSecond);
  server.signs.requests[1].batch = 77;
  server.signs.requests[3].parent = server.signs.requests[2].id;
  pitot::snapshot::Combine({{1, 0, 0, 11}, {0, 77, 0, 12}, {4, 0, 0, 13}, {5, 0, 0, 14}, {0, 0, kNow}}, &server.signs);
  CHECK(server.signs.workers.size() == 4);
  const auto running = [&] {
    std::string text;
    for (const OpenSign& request : server.signs.requests) text += request.is_running ? "R" : ".";
    return text;
  };
  pitot::snapshot::NoteRunning({}, &server.signs);
  CHECK(running() == ".....");
  pitot::snapshot::NoteRunning({12, 99}, &server.signs);
  CHECK(running() == ".R...");
  pitot::snapshot::NoteRunning({11, 13}, &server.signs);
  CHECK(running() == "RRRR.");
}

TEST_CASE("a route whose requests all fail stalls its process, though each is replaced within the limit", "[health]") {
  Server server;
  for (uint64_t i = 0; i < 8; ++i) server.Open(1, i * kSecond / 2, i * kSecond / 2);
  CHECK(server.State() == HealthState::kProgressing);
  server.Failed(1, 40, 27 * kSecond, kSecond);
  const pitot::Health health = server.Judge();
  CHECK(health.state == HealthState::kStalled);
  CHECK(health.request == 0);
  CHECK(health.quiet_ms == 27'000);
  CHECK(health.requests_open == 8);
  CHECK(std::string(health.route) == "/1");
  CHECK(std::string(health.text) ==
        "stalled: no request of /1 ended well for 27.00 s; 40 timed out, failed or were given up");
  // Also between two requests.
  server.signs.requests.clear();
  CHECK(server.State() == HealthState::kStalled);
}

TEST_CASE("failed requests prove nothing while their route goes on, or if nobody asks any more", "[health]") {
  Server recent;
  recent.Failed(1, 40, 9 * kSecond, kSecond);
  CHECK(recent.State() == HealthState::kIdle);
  Server old;
  old.Failed(1, 40, 27 * kSecond, 11 * kSecond);
  CHECK(old.State() == HealthState::kIdle);
  Server well;
  well.Failed(1, 40, 27 * kSecond, kSecond).ok_ticks = kNow - 2 * kSecond;
  CHECK(well.State() == HealthState::kIdle);
  Server streams;  // one that is open works
  streams.Failed(1, 40, 27 * kSecond, kSecond);
  streams.Open(1, 8 * kSecond, kSecond);
  CHECK(streams.State() == HealthState::kProgressing);
  streams.signs.requests[0].sign_ticks = kNow - 4 * kSecond;  // it was accepted only
  CHECK(streams.State() == HealthState::kStalled);
  Server another;  // does not hide it
  another.Failed(1, 40, 27 * kSecond, kSecond);
  another.Ended(2, kMs);
  CHECK(another.State() == HealthState::kStalled);
}

TEST_CASE("a process of which no open request is known is not taken for idle", "[health]") {
  Server server;
  server.signs.are_requests_known = false;
  CHECK(server.State() == HealthState::kUnknown);
  CHECK(std::string(server.Judge().text) == "unknown: its open requests had no room in the black box");
}

TEST_CASE("a probe on another route does not hide a stall", "[health]") {
  Server server;
  server.Open(1, 60 * kSecond, 50 * kSecond);
  server.Ended(2, kMs);
  server.Open(2, kMs, kMs);
  CHECK(server.State() == HealthState::kStalled);
}

TEST_CASE("requests that arrive and get stuck do not hide a stall", "[health]") {
  Server server;
  server.Open(1, 60 * kSecond, 50 * kSecond);
  for (uint64_t s = 1; s < 40; ++s) server.Open(1, s * kSecond, s * kSecond - 500 * kMs);
  CHECK(server.State() == HealthState::kStalled);
  CHECK(server.Judge().requests_waiting == 39);
}

TEST_CASE("a request that others overtake makes its process slow", "[health]") {
  for (const bool has_ended : {false, true}) {
    Server server;
    const uint64_t stuck = server.Open(1, 3600 * kSecond, 3600 * kSecond).id;
    if (has_ended)
      server.Ended(1, 300 * kSecond);
    else
      server.Open(1, 60 * kSecond, kSecond);  // long, and it goes on
    const pitot::Health health = server.Judge();
    CHECK(health.state == HealthState::kSlow);
    CHECK(health.request == stuck);
    // What ended right after the last sign was under way.
    server.signs.requests[0].sign_ticks = kNow - 303 * kSecond;
    CHECK(server.State() == (has_ended ? HealthState::kStalled : HealthState::kSlow));
  }
}

TEST_CASE("a process is slow if most open requests are late", "[health]") {
  Server server;
  server.Open(1, 2 * kSecond, kSecond).late_ticks = kNow - kSecond;
  server.Open(1, kSecond, kSecond);
  CHECK(server.State() == HealthState::kProgressing);
  server.Open(1, 2 * kSecond, kSecond).late_ticks = kNow - kSecond;
  CHECK(server.State() == HealthState::kSlow);
  CHECK(std::string(server.Judge().text) == "slow: 3 open requests, most of them late");
}

TEST_CASE("an open batch whose threads do nothing stalls a process without requests", "[health]") {
  Server server;
  server.signs.open_batches = 1;
  CHECK(server.State() == HealthState::kProgressing);
  pitot::snapshot::Combine({ThreadSign{0, 5, kNow - 9 * kSecond}, ThreadSign{0, 6, kNow - 60 * kSecond}},
                           &server.signs);
  CHECK(server.State() == HealthState::kProgressing);
  server.signs.batch_ticks = kNow - 11 * kSecond;
  CHECK(server.State() == HealthState::kStalled);
  CHECK(std::string(server.Judge().text) == "stalled: a batch made no progress for 11.00 s");
  server.signs.open_batches = 0;  // the thread's context is of an older one
  CHECK(server.State() == HealthState::kIdle);
}

TEST_CASE("a process without a sign of life is stalled, also an idle one", "[health]") {
  Server server;
  server.signs.life_ticks = kNow - 4 * kSecond;
  CHECK(server.State() == HealthState::kIdle);
  server.signs.life_ticks = kNow - 5 * kSecond;
  CHECK(server.State() == HealthState::kStalled);
  Server recording = server;
  pitot::snapshot::Combine({ThreadSign{0, 0, kNow - kMs}}, &recording.signs);
  CHECK(recording.State() == HealthState::kIdle);
  CHECK(std::string(server.Judge().text) ==
        "stalled: the process gives no sign of life for 5.00 s; before that: idle: nothing is open");
}

TEST_CASE("work of a request's thread, of its batch and of its child is its progress", "[health]") {
  Server server;
  for (int i = 0; i < 4; ++i) server.Open(1, 60 * kSecond, 60 * kSecond);
  server.signs.requests[1].batch = 77;
  server.signs.requests[3].parent = server.signs.requests[2].id;
  const uint64_t recent = kNow - kSecond;
  pitot::snapshot::Combine({{1, 0, recent}, {0, 77, recent}, {4, 0, recent}, {0, 78, 0}}, &server.signs);
  for (const OpenSign& request : server.signs.requests) CHECK(request.sign_ticks == recent);
  CHECK(server.State() == HealthState::kProgressing);
}

// A day of looks at requests that work for up to an hour each, with a sign every 9 s.
TEST_CASE("long requests that go on never stall their process", "[health]") {
  for (uint64_t s = 0; s < 24 * 3600; s += 1) {
    Server server;
    const uint64_t age = s % 3600;
    server.Open(1, age * kSecond, age % 9 * kSecond);
    if (server.State() != HealthState::kProgressing) FAIL("after " << s << " s");
  }
}

// ---- Signs of real requests. ----------------------------------------------------------------------------------------

uint64_t SignOf(uint64_t request) {
  for (const OpenSign& sign : pitot::snapshot::OwnSigns(false).requests) {
    if (sign.id == request) return sign.sign_ticks;
  }
  return 0;
}

// Whether `work` is progress of the request.
template <class Work> bool IsProgress(uint64_t request, const Work& work) {
  const uint64_t before = SignOf(request);
  REQUIRE(before != 0);
  work();
  return SignOf(request) > before;
}

TEST_CASE("a stage, a token, a scope and a batch are progress; a wait is not", "[health]") {
  session_test::Host host;
  REQUIRE(host.Start());
  CHECK(host.recorder.Health().state == HealthState::kIdle);
  Request request = Request::Begin("/r");
  const uint64_t id = request.token().request;
  CHECK(IsProgress(id, [&] { request.Stage("decoded"); }));
  CHECK(IsProgress(id, [&] { request.Emit(1); }));
  CHECK(IsProgress(id, [] { PITOT_SCOPE("work"); }));
  CHECK(IsProgress(id, [] { PITOT_INSTANT("mark"); }));
  CHECK_FALSE(IsProgress(id, [] { PITOT_WAIT(pitot::WaitKind::kQueue, "jobs", pitot::Owner()); }));
  CHECK_FALSE(IsProgress(id, [] { std::thread([] { PITOT_INSTANT("of another thread"); }).join(); }));
  CHECK(IsProgress(id, [&] { std::thread([token = request.token()] { const pitot::Adopt adopt(token); }).join(); }));
  pitot::Batch batch;
  CHECK(IsProgress(id, [&] {
    batch = pitot::Batch::Begin("executor");
    batch.Join(request.token());
  }));
  CHECK(IsProgress(id, [] { PITOT_INSTANT("of the batch"); }));
  const pitot::Health health = host.recorder.Health();
  CHECK(health.state == HealthState::kProgressing);
  CHECK(health.requests_open == 1);
  CHECK(std::string(health.route) == "/r");
  CHECK(std::string(health.stage) == "decoded");
}

TEST_CASE("a thread that computes for a request without an event runs, one that waits does not", "[health]") {
  session_test::Host host;
  REQUIRE(host.Start());
  std::atomic<bool> is_over{false};
  std::atomic<int> begun{0};
  Request computing = Request::Begin("/r"), waiting = Request::Begin("/r");
  std::thread computes([&, token = computing.token()] {
    const pitot::Adopt adopt(token);
    ++begun;
    while (!is_over) {}
  });
  std::thread waits([&, token = waiting.token()] {
    const pitot::Adopt adopt(token);
    ++begun;
    begun.notify_all();
    is_over.wait(false);
  });
  CHECK(fakes::WaitUntil([&] { return begun == 2; }));
  const auto running = [] {
    Signs signs = pitot::snapshot::OwnSigns(false);
    signs.now_ticks = ~uint64_t{0};  // much later
    pitot::session::NoteCpu(getpid(), HealthLimits(), &signs);
    return signs;
  };
  CHECK(fakes::WaitUntil([&] {  // until the one waits
    for (const OpenSign& sign : running().requests) {
      if (sign.is_running != (sign.id == computing.token().request)) return false;
    }
    return true;
  }));
  is_over = true;
  is_over.notify_all();
  computes.join();
  waits.join();
}

TEST_CASE("work of a thread that exited stays progress when another thread has its ring", "[health]") {
  session_test::Host host;
  REQUIRE(host.Start());
  Request request = Request::Begin("/r");
  const uint64_t id = request.token().request;
  std::thread([token = request.token()] {
    const pitot::Adopt adopt(token);
    PITOT_INSTANT("work");
  }).join();
  const uint64_t worked = SignOf(id);
  CHECK_FALSE(IsProgress(id, [] { std::thread([] { PITOT_INSTANT("of another thread"); }).join(); }));
  CHECK(host.recorder.Stats().threads_retired == 1);  // the same ring
  CHECK(SignOf(id) == worked);
}

TEST_CASE("an open scope of a request is progress when it begins, and then no more", "[health]") {
  session_test::Host host;
  REQUIRE(host.Start());
  const Request request = Request::Begin("/r");
  const uint64_t id = request.token().request, before = SignOf(id);
  PITOT_SCOPE("long");
  const uint64_t begun = SignOf(id);
  CHECK(begun > before);
  CHECK(SignOf(id) == begun);
}

TEST_CASE("requests that end well are progress of their route", "[health]") {
  session_test::Host host;
  REQUIRE(host.Start());
  const auto ended = [] {
    uint64_t newest = 0;
    for (const auto& route : pitot::snapshot::OwnSigns(false).routes) newest = std::max(newest, route.ok_ticks);
    return newest;
  };
  CHECK(ended() == 0);
  Request::Begin("/r").Finish(pitot::Outcome::kTimedOut);
  CHECK(ended() == 0);
  Request::Begin("/r").Finish(pitot::Outcome::kOk);
  CHECK(ended() != 0);
}

uint32_t FailedRequests() {
  uint32_t failed = 0;
  for (const auto& route : pitot::snapshot::OwnSigns(false).routes) failed += route.failed;
  return failed;
}

TEST_CASE("a route fails after three requests that timed out or failed, until one ends well", "[health]") {
  session_test::Host host;
  REQUIRE(host.Start());
  const auto end = [](pitot::Outcome outcome) { Request::Begin("/r").Finish(outcome); };
  const uint64_t before = pitot::snapshot::OwnSigns(false).now_ticks;
  end(pitot::Outcome::kTimedOut);
  end(pitot::Outcome::kFailed);
  CHECK(FailedRequests() == 0);
  end(pitot::Outcome::kTimedOut);
  CHECK(FailedRequests() == 3);
  for (const auto& route : pitot::snapshot::OwnSigns(false).routes) {
    if (route.failed == 0) continue;
    CHECK(route.failing_ticks > before);
    CHECK(route.failed_ticks > route.failing_ticks);
  }
  end(pitot::Outcome::kOk);
  CHECK(FailedRequests() == 0);
}

TEST_CASE("requests that were given up or refused at once are no failures of their route", "[health]") {
  session_test::Host host;
  REQUIRE(host.Start());
  for (int i = 0; i < 9; ++i) {
    for (const pitot::Outcome outcome : {pitot::Outcome::kCancelled, pitot::Outcome::kShed})
      Request::Begin("/r").Finish(outcome);
    static_cast<void>(Request::Begin("/r"));
  }
  CHECK(FailedRequests() == 0);
}

TEST_CASE("requests that were given up after a long wait are failures of their route", "[health]") {
  session_test::Host host;
  REQUIRE(host.Start());
  for (const bool is_long : {false, true}) {
    Request requests[] = {Request::Begin("/r"), Request::Begin("/r"), Request::Begin("/r")};
    const uint64_t begin_ns = pitot::base::MonotonicNs();
    while (pitot::base::MonotonicNs() < begin_ns + 1100 * kMs) std::this_thread::yield();
    for (Request& request : requests) {
      if (!is_long) request.Emit(1);
      request.Finish(pitot::Outcome::kCancelled);
    }
    CHECK(FailedRequests() == (is_long ? 3 : 0));
  }
}

TEST_CASE("how long requests of a route take is known after 32 of them, and in the end forgotten", "[health]") {
  session_test::Host host;
  REQUIRE(host.Start());
  const auto longest_ns = [] {
    uint64_t longest = 0;
    for (const auto& route : pitot::snapshot::OwnSigns(false).routes) longest = std::max(longest, route.longest_ns);
    return longest;
  };
  const auto finish = [](pitot::Outcome outcome) {
    const uint64_t begin_ns = pitot::base::MonotonicNs();
    Request request = Request::Begin("/r");
    while (pitot::base::MonotonicNs() < begin_ns + 5 * kMs) {}
    request.Finish(outcome);
  };
  finish(pitot::Outcome::kOk);
  finish(pitot::Outcome::kFailed);
  for (int i = 0; i < 30; ++i) Request::Begin("/r").Finish(pitot::Outcome::kOk);
  CHECK(longest_ns() == 0);
  Request::Begin("/r").Finish(pitot::Outcome::kOk);
  const uint64_t before_ns = longest_ns();
  CHECK(before_ns >= 4 * kMs);  // ticks are measured roughly at first
  for (int i = 0; i < 3000; ++i) Request::Begin("/r").Finish(pitot::Outcome::kOk);
  CHECK(longest_ns() < before_ns);
}

TEST_CASE("requests that all fail stall the process for the recorder, too", "[health]") {
  session_test::Host host;
  REQUIRE(host.Start());
  pitot::Health health;
  CHECK(fakes::WaitUntil([&] {
    Request::Begin("/failing").Finish(pitot::Outcome::kTimedOut);
    health = host.recorder.Health(20);
    return health.state == HealthState::kStalled;
  }));
  CHECK(std::string_view(health.text).find("no request of /failing ended well") != std::string_view::npos);
}

TEST_CASE("a stalled request is stalled for the recorder, too", "[health]") {
  session_test::Host host;
  REQUIRE(host.Start());
  const Request request = Request::Begin("/stuck");
  CHECK(fakes::WaitUntil([&] { return host.recorder.Health(20).state == HealthState::kStalled; }));
  CHECK(host.recorder.Health().state == HealthState::kProgressing);
  CHECK(std::string_view(host.recorder.Health(20).text).find("of /stuck") != std::string_view::npos);
  host.recorder.Stop();
  CHECK(host.recorder.Health(20).state == HealthState::kUnknown);
  CHECK(std::string_view(host.recorder.Health().text) == "unknown: no recorder runs");
}

}  // namespace
