// SPDX-License-Identifier: Apache-2.0
//
// Garbage collections, holders of an interpreter's lock and steps that held an event loop, as the walk blames them. All
// times in us.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "analyze/blame/index_data.h"
#include "analyze/blame_of.h"
#include "base/host_counters.h"
#include "pitot/analyze/judgement.h"
#include "pitot/analyze/why.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using analyze::Blame;
using analyze::BlameSegment;
using analyze::RequestBlame;
using model::kNone;
using model::Trace;

namespace {

constexpr int64_t kUs = 1'000;

// A request from 10,000 to 110,000 on "http", next to a thread "other" and Pitot's watcher.
struct Server {
  Server() {
    maker.trace.window_end_ns = 200'000 * kUs;
    http = maker.Thread("http");
    other = maker.Thread("other");
    watcher = maker.Thread("pitot-python");
    for (const uint32_t thread : {http, other, watcher}) maker.trace.threads[thread].tid = 40 + thread;
    decode = maker.Site(SiteKind::kScope, "decode");
    wait = maker.WaitSite();
    collection =
        Of("RecordCollection", "garbage collection", {{"generation", ArgType::kUint}, {"collected", ArgType::kUint}});
    held = Of(
        "RecordLockHeld", "waited for the interpreter's lock",
        {{"tid", ArgType::kInt}, {"thread", ArgType::kName}, {"place", ArgType::kName}, {"on_cpu_ns", ArgType::kUint}});
    stopped = Of(
        "RecordThreadsStopped", "the interpreter stopped its threads",
        {{"tid", ArgType::kInt}, {"thread", ArgType::kName}, {"place", ArgType::kName}, {"on_cpu_ns", ArgType::kUint}});
    step = Of("RecordStep", "", {{"name", ArgType::kName}, {"request", ArgType::kUint}});
    maker.trace.sites[step].name_is_first_arg = true;
    resumed = Of("BeginStep", "resumed", {});
    maker.trace.sites[resumed].kind = SiteKind::kInstant;
    request = Request(1, "/classify", 10'000, 110'000);
  }
  uint32_t Of(const char* function, const char* name, const std::vector<std::pair<std::string, ArgType>>& args) {
    const uint32_t site = maker.Site(SiteKind::kScope, name, args);
    maker.trace.sites[site].file = maker.String("pitot/interpreter.h");
    maker.trace.sites[site].function = maker.String(function);
    return site;
  }
  uint32_t Request(uint64_t id, const char* route, int64_t begin_us, int64_t end_us) {
    const uint32_t row = maker.Request(id, route, begin_us * kUs, (end_us - begin_us) * kUs);
    maker.trace.requests[row].begin_thread = maker.trace.requests[row].end_thread = http;
    return row;
  }
  void Scope(uint32_t thread, int64_t begin_us, int64_t end_us, uint32_t of = kNone) {
    maker.Event(thread, decode, begin_us * kUs, (end_us - begin_us) * kUs, {of, kNone});
  }
  void Collect(uint32_t thread, int64_t begin_us, int64_t end_us, uint32_t of = kNone) {
    maker.Event(thread, collection, begin_us * kUs, (end_us - begin_us) * kUs, {of, kNone}, {2, 17});
  }
  void Hold(int64_t tid, int64_t begin_us, int64_t end_us, const char* place = "app.py:88 render") {
    maker.Event(watcher, held, begin_us * kUs, (end_us - begin_us) * kUs, {},
                {static_cast<uint64_t>(tid), maker.String("cruncher"), maker.String(place), 0});
  }
  void Stop(int64_t tid, int64_t begin_us, int64_t end_us) {
    maker.Event(watcher, stopped, begin_us * kUs, (end_us - begin_us) * kUs, {},
                {static_cast<uint64_t>(tid), maker.String(tid != 0 ? "sampler" : ""), maker.String(""), 0});
  }
  void Step(int64_t begin_us, int64_t end_us, uint64_t id) {
    maker.Event(http, step, begin_us * kUs, (end_us - begin_us) * kUs, {}, {maker.String("report (app.py:5)"), id});
  }
  void Resume(int64_t at_us) { maker.Event(http, resumed, at_us * kUs, 0, {request, kNone}); }
  // Readings of a thread's time on a CPU.
  void OnCpu(uint32_t thread, int64_t from_us, int64_t cpu_us, int64_t to_us) {
    const auto row = static_cast<uint32_t>(trace.counters.size());
    const std::string name = base::ThreadCounter(trace.threads[thread].tid, base::kOnCpu);
    trace.counters.push_back({kNone, trace.strings.Add(name), trace.strings.Add("ns")});
    for (const auto& [at_us, value_us] : {std::pair(from_us, int64_t{0}), std::pair(to_us, cpu_us)}) {
      trace.samples.counter.push_back(row);
      trace.samples.at_ns.push_back(at_us * kUs);
      trace.samples.value.push_back(static_cast<double>(value_us * kUs));
    }
  }
  RequestBlame Walk() {
    if (trace.threads.empty()) trace = maker.Finish();
    return BlameOf(trace, request);
  }
  std::string HolderOf(const BlameSegment& segment) {
    analyze::BlameIndex index;
    REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
    return index.data()->index.interpreter.Text(segment.by.event);
  }

