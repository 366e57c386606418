// SPDX-License-Identifier: Apache-2.0
//
// Calls that the host forgot are named in the log and in the report.
#include "session/self_check.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "fakes/trace_text.h"
#include "pitot/trigger/latency.h"
#include "pitot/trigger/tokens.h"
#include "serialize/sample_trace.h"

namespace {

using pitot::Outcome;
using pitot::SiteKind;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::model::Trace;
using pitot::session::SelfCheck;

constexpr int64_t kMs = 1'000'000;

// How a server serves.
struct Serves {
  Outcome outcome = Outcome::kOk;
  uint32_t tokens = 3;
  bool has_scopes = true;
  bool has_names = true;
  bool leaves_batch = true;
};

// The trace of a window of a server: requests of 10 ms one after the other, in an engine's one batch.
Trace Window(const Serves& how, uint32_t requests = 30, int64_t begin_ns = 0) {
  pitot::test::TraceMaker maker;
  maker.trace.window_begin_ns = begin_ns;
  maker.trace.window_end_ns = begin_ns + 10'000 * kMs;
  maker.trace.pid = 1;
  const uint32_t thread =
                     maker.Thread(how.has_names ? "engine" : std::string(program_invocation_short_name).substr(0, 15)),
                 other = maker.Thread(how.has_names ? "http" : "");
  maker.trace.threads[thread].tid = 2;
  maker.trace.threads[other].tid = 3;
  const uint32_t scope = maker.Site(SiteKind::kScope, "step");
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < requests; ++i) {
    const int64_t at_ns = begin_ns + (i + 1) * 10 * kMs;
    rows.push_back(maker.Request(static_cast<uint64_t>(begin_ns) + i + 1, "/generate", at_ns, 10 * kMs));
    maker.trace.requests[rows[i]].outcome = how.outcome;
    maker.trace.requests[rows[i]].output_tokens = how.tokens;
    maker.Event(thread, scope, at_ns, kMs, {how.has_scopes ? rows[i] : kNone, kNone});
    maker.Event(other, scope, at_ns, kMs);
  }
  if (how.has_scopes) {
    const uint32_t batch = maker.Batch(9, "engine", thread, begin_ns + kMs, kOpen);
    for (uint32_t i = 0; i < requests; ++i) {
      const int64_t at_ns = begin_ns + (i + 1) * 10 * kMs;
      maker.Member(batch, rows[i], at_ns, how.leaves_batch ? at_ns + 10 * kMs : 0);
    }
  }
  return maker.Finish();
}

struct Looked {
  explicit Looked(const Serves& how, uint32_t requests = 30) : trace(Window(how, requests)) {
    SelfCheck check;
    check.NoteTokens("/generate");
    logged = check.Look(&trace);
  }
  std::string Of(const char* name) const { return std::string(trace.AttributeOf(std::string("missing_call.") + name)); }
  Trace trace;
  std::vector<std::string> logged;
};

}  // namespace

TEST_CASE("a server that says all it should gets no remark", "[self_check]") {
  CHECK(Looked({}).logged.empty());
  for (const char* name : {"outcomes", "tokens", "batches", "stages", "threads"}) CHECK(Looked({}).Of(name).empty());
}

TEST_CASE("outcomes that teach nothing are named, with the call that mends it", "[self_check]") {
  Serves how;
  how.outcome = Outcome::kCancelled;
  const std::string text =
      "all of 30 requests ended as cancelled or abandoned, so nothing is learned: call Request::Finish with "
      "pitot::Outcome::kOk";
  CHECK(Looked(how).logged == std::vector{text});
  CHECK(Looked(how).Of("outcomes") == text);
  how.outcome = Outcome::kAbandoned;
  CHECK(Looked(how).logged == std::vector{text});
  how.outcome = Outcome::kFailed;
  CHECK(Looked(how).logged.empty());
}

