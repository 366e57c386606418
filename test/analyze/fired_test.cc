// SPDX-License-Identifier: Apache-2.0
//
// Incidents that are not about a request's latency open with what fired.
#include <catch2/catch.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "analyze/judge/make_judge.h"
#include "analyze/keeping_hearing.h"
#include "analyze/small_server.h"
#include "pitot/analyze/asked.h"
#include "pitot/analyze/judge.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

namespace {

namespace analyze = pitot::analyze;
using analyze::Asked;
using analyze::FiredKind;
using pitot::Outcome;
using pitot::SiteKind;
using pitot::Status;
using pitot::StatusCode;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::model::Trace;
using small_server::Server;

constexpr int64_t kMs = 1'000'000;

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
bool Opens(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }

void AddAttribute(const char* key, const char* value, Trace* trace) {
  trace->attributes.push_back({trace->strings.Add(key), trace->strings.Add(value)});
}

// A small server in good health, with slow requests nobody fired for, and one firing.
Trace FiredWith(const char* cause, const char* detail, uint64_t request = 0) {
  Trace trace = Server().Make(140, false);
  trace.firings.push_back({trace.window_end_ns, request, trace.strings.Add(cause), trace.strings.Add(detail)});
  AddAttribute("incident.number", "7", &trace);
  AddAttribute("incident.cause", cause, &trace);
  return trace;
}

// An engine's thread is in "step" for 12 s, and in it waits for a lock that thread "loader" holds. Another has been in
// a "step" of its own for longer.
struct StalledEngine {
  explicit StalledEngine(bool has_request = false) {
    maker.trace.window_begin_ns = 0;
    maker.trace.window_end_ns = 20'000 * kMs;
    maker.trace.clock = {maker.trace.window_end_ns, 1795228277123456789, 0, true, 2.1, 40};
    engine = maker.Thread("engine");
    const uint32_t other = maker.Thread("other"), loader = maker.Thread("loader");
    const uint32_t step = maker.Site(SiteKind::kScope, "step"), wait = maker.WaitSite();
    if (has_request) request = maker.Request(0x8f0c, "/generate", 7'000 * kMs, kOpen);
    maker.Event(engine, step, 8'000 * kMs, kOpen, {request, kNone});
    maker.Event(engine, wait, 8'001 * kMs, kOpen, {request, kNone},
                {static_cast<uint64_t>(pitot::WaitKind::kLock), maker.String("weights"),
                 maker.trace.threads[loader].number, 0});
    maker.Event(other, step, 1'000 * kMs, kOpen);
    const std::string detail =
        "open for 10000.0 ms on thread #" + std::to_string(maker.trace.threads[engine].number) + ", above 10000.0 ms";
    maker.trace.firings.push_back({18'000 * kMs, 0, maker.String("stall scope step"), maker.String(detail)});
  }
  Trace Finish() {
    Trace trace = maker.Finish();
    AddAttribute("incident.number", "7", &trace);
    AddAttribute("incident.cause", "stall scope step", &trace);
    return trace;
  }
  pitot::test::TraceMaker maker;
  uint32_t engine, request = kNone;
};

struct Heard {
  explicit Heard(const Trace& trace) : hearing(trace) {
    pitot::WhyJudgeOptions options;
    options.warm_up_ms = 0;
    const auto judge = pitot::judge::MakeJudge(options, {}, []() noexcept { return uint64_t{0}; });
    REQUIRE(judge->Decide(hearing).ok());
    opening = hearing.opening;
    json = nlohmann::json::parse(hearing.files["verdict.json"]);
    REQUIRE(judge->AddFindings(hearing).ok());
    html = hearing.files["report.html"];
  }
  fakes::KeepingHearing hearing;
  std::string opening, html;
  nlohmann::json json;
};

}  // namespace

TEST_CASE("a stalled scope opens its incident with the thread and what it waits for, not with an innocent", "[fired]") {
  const Heard heard(StalledEngine().Finish());
  const std::string sentence =
      "Scope \"step\" on engine has been open for 12.00 s: it waits for lock \"weights\", held by loader.";

  CHECK(Opens(heard.opening, sentence + "\nincident 0007  stall scope step\n\n"));
  CHECK(Contains(heard.html, "<h1>Scope &quot;step&quot; on engine has been open for 12.00 s"));
  CHECK(heard.json["summary"] == sentence);
  CHECK(heard.json["fired"]["kind"] == "scope");
  CHECK(heard.json["fired"]["scope"] == "step");
  CHECK(heard.json["fired"]["thread"] == "engine");
  CHECK(heard.json["fired"]["open_ns"] == 12'000 * kMs);
  CHECK(heard.json["verdict"] == "none");
  CHECK(heard.hearing.signature == "scope step on engine: lock weights, held by loader");
  CHECK(heard.hearing.excess_ns == 12'000 * kMs);
}

TEST_CASE("the request that a stalled scope works for is judged", "[fired]") {
  const Heard heard(StalledEngine(true).Finish());

  CHECK(Opens(heard.opening,
              "Scope \"step\" on engine has been open for 12.00 s, for request 0000000000008f0c (/generate): it"));
  CHECK(Contains(heard.opening, "Request 0000000000008f0c (/generate) has taken 13.00 s so far"));
  CHECK(heard.json["request"] == "0000000000008f0c");
  CHECK(heard.json["fired"]["kind"] == "scope");
  CHECK(Opens(heard.json["summary"], "Scope \"step\" on engine"));
}

TEST_CASE("a stalled scope that is not in the trace is told of in the trigger's words", "[fired]") {
  StalledEngine server;
  server.maker.trace.firings[0].cause = server.maker.String("stall scope poll");
  const Heard heard(server.Finish());

  CHECK(Opens(heard.opening, "Scope \"poll\" stalled: open for 10000.0 ms on thread #1, above 10000.0 ms."));
}

TEST_CASE("an incident that the host asked for says so, and names no request", "[fired]") {
  const Heard heard(FiredWith("manual", "deploy of v7"));

  CHECK(Opens(heard.opening,
              "The host asked for this incident: \"deploy of v7\". No request fired.\nincident 0007  manual\n\n"));
  CHECK(!Contains(heard.opening, "0000000000008f0c"));
  CHECK(Contains(heard.html, "<h1>The host asked for this incident"));
  CHECK(Contains(heard.html, "<h2>Findings of this window</h2>"));
  CHECK(heard.json["fired"]["kind"] == "window");
  CHECK(heard.json["fired"]["detail"] == "deploy of v7");
  CHECK(heard.json["verdict"] == "none");
  CHECK(heard.json.count("request") == 0);
  CHECK(heard.hearing.signature.empty());
}

TEST_CASE("a host's own trigger that fires for no request is named, and no request is judged", "[fired]") {
  const Heard heard(FiredWith("queue depth", "40 above 20"));

  CHECK(Opens(heard.opening, "\"queue depth\" fired, for no request: 40 above 20.\nincident 0007  queue depth\n\n"));
  CHECK(!Contains(heard.opening, "0000000000008f0c"));
}

TEST_CASE("a request that fired while the host asked is judged after that", "[fired]") {
  Trace trace = FiredWith("manual", "deploy of v7");
  trace.firings.push_back({trace.window_end_ns, small_server::kSlow, trace.strings.Add("latency /classify"), 0});
  const Heard heard(trace);

  CHECK(Opens(heard.opening, "The host asked for this incident: \"deploy of v7\".\nincident 0007  manual\n\n"));
  CHECK(Contains(heard.opening, "Request 0000000000008f0c (/classify) took"));
}

TEST_CASE("a failure opens with the outcome; a latency verdict follows only if it was slow as well", "[fired]") {
  constexpr uint64_t kQuick = 0x1005;
  Trace quick = FiredWith("failed /classify", "failed after 15.0 ms", kQuick);
  for (pitot::model::RequestRow& row : quick.requests) {
    if (row.id == kQuick) row.outcome = Outcome::kFailed;
  }
  const Heard fast(quick);
  CHECK(Opens(fast.opening, "Request 0000000000001005 (/classify) failed after 15."));
  CHECK(Contains(fast.opening, "ms, and was not slow.\nincident 0007  failed /classify\n\n"));
  CHECK(!Contains(fast.opening, "what to do"));
  CHECK(Contains(fast.html, "<h1>Request 0000000000001005 (/classify) failed after 15."));
  CHECK(!Contains(fast.html, "<h2>/classify"));
  CHECK(fast.json["fired"]["kind"] == "failure");
  CHECK(fast.json["fired"]["outcome"] == "failed");
  CHECK(fast.hearing.signature == "/classify: failed");

  Trace slow = FiredWith("failed /classify", "failed after 33.5 ms", small_server::kSlow);
  for (pitot::model::RequestRow& row : slow.requests) {
    if (row.id == small_server::kSlow) row.outcome = Outcome::kFailed;
  }
  const Heard late(slow);
  CHECK(Opens(late.opening, "Request 0000000000008f0c (/classify) failed after 33."));
  CHECK(Contains(late.opening, ", and was slow as well.\nincident 0007  failed /classify\n\nRequest 0000000000008f0c"));
  CHECK(Contains(late.opening, "executor_busy"));
  CHECK(late.hearing.signature == "/classify: failed; /classify: batch executor_busy, of unet");
}

TEST_CASE("the first of several failures is told, and the others are counted", "[fired]") {
  Trace trace = FiredWith("failed /classify", "failed after 15.0 ms", 0x1005);
  for (const uint64_t id : {0x1007, 0x1009})
    trace.firings.push_back({trace.window_end_ns + 1, id, trace.strings.Add("failed /classify"), 0});
  for (pitot::model::RequestRow& row : trace.requests) {
    if (row.id == 0x1005 || row.id == 0x1007 || row.id == 0x1009) row.outcome = Outcome::kFailed;
  }
  const Heard heard(trace);

  CHECK(Opens(heard.opening, "Request 0000000000001005 (/classify) failed after"));
  CHECK(Contains(heard.opening, "; 2 more requests failed.\n"));
}

TEST_CASE("what fired is read from the first firing, and the request asked about with it", "[fired]") {
  const auto asked = [](const Trace& trace) {
    analyze::BlameIndex index;
    REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
    Asked it;
    const Status status = ChooseAsked(index, &it);
    CHECK(status.ok() == (it.request != kNone));
    CHECK((status.ok() || status.code() == StatusCode::kNotFound));
    return it;
  };
  CHECK(asked(FiredWith("latency /classify", "", small_server::kSlow)).kind == FiredKind::kRequest);
  CHECK(asked(FiredWith("manual", "")).kind == FiredKind::kWindow);
  CHECK(asked(FiredWith("manual", "")).request == kNone);
  CHECK(asked(Server().Make(140, false)).kind == FiredKind::kNothing);
  CHECK(asked(Server().Make(140, false)).request != kNone);
  // A host's rule may have any name, and only a request that did not end well has failed.
  CHECK(asked(FiredWith("failed checks", "", small_server::kSlow)).kind == FiredKind::kRequest);
  StalledEngine stalled;
  CHECK(asked(stalled.maker.Finish()).kind == FiredKind::kScope);
}
