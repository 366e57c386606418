// SPDX-License-Identifier: Apache-2.0
//
// Arguments of scopes that are larger than usual are told with the scope.
#include <string.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/facts/arguments.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/unusual_arguments.h"
#include "pitot/analyze/judgement.h"
#include "serialize/sample_trace.h"

using namespace pitot;
using analyze::Judgement;
using model::kNone;
using test::TraceMaker;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kRequests = 150, kLate = 100;

// Requests of 10 ms, each in a scope "forward" with two numbers. One takes 300 ms.
struct Server {
  explicit Server(uint32_t with_arguments = kRequests) {
    const uint32_t worker = maker.Thread("engine");
    forward = maker.Site(SiteKind::kScope, "forward", {{"n_prompt", ArgType::kInt}, {"step", ArgType::kUint}});
    int64_t at_ns = 100 * kMs;
    for (uint32_t i = 0; i < kRequests; ++i) {
      const int64_t length_ns = i == kLate ? 300 * kMs : 10 * kMs + (i % 7) * kMs / 50;
      const uint32_t request = maker.Request(10 + i, "/generate", at_ns, length_ns);
      maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = worker;
      const bool has_arguments =
          i == kLate || (i > kLate && i <= kLate + with_arguments) || (with_arguments == kRequests && i < kLate);
      std::vector<model::ArgValue> args;
      if (has_arguments) args = {i == kLate ? late : 50 + i % 11, 1000 * i};
      maker.Event(worker, forward, at_ns, length_ns, {request, kNone}, args);
      at_ns += length_ns;
    }
    maker.trace.window_end_ns = at_ns + 100 * kMs;
  }
  void Judge() {
    trace = maker.Finish();
    REQUIRE(FindInconsistency(trace) == "");
    REQUIRE(JudgeRequest(trace, kLate, nullptr, &judgement).ok());
    sentence = VerdictSentence(judgement.index, judgement.blame, judgement.verdict);
    json = VerdictJson(judgement.index, judgement.blame, judgement.verdict);
    UNSCOPED_INFO(sentence);
  }

  static constexpr model::ArgValue late = 2578;
  TraceMaker maker;
  uint32_t forward;
  model::Trace trace;  // from Judge on
  Judgement judgement;
  std::string sentence, json;
};

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a scope's number beyond twice its usual is told with the scope, and one that only grows is not",
          "[arguments]") {
  Server server;

  server.Judge();

  CHECK(Has(server.sentence, "in \"forward\" (n_prompt 2578, usually 55) on engine"));
  CHECK(Has(server.json, "\"name\": \"n_prompt\""));
  CHECK(Has(server.json, "\"value\": 2578"));
  CHECK(Has(server.json, "\"usual\": 55"));
  CHECK(!Has(server.json, "\"step\""));
}

TEST_CASE("a scope without such a number is told with the one around it", "[arguments]") {
  Server server;
  const uint32_t op = server.maker.Site(SiteKind::kScope, "aten::linear");
  const int64_t begin_ns = server.maker.trace.requests[kLate].begin_ns;
  server.maker.Event(0, op, begin_ns + kMs, 298 * kMs, {kLate, kNone});
  server.maker.Event(0, op, begin_ns - 5 * kMs, kMs, {kLate - 1, kNone});

  server.Judge();

  CHECK(Has(server.sentence, "in \"aten::linear\" of \"forward\" (n_prompt 2578, usually 55) on engine"));
  CHECK(Has(server.json, "\"scope\": \"forward\""));
}

TEST_CASE("the usual number of very many scopes is that of some of them, all over the trace", "[arguments]") {
  Server server;
  const uint32_t other = server.maker.Thread("other engine");
  for (uint32_t i = 0; i < 20'000; ++i)  // the first quarter has small numbers
    server.maker.Event(other, server.forward, 100 * kMs + i * 1'000, 500, {},
                       {i < 5'000 ? 5u + i % 3 : 905u + i % 3, i});

  server.Judge();

  CHECK(Has(server.sentence, "n_prompt 2578, usually 90"));
}

TEST_CASE("a number is unusual only among eight of its kind", "[arguments]") {
  const uint32_t others = GENERATE(6u, 7u);
  Server server(others);

  server.Judge();

  CHECK(Has(server.sentence, "n_prompt") == (others == 7));
  CHECK(Has(server.json, "\"arguments\"") == (others == 7));
}

TEST_CASE("a number up to twice its usual is as usual", "[arguments]") {
  Server server;
  for (size_t i = 0; i < server.maker.trace.arg_values.size(); i += 2) {
    if (server.maker.trace.arg_values[i] == Server::late) server.maker.trace.arg_values[i] = 110;
  }

  server.Judge();

  CHECK(Has(server.sentence, "in \"forward\" on engine"));
}

TEST_CASE("what arguments usually are is found once for all lines, and may be cut off", "[arguments]") {
  Server server;
  const model::Trace trace = server.maker.Finish();
  facts::Patience patient(nullptr, nullptr);
  const facts::UsualArguments usual(trace, &patient);
  int asked = 0;
  facts::Patience impatient([](void* context) { return ++*static_cast<int*>(context) > 0; }, &asked);

  CHECK(usual.Text(kLate) == " (n_prompt 2578, usually 55)");
  CHECK(usual.Text(kLate - 1).empty());
  impatient.Count(1'000);
  CHECK_THROWS_AS(facts::UsualArguments(trace, &impatient), facts::Over);
  CHECK(asked == 1);
}

TEST_CASE("an argument's number is read by its type", "[arguments]") {
  const double half = 0.5;
  model::ArgValue bits;
  memcpy(&bits, &half, sizeof bits);
  CHECK(facts::NumberOf(ArgType::kDouble, bits) == 0.5);
  CHECK(facts::NumberOf(ArgType::kInt, static_cast<model::ArgValue>(-3)) == -3);
  CHECK(facts::NumberOf(ArgType::kUint, 3) == 3);
  CHECK(facts::NumberOf(ArgType::kName, 3) == 0);
}
