// SPDX-License-Identifier: Apache-2.0
//
// Stacks that were read while a request was late: they say where it was blocked, and where its code ran.
#include "analyze/blame/stacks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/blame_of.h"
#include "base/host_counters.h"
#include "pitot/analyze/judgement.h"
#include "pitot/model/intervals.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

using namespace pitot;
using analyze::Blame;
using analyze::BlameSegment;
using analyze::Judgement;
using analyze::VerdictKind;
using blame::Stacks;
using model::kNone;
using test::TraceMaker;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kRequests = 150, kLate = 100;
constexpr int64_t kBlockedNs = 300 * kMs;
constexpr int64_t kWorkerTid = 77;
constexpr uint32_t kNative = 0x100, kOnCpu = 0x300;  // stacks of machine code; read while the thread ran

struct Kind {
  bool has_scope = true;    // otherwise its time is not recorded
  bool has_counter = true;  // the worker's time on a CPU is read every 20 ms
  bool is_busy = false;     // it runs in its scope, and is not blocked
};

// One request of 10 ms after the other on a thread. One of them is blocked or runs for 300 ms more, from 5 ms after its
// begin.
struct Server {
  explicit Server(const Kind& kind) : how(kind) {
    worker = maker.Thread("worker");
    watcher = maker.Thread("pitot-python");
    maker.trace.threads[worker].tid = kWorkerTid;
    maker.trace.threads[watcher].tid = 78;
    const uint32_t forward = maker.Site(SiteKind::kScope, "forward");
    stack = maker.Site(SiteKind::kInstant, "stack",
                       {{"tid", ArgType::kInt},
                        {"own", ArgType::kUint},
                        {"missed", ArgType::kUint},
                        {"call", ArgType::kName},
                        {"frame", ArgType::kName},
                        {"caller", ArgType::kName},
                        {"its_caller", ArgType::kName}});
    maker.trace.sites[stack].file = maker.String("pitot/stack.h");
    maker.trace.sites[stack].function = maker.String("RecordStack");
    int64_t at_ns = 100 * kMs;
    for (uint32_t i = 0; i < kRequests; ++i) {
      const int64_t length_ns = 10 * kMs + (i == kLate ? kBlockedNs : (i % 7) * kMs / 50);
      const uint32_t request = maker.Request(10 + i, "/fetch", at_ns, length_ns);
      maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = worker;
      if (i == kLate) blocked = {at_ns + 5 * kMs, at_ns + 5 * kMs + kBlockedNs};
      if (how.has_scope || i != kLate) {
        maker.Event(worker, forward, at_ns, length_ns, {request, kNone});
      } else {
        maker.Event(worker, forward, at_ns, 5 * kMs, {request, kNone});
        maker.Event(worker, forward, blocked.end_ns, 5 * kMs, {request, kNone});
      }
      at_ns += length_ns;
    }
    maker.trace.window_end_ns = at_ns + 100 * kMs;
  }
  // A stack `ms` after it was blocked.
  void Stack(int64_t ms, const char* call, uint32_t own, const std::vector<const char*>& frames,
             int64_t tid = kWorkerTid) {
    std::vector<model::ArgValue> args = {static_cast<uint64_t>(tid), own, 0, maker.String(call)};
    for (size_t i = 0; i < 3; ++i) args.push_back(maker.String(i < frames.size() ? frames[i] : ""));
    maker.Event(watcher, stack, blocked.begin_ns + ms * kMs, 0, {}, args);
  }
  // Samples of machine code at work, in callees of Encode.
  void StacksInEncode(int64_t from_ms, int64_t to_ms, int64_t step_ms = 20) {
    for (int64_t ms = from_ms; ms < to_ms; ms += step_ms) {
      if (ms % 3 == 0)
        Stack(ms, "", kOnCpu | 1, {"memmove (libc.so.6)", "Hash (server)", "Encode (server)"});
      else
        Stack(ms, "", kOnCpu, {"Encode (server)", "Serve (server)", "main (server)"});
    }
  }
  void StacksInFetch(int64_t from_ms, int64_t to_ms, const char* call = "recv") {
    for (int64_t ms = from_ms; ms < to_ms; ms += 10) Stack(ms, call, 0, {"fetch (app.py:88)", "serve (app.py:5)"});
  }
  BlameSegment Segment(Blame blame) const {
    BlameSegment segment;
    segment.begin_ns = blocked.begin_ns;
    segment.end_ns = blocked.end_ns;
    segment.thread = worker;
    segment.blame = blame;
    return segment;
  }
  const model::Trace& Made() {
    if (!trace.threads.empty()) return trace;
    trace = maker.Finish();
    test::CounterValues on_cpu;
    for (int64_t ns = 0; how.has_counter && ns < trace.window_end_ns; ns += 20 * kMs) {
      const bool has_slept = !how.is_busy && ns > blocked.begin_ns;
      const int64_t slept_ns = has_slept ? std::min(ns, blocked.end_ns) - blocked.begin_ns : 0;
      on_cpu.push_back({ns / kMs, static_cast<double>(ns - slept_ns)});
    }
    if (how.has_counter) test::AddCounter(&trace, kNone, base::ThreadCounter(kWorkerTid, base::kOnCpu), on_cpu);
    REQUIRE(FindInconsistency(trace) == "");
    return trace;
  }
  const Judgement& Judge() {
    REQUIRE(JudgeRequest(Made(), kLate, nullptr, &judgement).ok());
    text = VerdictText(judgement.index, judgement.blame, judgement.verdict);
    UNSCOPED_INFO(text);
    return judgement;
  }
  std::string Sentence() { return VerdictSentence(judgement.index, judgement.blame, judgement.verdict); }
  std::string Json() { return VerdictJson(judgement.index, judgement.blame, judgement.verdict); }