  TraceMaker maker;
  Trace trace;  // from Walk on
  uint32_t http, other, watcher, decode, wait, collection, held, stopped, step, resumed, request;
};

}  // namespace

TEST_CASE("another thread's garbage collection stops code", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  server.Collect(server.other, 30'000, 70'000);

  const RequestBlame blame = server.Walk();

  CHECK(SegmentsText(blame) == "host_oncpu_pre 20000; host_gc 40000; host_oncpu_pre 40000");
  CHECK(blame.segments[1].by.thread == server.other);
  CHECK(server.HolderOf(blame.segments[1]) == "other, generation 2");
}

TEST_CASE("a garbage collection that Pitot's thread set off is not said to be by a thread of the host", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  server.Collect(server.watcher, 30'000, 70'000);

  const RequestBlame blame = server.Walk();

  CHECK(SegmentsText(blame) == "host_oncpu_pre 20000; host_gc 40000; host_oncpu_pre 40000");
  CHECK(server.HolderOf(blame.segments[1]) == "pitot-python (Pitot's own), generation 2");
}

TEST_CASE("a thread's own garbage collection is not its code", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  server.Collect(server.http, 30'000, 70'000, server.request);

  const RequestBlame blame = server.Walk();

  CHECK(SegmentsText(blame) == "host_oncpu_pre 20000; host_gc 40000; host_oncpu_pre 40000");
  CHECK(blame.segments[1].by.thread == server.http);
}

TEST_CASE("a request in a queue waits for the garbage collection of the thread that takes it", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 20'000, server.request);
  server.maker.trace.handoffs.push_back(
      {server.request, server.maker.String("jobs"), server.http, server.other, 20'000 * kUs, 70'000 * kUs, kNone});
  server.maker.trace.requests[server.request].end_thread = server.other;
  server.Collect(server.other, 30'000, 70'000);
  server.Scope(server.other, 70'000, 110'000, server.request);

  CHECK(SegmentsText(server.Walk()) ==
        "host_oncpu_pre 10000; untraced_or_unexplained 10000; host_gc 40000; host_oncpu_pre 40000");
}

TEST_CASE("the holder of the interpreter's lock is named, whether it recorded anything or not", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  const bool has_events = GENERATE(true, false);
  server.Hold(has_events ? 41 : 99, 30'000, 70'000);

  const RequestBlame blame = server.Walk();

  CHECK(SegmentsText(blame) == "host_oncpu_pre 20000; host_gil 40000; host_oncpu_pre 40000");
  CHECK(blame.segments[1].by.thread == (has_events ? server.other : kNone));
  CHECK(server.HolderOf(blame.segments[1]) == "cruncher at app.py:88 render");
}

