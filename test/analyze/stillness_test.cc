// SPDX-License-Identifier: Apache-2.0
//
// A process that stood still as a whole.
#include "analyze/blame/stillness.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "analyze/blame_of.h"
#include "base/host_counters.h"
#include "pitot/analyze/judgement.h"
#include "serialize/sample_trace.h"

using namespace pitot;
using analyze::Judgement;
using analyze::VerdictKind;
using blame::Stillness;
using model::kNone;
using test::TraceMaker;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kRequests = 150, kLate = 100;
constexpr int64_t kStillNs = 300 * kMs;

// One request of 10 ms after the other on a thread, and another thread with an event every 5 ms. The host thread reads
// the worker's time on a CPU every 20 ms. In one request the time on a CPU stands for 300 ms.
struct Server {
  struct Stop {
    bool for_others = true;    // the other thread records nothing meanwhile
    bool for_readings = true;  // nor does the host thread
    bool before_work = false;  // three requests arrive meanwhile, and begin afterwards
    bool for_cpus = true;      // nothing on the machine waits for a CPU meanwhile
    int64_t rest_ns = 0;       // the host thread meant to rest so long
  };
  explicit Server(const Stop& stop) {
    const uint32_t thread = maker.Thread("worker"), other = maker.Thread("other");
    maker.trace.threads[thread].tid = 77;
    const uint32_t forward = maker.Site(SiteKind::kScope, "forward"), tick = maker.Site(SiteKind::kScope, "tick");
    int64_t at_ns = 100 * kMs;
    for (uint32_t i = 0; i < kRequests; ++i) {
      if (stop.before_work && i >= kLate && i < kLate + 3) {
        if (i == kLate) at_ns = AddStop(at_ns);
        const int64_t arrival_ns = still.begin_ns + (i - kLate + 1) * 80 * kMs, end_ns = at_ns + 10 * kMs;
        const uint32_t late = maker.Request(10 + i, "/classify", arrival_ns, end_ns - arrival_ns);
        maker.trace.requests[late].begin_thread = maker.trace.requests[late].end_thread = thread;
        maker.Event(thread, forward, at_ns, 10 * kMs, {late, kNone});
        at_ns = end_ns;
        continue;
      }
      const int64_t length_ns = 10 * kMs + (i == kLate ? kStillNs : (i % 7) * kMs / 50);
      const uint32_t request = maker.Request(10 + i, "/classify", at_ns, length_ns);
      maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = thread;
      maker.Event(thread, forward, at_ns, length_ns, {request, kNone});
      if (i == kLate) AddStop(at_ns);
      at_ns += length_ns;
    }
    maker.trace.window_end_ns = at_ns + 100 * kMs;
    for (int64_t ns = 100 * kMs; ns < at_ns; ns += 5 * kMs) {
      if (!stop.for_others || !IsIn(ns)) maker.Event(other, tick, ns, kMs / 10);
    }
    trace = maker.Finish();
    test::CounterValues on_cpu;
    for (int64_t ns = 0; ns < at_ns + 100 * kMs; ns += 20 * kMs) {
      if (stop.for_readings && IsIn(ns)) continue;
      const int64_t stood_ns = ns <= still.begin_ns ? 0 : std::min(ns, still.end_ns) - still.begin_ns;
      on_cpu.push_back({ns / kMs, static_cast<double>(ns - stood_ns)});
    }
    test::AddCounter(&trace, kNone, base::ThreadCounter(77, base::kOnCpu), on_cpu);
    const double waited_ns = stop.for_cpus ? 0 : static_cast<double>(kStillNs);
    test::AddCounter(&trace, kNone, base::HostCounter(base::kCpuPressure),
                     {{0, 0}, {still.begin_ns / kMs - 1, 0}, {still.end_ns / kMs + 20, waited_ns}});
    const int64_t rest_from_ms = still.begin_ns / (20 * kMs) * 20;  // its last reading
    test::AddCounter(&trace, kNone, base::HostCounter(base::kRest),
                     {{0, 0}, {rest_from_ms, static_cast<double>(stop.rest_ns)}, {(still.end_ns + 20 * kMs) / kMs, 0}});
    REQUIRE(FindInconsistency(trace) == "");
  }
  // Returns when it goes on.
  int64_t AddStop(int64_t at_ns) {
    still = {at_ns + 5 * kMs, at_ns + 5 * kMs + kStillNs};
    return still.end_ns;
  }
  bool IsIn(int64_t ns) const { return ns > still.begin_ns && ns < still.end_ns; }

  TraceMaker maker;
  model::Interval still;
  model::Trace trace;
};

}  // namespace

TEST_CASE("a process stood still while no thread recorded anything and its own reader was late", "[stillness]") {
  const Server server({});
  const Stillness stillness(server.trace);
  const int64_t ns = stillness.StillNs(kNone, 0, server.trace.window_end_ns);
  CHECK(ns > kStillNs - 25 * kMs);
  CHECK(ns < kStillNs + 25 * kMs);
  CHECK(stillness.StillNs(kNone, 0, server.still.begin_ns - 20 * kMs) == 0);
}

TEST_CASE("a late reader alone, or an idle process, is no process that stood still", "[stillness]") {
  const Server busy({.for_others = false});
  CHECK(Stillness(busy.trace).StillNs(kNone, 0, busy.trace.window_end_ns) == 0);
  const Server read({.for_readings = false});
  CHECK(Stillness(read.trace).StillNs(kNone, 0, read.trace.window_end_ns) == 0);
}

TEST_CASE("a process did not stand still while its reader rested, but afterwards", "[stillness]") {
  const Server rested({.before_work = true, .rest_ns = 2'000 * kMs});
  CHECK(Stillness(rested.trace).StillNs(kNone, 0, rested.trace.window_end_ns) == 0);
  const Server late({.before_work = true, .rest_ns = 150 * kMs});
  const int64_t ns = Stillness(late.trace).StillNs(kNone, 0, late.trace.window_end_ns);
  CHECK(ns > kStillNs - 175 * kMs);
  CHECK(ns < kStillNs - 125 * kMs);
}

TEST_CASE("the verdict says that the process stood still, and what does that", "[stillness]") {
  // Or the request arrived while it did, and was begun afterwards.
  const bool before_work = GENERATE(false, true);
  const Server server({.before_work = before_work});
  Judgement judgement;
  REQUIRE(JudgeRequest(server.trace, kLate, nullptr, &judgement).ok());
  const std::string text = VerdictText(judgement.index, judgement.blame, judgement.verdict);
  INFO(text);
  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(text.find(" with the whole process") != std::string::npos);
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "find_who_stopped_it");
  CHECK(judgement.verdict.causes[0].confidence > 0.9);
}

TEST_CASE("a process without a CPU is not called one that stood still for a request that it had not begun",
          "[stillness]") {
  const Server server({.before_work = true, .for_cpus = false});
  Judgement judgement;
  REQUIRE(JudgeRequest(server.trace, kLate, nullptr, &judgement).ok());
  const std::string text = VerdictText(judgement.index, judgement.blame, judgement.verdict);
  INFO(text);
  CHECK(text.find(" with the whole process") == std::string::npos);
  CHECK(judgement.verdict.kind == VerdictKind::kUndetermined);
}