  const Kind how;
  TraceMaker maker;
  uint32_t worker, watcher, stack;
  model::Interval blocked;
  model::Trace trace;  // from Made on
  Judgement judgement;
  std::string text;
};

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a verdict names the line at which a thread was blocked for no recorded reason", "[stacks]") {
  Server server({});
  server.StacksInFetch(20, 300);

  const Judgement& judgement = server.Judge();

  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kHostBlockedUnknown);
  CHECK(Has(server.Sentence(), "in recv below fetch (app.py:88) on worker, in 28 of 28 stacks"));
  CHECK(!Has(server.Sentence(), "no recorded wait"));
  CHECK(Has(server.text, "in recv below fetch (app.py:88)"));
  CHECK(std::string(judgement.verdict.causes[0].unsure) == "stacks show where it slept, and not why");
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "look_at_stack");
}

TEST_CASE("without stacks the sleep stays unexplained", "[stacks]") {
  Server server({});

  const Judgement& judgement = server.Judge();

  CHECK(judgement.verdict.kind == VerdictKind::kUndetermined);
  CHECK(!Has(server.Json(), "\"stacks\""));
}

TEST_CASE("a verdict names the call and line of time outside of all scopes", "[stacks]") {
  Server server({.has_scope = false, .has_counter = false});
  server.StacksInFetch(20, 300);

  const Judgement& judgement = server.Judge();

  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kUntraced);
  CHECK(Has(server.Sentence(), "spent 300.0 ms in recv below fetch (app.py:88) on worker, in 28 of 28 stacks"));
  CHECK(judgement.verdict.causes[0].confidence < 0.75);
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "look_at_stack");
}

TEST_CASE("unrecorded time in no system call has a place and is still unexplained", "[stacks]") {
  Server server({.has_scope = false, .has_counter = false});
  server.StacksInFetch(20, 300, "");

  const Judgement& judgement = server.Judge();

  CHECK(judgement.verdict.kind == VerdictKind::kUndetermined);
  CHECK(Has(server.Sentence(), "in fetch (app.py:88)"));
}

TEST_CASE("stacks that disagree, are few, or come late explain nothing", "[stacks]") {
  Server server({});
  const std::string how = GENERATE("disagree", "few", "late");
  INFO(how);
  if (how == "disagree") {
    for (int64_t ms = 20; ms < 300; ms += 20) {
      server.Stack(ms, "recv", 0, {"fetch (app.py:88)"});
      server.Stack(ms + 10, "recv", 0, {"store (app.py:99)"});
    }
  } else {
    server.StacksInFetch(how == "few" ? 20 : 200, how == "few" ? 40 : 300);
  }

  CHECK(server.Judge().verdict.kind == VerdictKind::kUndetermined);
}

TEST_CASE("stacks of other threads and other times say nothing about a thread", "[stacks]") {
  Server server({.has_scope = false, .has_counter = false});
  for (int64_t ms = 20; ms < 300; ms += 10) server.Stack(ms, "recv", 0, {"fetch (app.py:88)"}, 1234);
  for (int64_t ms = 400; ms < 500; ms += 10) server.Stack(ms, "recv", 0, {"fetch (app.py:88)"});

  CHECK(server.Judge().verdict.kind == VerdictKind::kUndetermined);
  CHECK(!Has(server.Sentence(), "fetch ("));
}