TEST_CASE("a request behind a thread that wanted the lock waits for its holder", "[why]") {
  Server server;
  const uint32_t before = server.Request(2, "/before", 10'500, 60'000);
  server.Scope(server.http, 10'000, 20'000, server.request);
  server.maker.trace.handoffs.push_back(
      {server.request, server.maker.String("jobs"), server.http, server.other, 20'000 * kUs, 80'000 * kUs, kNone});
  server.maker.trace.requests[server.request].end_thread = server.other;
  server.Scope(server.other, 20'000, 80'000, before);
  server.Scope(server.other, 80'000, 110'000, server.request);
  server.Hold(99, 30'000, 70'000);

  CHECK(SegmentsText(server.Walk()) ==
        "host_oncpu_pre 10000; queue_wait_others 10000; host_gil 40000; queue_wait_others 10000; host_oncpu_pre 30000");
}

TEST_CASE("a thread does not wait for the lock that it holds itself", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  server.Hold(40, 30'000, 70'000);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 100000");
}

TEST_CASE("threads that take turns with the lock leave no gaps between them", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  server.Hold(41, 30'000, 40'000);
  server.Hold(99, 42'000, 50'000, "b.py:1 f");
  server.Hold(41, 60'000, 70'000);

  CHECK(SegmentsText(server.Walk()) ==
        "host_oncpu_pre 20000; host_gil 10000; host_gil 10000; host_oncpu_pre 10000; host_gil 10000; host_oncpu_pre "
        "40000");
}

TEST_CASE("a collection during which the lock was wanted is a collection", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  server.Hold(41, 30'000, 72'000);
  server.Collect(server.other, 31'000, 70'000);

  CHECK(SegmentsText(server.Walk()) ==
        "host_oncpu_pre 20000; host_gil 1000; host_gc 39000; host_gil 2000; host_oncpu_pre 38000");
}

TEST_CASE("a stop of all threads stops code, and names the thread that ran meanwhile", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  const int64_t tid = GENERATE(41, 0);  // 0: several ran, or none
  server.Stop(tid, 30'000, 70'000);

  const RequestBlame blame = server.Walk();

  CHECK(SegmentsText(blame) == "host_oncpu_pre 20000; host_gc 40000; host_oncpu_pre 40000");
  CHECK(blame.segments[1].by.thread == (tid != 0 ? server.other : kNone));
  CHECK(server.HolderOf(blame.segments[1]) == (tid != 0 ? "sampler" : ""));
}