TEST_CASE("requests without tokens are named where a trigger watches tokens", "[self_check]") {
  Serves how;
  how.tokens = 0;
  const std::string text = "a trigger watches tokens, and none of 30 requests put one out: call pitot::Emit for each";
  CHECK(Looked(how).logged == std::vector{text});
  CHECK(Looked(how).Of("tokens") == text);

  for (const char* route : {"/other", ""}) {
    Trace trace = Window(how);
    SelfCheck check;
    check.NoteTokens(route);
    CHECK(check.Look(&trace).empty() == (*route != '\0'));
  }
  pitot::TokensTriggerOptions tokens;
  tokens.gap_above_ms = 1;
  CHECK(SelfCheck::TokensOf(pitot::MakeTokensTrigger(tokens).get()) == "");
  tokens.route = "/generate";
  CHECK(SelfCheck::TokensOf(pitot::MakeTokensTrigger(tokens).get()) == "/generate");
  CHECK_FALSE(SelfCheck::TokensOf(pitot::MakeLatencyTrigger({}).get()).has_value());
  CHECK_FALSE(SelfCheck::TokensOf(nullptr).has_value());
}

TEST_CASE("members that stay in an open batch when their requests have ended are named", "[self_check]") {
  Serves how;
  how.leaves_batch = false;
  const std::string text = "30 requests ended and stayed in open batches: call Batch::Leave for each, or Batch::Finish";
  CHECK(Looked(how).logged == std::vector{text});
  CHECK(Looked(how).Of("batches") == text);
}

TEST_CASE("requests without a scope, queue, batch or stage are named", "[self_check]") {
  Serves how;
  how.has_scopes = false;
  const std::string text =
      "none of 30 requests has a scope, a queue or a batch: put PITOT_SCOPE into the code that serves them";
  CHECK(Looked(how).logged == std::vector{text});
  CHECK(Looked(how).Of("stages") == text);
}

TEST_CASE("threads with the program's name, or none, are named", "[self_check]") {
  Serves how;
  how.has_names = false;
  const std::string text =
      "2 threads have the program's name: call pitot::SetThreadName in each, so that verdicts can tell them apart";
  CHECK(Looked(how).logged == std::vector{text});
  CHECK(Looked(how).Of("threads") == text);
}

TEST_CASE("few requests show nothing; those of windows that overlap count once", "[self_check]") {
  Serves how;
  how.outcome = Outcome::kCancelled;
  CHECK(Looked(how, 19).logged.empty());

  SelfCheck check;
  Trace first = Window(how, 12), again = Window(how, 12), later = Window(how, 12, 20'000 * kMs);
  CHECK(check.Look(&first).empty());
  CHECK(check.Look(&again).empty());
  CHECK(check.Look(&later).size() == 1);
}

TEST_CASE("threads that have their names and batches that are left by now get no remark any more", "[self_check]") {
  Serves how;
  how.has_names = how.leaves_batch = false;
  SelfCheck check;
  Trace before = Window(how), after = Window({}, 30, 20'000 * kMs);
  CHECK(check.Look(&before).size() == 2);
  CHECK(check.Look(&after).empty());
  for (const char* name : {"threads", "batches"}) {
    CHECK(!before.AttributeOf(std::string("missing_call.") + name).empty());
    CHECK(after.AttributeOf(std::string("missing_call.") + name).empty());
  }
}

TEST_CASE("a remark is logged once, is in each incident, and ends with the first call", "[self_check]") {
  Serves how;
  how.outcome = Outcome::kCancelled;
  SelfCheck check;
  Trace first = Window(how), second = Window(how, 30, 20'000 * kMs), third = Window({}, 30, 40'000 * kMs);
  CHECK(check.Look(&first).size() == 1);
  CHECK(check.Look(&second).empty());
  CHECK(!second.AttributeOf("missing_call.outcomes").empty());
  CHECK(check.Look(&third).empty());
  CHECK(third.AttributeOf("missing_call.outcomes").empty());
}