TEST_CASE("a recorded wait keeps its own name", "[stacks]") {
  Server server({});
  const uint32_t wait = server.maker.WaitSite();
  server.maker.Event(server.worker, wait, server.blocked.begin_ns, kBlockedNs, {kLate, kNone},
                     {static_cast<uint64_t>(WaitKind::kOther), server.maker.String("the peer"), 0, 0});
  server.StacksInFetch(20, 300);

  server.Judge();

  CHECK(Has(server.Sentence(), "\"the peer\""));
  CHECK(!Has(server.Sentence(), "fetch ("));
}

TEST_CASE("the place is the innermost frame outside of libraries", "[stacks]") {
  Server server({});
  server.Stack(20, "", 1, {"wait (threading.py:331)", "get (app.py:12)", "serve (app.py:5)"});
  server.Stack(30, "", 1, {"acquire (threading.py:99)", "get (app.py:12)", "serve (app.py:5)"});
  server.Stack(40, "", 3, {"poll (selectors.py:7)", "select (selectors.py:9)"});
  const Stacks stacks(server.Made());
  BlameSegment segment = server.Segment(Blame::kUntraced);

  Stacks::Seen seen = stacks.Of(segment);

  CHECK(seen.agree == 2);
  CHECK(seen.count == 3);
  CHECK(stacks.Place(seen.event) == "wait (threading.py:331) below get (app.py:12)");
  CHECK(Stacks::CountText(seen) == ", in 2 of 3 stacks");
  segment.begin_ns += 35 * kMs;
  seen = stacks.Of(segment);
  CHECK(stacks.Place(seen.event) == "poll (selectors.py:7)");
  CHECK(Stacks::CountText(seen) == ", in 1 of 1 stack");
  segment.blame = Blame::kHostOncpuPre;
  CHECK(!stacks.Of(segment).is_known());
}

TEST_CASE("stacks of an interpreter's thread that may have run do not show where it slept", "[stacks]") {
  Server server({});
  for (int64_t ms = 20; ms < 200; ms += 10) server.Stack(ms, "", 0, {"compute (app.py:7)"});
  server.StacksInFetch(200, 260);
  const Stacks stacks(server.Made());

  const Stacks::Seen seen = stacks.Of(server.Segment(Blame::kHostBlockedUnknown));

  CHECK(seen.count == 6);
  CHECK(stacks.Place(seen.event) == "recv below fetch (app.py:88)");
  CHECK(server.Judge().verdict.kind == VerdictKind::kUndetermined);  // they cover less than half of it
  CHECK(stacks.Of(server.Segment(Blame::kUntraced)).count == 24);
}

TEST_CASE("one stack proves nothing, and is where to look", "[stacks]") {
  Server server({.has_scope = false, .has_counter = false});
  server.StacksInFetch(290, 300);

  const Judgement& judgement = server.Judge();

  CHECK(Has(server.Sentence(), "in recv below fetch (app.py:88)"));
  CHECK(Has(server.Sentence(), "in 1 of 1 stack"));
  REQUIRE(!judgement.verdict.causes.empty());
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "look_at_stack");
}

TEST_CASE("frames of an interpreter count in place of the machine's", "[stacks]") {
  Server server({});
  server.StacksInFetch(20, 50);
  for (int64_t ms = 22; ms < 300; ms += 10)
    server.Stack(ms, "recv", kNative | 1, {"recv (libc.so.6)", "sock_recv (python3)"});
  for (int64_t ms = 402; ms < 500; ms += 10) server.Stack(ms, "", kNative | 1, {"recv (libc.so.6)", "Get (cache.so)"});
  const Stacks stacks(server.Made());
  BlameSegment segment = server.Segment(Blame::kUntraced);

  Stacks::Seen seen = stacks.Of(segment);
  CHECK(seen.count == 3);
  CHECK(stacks.Place(seen.event) == "recv below fetch (app.py:88)");
  segment.begin_ns += 400 * kMs;
  segment.end_ns += 400 * kMs;
  seen = stacks.Of(segment);
  CHECK(seen.count == 10);
  CHECK(stacks.Place(seen.event) == "recv (libc.so.6) below Get (cache.so)");
}