TEST_CASE("a verdict on a stop of all threads speaks of no lock, and names the thread that ran alone", "[why]") {
  Server server;
  server.maker.trace.window_end_ns = 2'000'000 * kUs;
  server.Scope(server.http, 10'000, 110'000, server.request);
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t begin_us = 120'000 + 15'000 * i;
    server.Scope(server.http, begin_us, begin_us + 10'000,
                 server.Request(10 + static_cast<uint64_t>(i), "/classify", begin_us, begin_us + 10'000));
  }
  const int64_t tid = GENERATE(41, 99, 0);  // 99: a thread that recorded nothing
  server.Stop(tid, 15'000, 105'000);
  server.trace = server.maker.Finish();
  server.OnCpu(server.http, 10'000, 10'000, 110'000);

  analyze::Judgement judgement;
  REQUIRE(analyze::JudgeRequest(server.trace, server.request, nullptr, &judgement).ok());

  const std::string sentence = VerdictSentence(judgement.index, judgement.blame, judgement.verdict);
  INFO(sentence);
  CHECK(sentence.find("stood still for 90.0 ms while the interpreter had stopped its threads") != std::string::npos);
  CHECK((sentence.find(", and only sampler ran") != std::string::npos) == (tid != 0));
  CHECK(VerdictText(judgement.index, judgement.blame, judgement.verdict).find("lock") == std::string::npos);
  REQUIRE(judgement.verdict.causes.size() == 1);
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "stop_seldom");
}

TEST_CASE("a stop for a collection is the collection", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  server.Stop(41, 35'000, 69'000);
  server.Collect(server.other, 30'000, 70'000);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 20000; host_gc 40000; host_oncpu_pre 40000");
}

TEST_CASE("a collection that waits for another thread to stop is that thread's", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  server.Stop(99, 35'000, 60'000);
  server.Collect(server.other, 30'000, 70'000);

  const RequestBlame blame = server.Walk();

  CHECK(SegmentsText(blame) ==
        "host_oncpu_pre 20000; host_gc 5000; host_gc 25000; host_gc 10000; host_oncpu_pre 40000");
  CHECK(server.HolderOf(blame.segments[1]) == "other, generation 2");
  CHECK(server.HolderOf(blame.segments[2]) == "sampler");
  CHECK(server.HolderOf(blame.segments[3]) == "other, generation 2");
}

TEST_CASE("between two stops of all threads they ran", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  server.Stop(41, 30'000, 40'000);
  server.Stop(41, 42'000, 50'000);

  CHECK(SegmentsText(server.Walk()) ==
        "host_oncpu_pre 20000; host_gc 10000; host_oncpu_pre 2000; host_gc 8000; host_oncpu_pre 60000");
}

TEST_CASE("a thread that ran on a CPU did not wait for the lock", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  server.Hold(41, 30'000, 70'000);
  server.trace = server.maker.Finish();
  const bool ran = GENERATE(true, false);
  server.OnCpu(server.http, 10'000, ran ? 100'000 : 60'000, 110'000);

  CHECK(SegmentsText(server.Walk()) == (ran ? "host_oncpu_pre 20000; host_oncpu_pre 40000; host_oncpu_pre 40000"
                                            : "host_oncpu_pre 20000; host_gil 40000; host_oncpu_pre 40000"));
}

TEST_CASE("a thread that slept while somebody unknown had the lock waited for it", "[why]") {
  Server server;
  server.Scope(server.http, 10'000, 110'000, server.request);
  server.Hold(0, 30'000, 70'000, "");
  server.trace = server.maker.Finish();
  const bool slept = GENERATE(true, false);
  if (slept) server.OnCpu(server.http, 10'000, 40'000, 110'000);

  CHECK(SegmentsText(server.Walk()) ==
        (slept ? "host_oncpu_pre 40000; host_gil 40000; host_blocked_unknown 20000" : "host_oncpu_pre 100000"));
}

TEST_CASE("a wait that lasts on after the lock was free is not for the lock", "[why]") {
  Server server;
  const int64_t end_us = GENERATE(70'500, 90'000);
  const bool is_notified = GENERATE(false, true);  // by a thread at work for nobody: that does not change it
  const WaitKind kind = is_notified ? WaitKind::kCondition : WaitKind::kOther;
  const uint64_t notifier = is_notified ? server.maker.trace.threads[server.other].number : 0;
  server.maker.Event(server.http, server.wait, 10'000 * kUs, (end_us - 10'000) * kUs, {server.request, kNone},
                     {static_cast<uint64_t>(kind), server.maker.String("reply"), notifier, 0});
  server.Scope(server.http, end_us, 110'000, server.request);
  server.Hold(41, 30'000, 70'000);

  CHECK(SegmentsText(server.Walk()) ==
        (end_us == 70'500 ? "host_blocked_unknown 20000; host_gil 40000; host_blocked_unknown 500; host_oncpu_pre 39500"
                          : "host_blocked_unknown 80000; host_oncpu_pre 20000"));
}

TEST_CASE("a wait lasts on after the lock was free while others take their turns", "[why]") {
  const auto walk = [](const std::vector<int64_t>& others_end_us, int64_t end_us) {
    Server server;
    const auto wait = [&](uint32_t thread, int64_t begin_us, int64_t until_us, uint32_t of = kNone) {
      server.maker.Event(thread, server.wait, begin_us * kUs, (until_us - begin_us) * kUs, {of, kNone},
                         {static_cast<uint64_t>(WaitKind::kIo), server.maker.String("disk"), 0, 0});
    };
    wait(server.http, 10'000, end_us, server.request);
    for (const int64_t until_us : others_end_us) {
      const uint32_t another = server.maker.Thread("another");
      wait(another, 20'000, until_us);
    }
    server.Scope(server.http, end_us, 110'000, server.request);
    server.Hold(40 + server.other, 40'000, 90'000);
    return server.Walk().blame[analyze::Blame::kHostGil] / kUs;
  };
  CHECK(walk({}, 93'000) == 50'000);
  CHECK(walk({}, 94'000) == 0);
  CHECK(walk({91'000}, 98'000) == 50'000);
  CHECK(walk({89'000, 99'500}, 98'000) == 0);  // others went on before, or later
  CHECK(walk({91'000}, 99'000) == 0);
  CHECK(walk({91'000, 95'000, 98'000}, 103'000) == 50'000);
  CHECK(walk({91'000, 95'000, 98'000}, 104'000) == 0);
}

TEST_CASE("a request waits for the step of another task that held its event loop", "[why]") {
  Server server;
  const bool has_request = GENERATE(true, false);
  const uint32_t culprit = server.Request(2, "/report", 10'500, 100'500);
  server.Scope(server.http, 10'000, 20'000, server.request);
  server.Step(30'000, 100'000, has_request ? 2 : 0);
  server.Resume(100'800);
  server.Scope(server.http, 101'000, 110'000, server.request);

  const RequestBlame blame = server.Walk();

  CHECK(SegmentsText(blame) ==
        "host_oncpu_pre 10000; untraced_or_unexplained 10000; queue_wait_others 70000; untraced_or_unexplained 1000; "
        "host_oncpu_pre 9000");
  CHECK(blame.segments[2].by.request == (has_request ? culprit : kNone));
  CHECK(server.trace.EventName(blame.segments[2].by.event) == "report (app.py:5)");
}

TEST_CASE("a request without events waits for the step of another task, too", "[why]") {
  Server server;
  const uint32_t culprit = server.Request(2, "/report", 10'500, 100'500);
  server.Step(30'000, 109'000, 2);
  server.Resume(109'500);

  const RequestBlame blame = server.Walk();

  CHECK(SegmentsText(blame) == "untraced_or_unexplained 20000; queue_wait_others 79000; untraced_or_unexplained 1000");
  CHECK(blame.segments[1].by.request == culprit);
}

TEST_CASE("a request waits for the scopes of another within a long step", "[why]") {
  Server server;
  const uint32_t culprit = server.Request(2, "/report", 10'500, 100'500);
  server.Scope(server.http, 10'000, 20'000, server.request);
  server.Scope(server.http, 35'000, 95'000, culprit);
  server.Step(30'000, 100'000, 2);
  server.Resume(100'800);

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kQueueWaitOthers] == 70'000 * kUs);
  for (const BlameSegment& segment : blame.segments) {
    if (segment.blame == Blame::kQueueWaitOthers)
      CHECK(server.trace.EventName(segment.by.event) == "report (app.py:5)");
  }
}

TEST_CASE("a request that was not ready did not wait for another task's step or scope", "[why]") {
  Server server;
  const uint32_t other = server.Request(2, "/report", 10'500, 60'500);
  server.Scope(server.http, 10'000, 20'000, server.request);
  server.Step(30'000, 60'000, 2);
  server.Scope(server.http, 61'000, 61'500, other);
  server.Scope(server.http, 101'000, 110'000, server.request);

  CHECK(server.Walk().blame[Blame::kQueueWaitOthers] == 0);
}

TEST_CASE("a request that only awaits something was not waiting to be started", "[why]") {
  Server server;
  const uint32_t other = server.Request(2, "/other", 10'500, 60'500);
  server.Scope(server.http, 30'000, 30'500, other);
  const uint32_t loop = server.Of("EndStep", "event loop", {});
  server.maker.trace.sites[loop].kind = SiteKind::kInstant;
  server.maker.Event(server.http, loop, 5'000 * kUs, 0);

  CHECK(SegmentsText(server.Walk()) ==
        "untraced_or_unexplained 20000; untraced_or_unexplained 500; untraced_or_unexplained 79500");
}

TEST_CASE("a request's own step is its code", "[why]") {
  Server server;
  server.Step(10'000, 110'000, 1);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 100000");
}

}  // namespace pitot::test
