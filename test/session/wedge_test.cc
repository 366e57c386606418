// SPDX-License-Identifier: Apache-2.0
//
// Wedged processes, in fake time: each is reported once, and nothing else is.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "session/wedge.h"

namespace {

using pitot::HealthState;
using pitot::session::Stop;
using pitot::session::WatchLimits;
using pitot::session::WatchLook;
using pitot::session::Wedge;
using pitot::session::WedgeWatch;

constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000, kDay = 24 * 3600 * kSecond;

// A process in fake time, and the watcher of it.
struct Process {
  WedgeWatch watch{WatchLimits()};
  WatchLook look;
  int wedges = 0;
  std::optional<Wedge> last;

  Process() { look.now_ns = 1000 * kSecond; }
  // Its own watcher looked.
  void Beat() { ++look.life; }
  void Look(int64_t after_ns = 250 * kMs) {
    look.now_ns += after_ns;
    if (std::optional<Wedge> wedge = watch.Note(look)) {
      ++wedges;
      last = wedge;
    }
  }
  void Stopped() {
    look.stop = Stop::kSignal;
    for (int i = 0; i < 6; ++i) Look();
  }
  void Stalled(uint64_t request, int64_t quiet_ns) {
    look.health.state = HealthState::kStalled;
    look.health.request = request;
    look.health.quiet_ms = static_cast<uint64_t>(quiet_ns / kMs);
    std::snprintf(look.health.text, sizeof look.health.text, "stalled: request %d", static_cast<int>(request));
  }
  void Progresses() {
    look.health = {};
    look.health.state = HealthState::kProgressing;
    std::snprintf(look.health.text, sizeof look.health.text, "progressing: 1 open request");
  }
};

TEST_CASE("health of a stopped or frozen process is stalled at once, but not in a stop by a tracer", "[wedge]") {
  pitot::Health health;
  health.state = HealthState::kProgressing;
  std::snprintf(health.text, sizeof health.text, "progressing: 1 open request");
  const auto text_of = [&](Stop stop) { return std::string(HealthWith(stop, health).text); };
  for (const Stop stop : {Stop::kNone, Stop::kTracer}) {
    CHECK(HealthWith(stop, health).state == HealthState::kProgressing);
    CHECK(text_of(stop) == health.text);
  }
  for (const Stop stop : {Stop::kSignal, Stop::kFreezer})
    CHECK(HealthWith(stop, health).state == HealthState::kStalled);
  CHECK(text_of(Stop::kSignal) ==
        "stalled: the process is stopped by a signal; before that: progressing: 1 open request");
  CHECK(text_of(Stop::kFreezer) == "stalled: the process is frozen; before that: progressing: 1 open request");
}

TEST_CASE("a stopped process is wedged after a second, once", "[wedge]") {
  for (const Stop stop : {Stop::kSignal, Stop::kTracer, Stop::kFreezer}) {
    Process process;
    process.Progresses();
    process.Look();
    process.look.stop = stop;
    process.Look();
    CHECK(process.watch.IsSuspicious());
    for (int i = 0; i < 3; ++i) process.Look();
    CHECK(process.wedges == 0);
    process.Look();
    REQUIRE(process.wedges == 1);
    CHECK(process.last->kind == Wedge::Kind::kStopped);
    for (int i = 0; i < 1000; ++i) process.Look();
    CHECK(process.wedges == 1);
    CHECK_FALSE(process.watch.IsSuspicious());
    process.look.stop = Stop::kNone;
    process.Beat();
    process.Look();
    process.look.stop = stop;
    for (int i = 0; i < 6; ++i) process.Look();
    CHECK(process.wedges == 2);
  }
  Process process;
  process.Progresses();
  process.Look();
  process.look.stop = Stop::kSignal;
  for (int i = 0; i < 6; ++i) process.Look();
  REQUIRE(process.last);
  CHECK(process.last->text == "is stopped by a signal for 1.00 s; before that it was progressing: 1 open request");
}

TEST_CASE("a process that is not stopped and gives no sign of life is wedged, once; sooner if it has work", "[wedge]") {
  for (const bool is_idle : {false, true}) {
    Process process;
    process.Progresses();
    if (is_idle) process.look.health.state = HealthState::kIdle;
    process.Beat();
    process.Look();
    for (int i = 0; i < (is_idle ? 19 : 5); ++i) process.Look();
    CHECK(process.wedges == 0);
    for (int i = 0; i < 1000; ++i) process.Look();
    REQUIRE(process.wedges == 1);
    CHECK(process.last->kind == Wedge::Kind::kSilent);
    CHECK(process.last->text.find(is_idle ? "gives no sign of life for 5.00 s" : "gives no sign of life for 1.50 s") ==
          0);
  }
}

TEST_CASE("a process whose watcher waits for a CPU is not wedged", "[wedge]") {
  Process process;
  process.Progresses();
  process.look.is_ready = true;
  for (int i = 0; i < 1000; ++i) process.Look();
  CHECK(process.wedges == 0);
}

TEST_CASE("a process that was silent before the first look is wedged at once", "[wedge]") {
  Process process;
  process.look.silent_ns = 70 * 60 * kSecond;
  process.Look();
  CHECK(process.wedges == 1);
}

TEST_CASE("a stalled request is reported at once, and again only after progress of it", "[wedge]") {
  Process process;
  process.Stalled(7, 12 * kSecond);
  process.Look();
  REQUIRE(process.wedges == 1);
  CHECK(process.last->request == 7);
  CHECK(process.last->text == "is stalled: request 7");
  for (int i = 1; i < 1000; ++i) {
    process.Beat();
    process.Stalled(7, 12 * kSecond + i * 250 * kMs);
    process.Look();
  }
  CHECK(process.wedges == 1);
  // Others of its route pass it now and then: no new wedge.
  process.Beat();
  process.Progresses();
  process.Look();
  process.Beat();
  process.Stalled(7, 300 * kSecond);
  process.Look();
  CHECK(process.wedges == 1);
  process.Beat();
  process.Stalled(8, 10 * kSecond);
  process.Look();
  CHECK(process.wedges == 2);
  // It went on, and stalls again.
  for (int i = 0; i < 100; ++i) {
    process.Beat();
    process.Progresses();
    process.Look();
  }
  process.Beat();
  process.Stalled(7, 10 * kSecond);
  process.Look();
  CHECK(process.wedges == 3);
}

TEST_CASE("in a long hang the stalls of one request after the other are reported ever less often", "[wedge]") {
  Process process;
  process.Look();
  const int64_t begin_ns = process.look.now_ns;
  std::vector<int64_t> seconds;  // of the reports
  for (uint64_t request = 1; request <= 4 * 3600; ++request) {
    const int before = process.wedges;
    process.Beat();
    process.Stalled(request, 10 * kSecond);
    process.Look();
    if (process.wedges != before) seconds.push_back((process.look.now_ns - begin_ns) / kSecond);
  }
  CHECK(seconds == std::vector<int64_t>{0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030});
}

TEST_CASE("a process that was silent, and whose watcher now waits for a CPU, is not wedged", "[wedge]") {
  Process process;
  process.look.silent_ns = 70 * 60 * kSecond;
  process.look.is_ready = true;
  process.Look();
  CHECK(process.wedges == 0);
}

TEST_CASE("a process that goes on after a stop has its time to progress", "[wedge]") {
  Process process;
  process.Progresses();
  process.Look();
  process.look.stop = Stop::kSignal;
  while (process.look.now_ns < 4600 * kSecond) process.Look();
  CHECK(process.wedges == 1);
  process.look.stop = Stop::kNone;
  for (int i = 0; i < 39; ++i) {
    process.Beat();
    process.Stalled(7, 3600 * kSecond);
    process.Look();
  }
  CHECK(process.wedges == 1);
  for (int i = 0; i < 10; ++i) {
    process.Beat();
    process.Look();
  }
  CHECK(process.wedges == 2);
}

TEST_CASE("a watcher that seldom looks finds a stalled request, too", "[wedge]") {
  constexpr int64_t kInterval = 5 * kSecond;
  WatchLimits limits;
  limits.look_gap_ns = limits.life_gap_ns = 3 * kInterval;
  WedgeWatch watch(limits);
  WatchLook look;
  int wedges = 0;
  for (int i = 0; i < 20; ++i) {
    look.now_ns += kInterval;
    ++look.life;
    look.health.state = HealthState::kStalled;
    look.health.request = 7;
    look.health.quiet_ms = static_cast<uint64_t>(look.now_ns / kMs);
    wedges += watch.Note(look) ? 1 : 0;
  }
  CHECK(wedges == 1);
}

TEST_CASE("a wedge without an incident is found again as long as it lasts", "[wedge]") {
  Process process;
  process.Progresses();
  process.Look();
  process.look.stop = Stop::kSignal;
  for (int i = 0; i < 5; ++i) process.Look();
  REQUIRE(process.wedges == 1);
  process.watch.ForgetUnwritten();
  process.Look();
  CHECK(process.wedges == 2);
  process.watch.ForgetUnwritten();
  process.look.stop = Stop::kNone;
  process.Beat();
  process.Look();
  CHECK(process.wedges == 2);  // it goes on

  process.Stalled(7, 10 * kSecond);
  for (int i = 0; i < 100 && process.wedges == 2; ++i) process.Beat(), process.Look();
  REQUIRE(process.wedges == 3);
  process.Beat(), process.Look();
  CHECK(process.wedges == 3);
  process.watch.ForgetUnwritten();
  process.Beat(), process.Look();
  CHECK(process.wedges == 4);
  CHECK(process.last->request == 7);
}

TEST_CASE("of two wedges without an incident both are found again", "[wedge]") {
  Process process;
  const int64_t sign_ns = process.look.now_ns - 20 * kSecond;
  const auto stalls = [&] {
    process.Beat();
    process.Stalled(7, process.look.now_ns - sign_ns);
    process.Look();
  };
  process.Look();
  stalls();
  REQUIRE(process.wedges == 1);
  process.Stopped();
  REQUIRE(process.wedges == 2);
  process.watch.ForgetUnwritten();
  process.Look();
  REQUIRE(process.wedges == 3);
  CHECK(process.last->kind == Wedge::Kind::kStopped);
  process.watch.NoteWritten(*process.last);

  process.look.stop = Stop::kNone;
  for (int i = 0; i < 100; ++i) stalls();
  REQUIRE(process.wedges == 4);
  CHECK(process.last->kind == Wedge::Kind::kStalled);
  process.watch.NoteWritten(*process.last);
  process.watch.ForgetUnwritten();
  for (int i = 0; i < 100; ++i) stalls();
  CHECK(process.wedges == 4);  // both have theirs
}

TEST_CASE("of many wedges without an incident the newest are found again", "[wedge]") {
  constexpr uint64_t kRequests = 20, kRemembered = 16;
  Process process;
  process.Look();
  for (uint64_t request = 1; request <= kRequests; ++request) {
    process.Beat();
    process.Stalled(request, 10 * kSecond);
    process.Look(3600 * kSecond);
    for (int i = 0; i < 100 && process.wedges < static_cast<int>(request); ++i) process.Beat(), process.Look();
    REQUIRE(process.wedges == static_cast<int>(request));
  }
  process.watch.ForgetUnwritten();
  for (uint64_t request = 1; request <= kRequests; ++request) {
    process.Beat();
    process.Stalled(request, 4000 * kSecond * kRequests);
    process.Look(3600 * kSecond);
    for (int i = 0; i < 100; ++i) process.Beat(), process.Look();
    CHECK(process.wedges ==
          static_cast<int>(kRequests + request) - static_cast<int>(std::min(request, kRequests - kRemembered)));
  }
}

TEST_CASE("a watcher that did not run itself takes nothing for proved", "[wedge]") {
  Process process;
  process.Progresses();
  process.Beat();
  process.Look();
  process.Stalled(7, 3600 * kSecond);
  process.look.stop = Stop::kSignal;
  process.Look(3600 * kSecond);  // the machine was suspended, and the process is stopped just now
  process.look.stop = Stop::kNone;
  process.Beat();
  process.Look();
  CHECK(process.wedges == 0);
}

TEST_CASE("in a day of short stops and few CPUs nothing is wedged", "[wedge]") {
  uint64_t seed = 1;
  const auto random = [&seed](int64_t below) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    return static_cast<int64_t>((seed >> 33) % static_cast<uint64_t>(below));
  };
  Process process;
  int64_t beats_ns = process.look.now_ns, due_ns = beats_ns, beat_ns = beats_ns, stopped_until_ns = 0;
  const int64_t end_ns = process.look.now_ns + kDay;
  while (process.look.now_ns < end_ns) {
    const int64_t now_ns = process.look.now_ns;
    // Every few seconds it is stopped for 300 ms.
    if (now_ns >= stopped_until_ns && random(10) == 0) {
      stopped_until_ns = now_ns + 300 * kMs;
      ++process.look.switches;
    }
    const bool is_stopped = now_ns < stopped_until_ns;
    process.look.stop = is_stopped ? Stop::kSignal : Stop::kNone;
    // At rest it beats once a second, with work every 50 ms, and with 0.2 CPUs up to 0.8 s late: it waits for one.
    const bool is_idle = now_ns / (60 * kSecond) % 2 == 0;
    if (!is_stopped && now_ns >= beats_ns) {
      process.Beat();
      beat_ns = now_ns;
      due_ns = now_ns + (is_idle ? 1000 : 50) * kMs;
      beats_ns = due_ns + random(800) * kMs;
    }
    process.look.is_ready = !is_stopped && now_ns >= std::max(due_ns, beat_ns + kSecond);
    process.Progresses();
    if (is_idle) process.look.health.state = HealthState::kIdle;
    // The watcher has few CPUs, too.
    process.Look(50 * kMs + random(600) * kMs);
    if (process.wedges != 0) FAIL(process.last->text << " after " << (now_ns - 1000 * kSecond) / kSecond << " s");
  }
  CHECK(process.wedges == 0);
}

}  // namespace