TEST_CASE("verdict.json has the frames of a stack and how many agree", "[stacks]") {
  Server server({.has_scope = false, .has_counter = false});
  server.StacksInFetch(20, 300);

  server.Judge();

  std::string json = server.Json();
  json.erase(std::remove_if(json.begin(), json.end(), [](char c) { return c == ' ' || c == '\n'; }), json.end());
  CHECK(Has(json,
            R"~("stacks":{"place":"recvbelowfetch(app.py:88)","system_call":"recv","frames":["fetch(app.py:88)",)~"
            R"~("serve(app.py:5)"],"agree":28,"count":28,"at_ns":25000000})~"));
}

TEST_CASE("a verdict names the function in which late code ran", "[stacks]") {
  Server server({.is_busy = true});
  for (int64_t ms = 20; ms < 300; ms += 20) {
    const bool is_merging = ms != 20 && ms != 160;
    server.Stack(ms, "", 0, {is_merging ? "_merge (scheduler.py:412)" : "step (scheduler.py:7)", "run (engine.py:5)"});
  }

  const Judgement& judgement = server.Judge();

  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kHostOncpuPre);
  CHECK(Has(server.Sentence(),
            "spent 310.0 ms on host code in \"forward\" on worker, in _merge (scheduler.py:412), in "
            "12 of 14 stacks"));
  CHECK(Has(server.text, "_merge (scheduler.py:412), in 12 of 14 stacks"));
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "look_at_code");
  std::string json = server.Json();
  json.erase(std::remove_if(json.begin(), json.end(), [](char c) { return c == ' ' || c == '\n'; }), json.end());
  const std::string stacks =
      R"~("stacks":{"place":"_merge(scheduler.py:412)","frames":["_merge(scheduler.py:412)","run(engine.py:5)"],)~"
      R"~("agree":12,"count":14,"at_ns":45000000})~";
  CHECK(Has(json, "\"place_ns\":310000000," + stacks));  // of the cause
  CHECK(Has(json, "\"thread\":\"worker\",\"tid\":" + std::to_string(kWorkerTid) + ",\"event\":\"forward\"," +
                      stacks));  // of its segment
}

TEST_CASE("code that moves between lines and callees has the function that most stacks share", "[stacks]") {
  Server server({.is_busy = true});
  const std::string how = GENERATE("lines", "callees");
  INFO(how);
  for (int64_t ms = 20; ms < 300; ms += 20) {
    const std::string number = std::to_string(ms);
    if (how == "lines")
      server.Stack(ms, "", 0, {("_merge (scheduler.py:" + number + ")").c_str(), "run (engine.py:5)"});
    else
      server.Stack(ms, "", 0, {("key" + number + " (keys.py:9)").c_str(), "_merge (scheduler.py:412)"});
  }

  server.Judge();

  CHECK(Has(server.Sentence(), how == "lines" ? "in _merge (scheduler.py), in 14 of 14 stacks"
                                              : "in _merge (scheduler.py:412), in 14 of 14 stacks"));
}

TEST_CASE("stacks that are few, disagree, come late, leave a gap, sleep or are native do not say where code ran",
          "[stacks]") {
  const std::string how = GENERATE("few", "disagree", "late", "gap", "asleep", "native", "elsewhere");
  INFO(how);
  Server server({.is_busy = true});
  for (int64_t ms = 20; ms < 300; ms += 10) {
    if ((how == "few" && ms > 30) || (how == "late" && ms < 200) || (how == "gap" && ms > 50 && ms < 290)) continue;
    const bool is_other = how == "disagree" && ms % 30 == 0;
    server.Stack(ms + (how == "elsewhere" ? 400 : 0), how == "asleep" ? "recv" : "", how == "native" ? 0x100 : 0,
                 {is_other ? "store (app.py:9)" : "fetch (app.py:88)"});
  }

  const Judgement& judgement = server.Judge();

  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(!Has(server.Sentence(), "stacks"));
  CHECK(!Has(server.Json(), "\"stacks\""));
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "speed_preprocessing");
}

TEST_CASE("stacks of code without counters keep their system call", "[stacks]") {
  Server server({.has_counter = false});
  server.StacksInFetch(20, 300);

  const Judgement& judgement = server.Judge();

  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(Has(server.Sentence(),
            "spent 310.0 ms in \"forward\" on worker, running or asleep, in recv below fetch "
            "(app.py:88), in 28 of 28 stacks"));
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "watch_threads");
}

TEST_CASE("a verdict names the function of machine code that ran late", "[stacks]") {
  Server server({.is_busy = true});
  server.StacksInEncode(20, 300);
  for (int64_t ms = 25; ms < 300; ms += 40) server.Stack(ms, "futex", kNative, {"Wait (server)"});

  const Judgement& judgement = server.Judge();

  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kHostOncpuPre);
  CHECK(Has(server.Sentence(),
            "spent 310.0 ms on host code in \"forward\" on worker, in Encode (server), in 14 of 14 stacks"));
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "look_at_code");
  CHECK(Has(server.Json(), "\"on_cpu\": 14"));
}

TEST_CASE("a verdict names the function in which a thread was busy outside of all scopes", "[stacks]") {
  const bool has_counter = GENERATE(true, false);
  Server server({.has_scope = false, .has_counter = has_counter, .is_busy = true});
  server.StacksInEncode(20, 300);

  const Judgement& judgement = server.Judge();

  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kUntraced);
  const std::string busy = has_counter ? "was busy" : "was busy, or waited for a CPU,";
  CHECK(Has(server.Sentence(), busy + " for 300.0 ms on worker, in Encode (server), in 14 of 14 stacks"));
  CHECK(std::string(judgement.verdict.causes[0].unsure) == "only stacks show what it did");
  CHECK(judgement.verdict.causes[0].confidence < 0.75);
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "look_at_code");
}

TEST_CASE("samples that disagree, are few, come late, or of a thread that mostly slept do not say that it was busy",
          "[stacks]") {
  Server server({.has_scope = false, .has_counter = false});
  const std::string how = GENERATE("disagree", "few", "late", "asleep", "interpreted");
  INFO(how);
  if (how == "disagree") {
    for (int64_t ms = 20; ms < 300; ms += 20)
      server.Stack(ms, "", kOnCpu, {ms % 40 == 0 ? "Encode (server)" : "Decode (server)"});
  } else {
    server.StacksInEncode(how == "late" ? 200 : 20, how == "few" ? 50 : 300);
  }
  for (int64_t ms = 25; ms < 300; ms += 20) {
    if (how == "asleep") server.Stack(ms, "", kNative, {"Encode (server)"});  // in a page fault
    if (how == "interpreted") server.Stack(ms, "", 0, {ms % 40 == 5 ? "encode (app.py:7)" : "decode (app.py:9)"});
  }

  const Judgement& judgement = server.Judge();

  CHECK(judgement.verdict.kind == VerdictKind::kUndetermined);
  CHECK(!Has(server.Sentence(), "busy"));
}

TEST_CASE("samples of code without counters show whether it slept", "[stacks]") {
  Server server({.has_counter = false});
  const bool has_slept = GENERATE(false, true);
  server.StacksInEncode(20, has_slept ? 80 : 300);
  for (int64_t ms = 90; has_slept && ms < 300; ms += 10)
    server.Stack(ms, "futex", kNative | 1, {"futex (libc.so.6)", "Lock (server)", "Encode (server)"});

  const Judgement& judgement = server.Judge();

  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  const char* const sentence =
      has_slept
          ? "spent 310.0 ms in \"forward\" on worker, running or asleep, in futex below Lock (server), in 21 of 24"
          : "spent 310.0 ms in \"forward\" on worker, running or waiting for a CPU, in Encode (server), in 14 of 14";
  CHECK(Has(server.Sentence(), sentence));
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == (has_slept ? "watch_threads" : "look_at_code"));
  CHECK(Has(judgement.verdict.causes[0].unsure, has_slept ? "it may have slept" : "it may have waited for a CPU"));
}

TEST_CASE("samples count where an interpreter's thread was not seen, and only there", "[stacks]") {
  Server server({.is_busy = true});
  const bool is_seen = GENERATE(false, true);
  server.StacksInEncode(20, 300);
  for (int64_t ms = 25; ms < (is_seen ? 300 : 60); ms += 20) server.Stack(ms, "", 0, {"_merge (scheduler.py:412)"});

  server.Judge();

  CHECK(Has(server.Sentence(),
            is_seen ? "in _merge (scheduler.py:412), in 14 of 14 stacks" : "in Encode (server), in 14 of 14 stacks"));
}

TEST_CASE("samples of a running thread do not show where it slept", "[stacks]") {
  Server server({});
  server.StacksInFetch(20, 300);
  server.StacksInEncode(25, 300);
  Server busy({});
  busy.StacksInEncode(20, 300, 10);

  server.Judge();
  busy.Judge();

  CHECK(Has(server.Sentence(), "in recv below fetch (app.py:88) on worker, in 28 of 28 stacks"));
  CHECK(busy.judgement.verdict.kind == VerdictKind::kUndetermined);
}
