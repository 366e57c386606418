// SPDX-License-Identifier: Apache-2.0
//
// The trace of a server that reads prompts: few first tokens, and one of them may be late.
#ifndef PITOT_TEST_ANALYZE_PROMPT_SERVER_H_
#define PITOT_TEST_ANALYZE_PROMPT_SERVER_H_

#include <catch2/catch.hpp>
#include <cstdint>

#include "pitot/wait.h"
#include "serialize/sample_trace.h"

namespace prompt_server {

inline constexpr int64_t kMs = 1'000'000, kWindowNs = 8'000 * kMs, kPromptNs = 20 * kMs, kLateNs = 300 * kMs;

// Eight seconds from `from_ns` on. Each request's prompt is read in a batch of its own for 20 ms, a little more or
// less; then its first token comes, and a second one 5 ms later.
struct PromptServer {
  explicit PromptServer(uint32_t requests, int64_t from_ns = 0) : begin_ns(from_ns) {
    maker.trace.window_begin_ns = begin_ns;
    maker.trace.window_end_ns = begin_ns + kWindowNs;
    engine = maker.Thread("engine");
    prefill = maker.Site(pitot::SiteKind::kScope, "prefill");
    decode = maker.Site(pitot::SiteKind::kScope, "decode");
    wait = maker.WaitSite();
    for (uint32_t i = 0; i < requests; ++i) Serve(2'500 + 50 * static_cast<int64_t>(i), (i % 7) * kMs / 100);
  }
  // The prompt took so much longer than 20 ms. Returns the row of the first token.
  uint32_t Serve(int64_t at_ms, int64_t longer_ns) {
    const int64_t at_ns = begin_ns + at_ms * kMs, first_ns = kPromptNs + longer_ns, end_ns = first_ns + 5 * kMs;
    const auto id = static_cast<uint64_t>(at_ns) + 1;
    const uint32_t row = maker.Request(id, "/generate", at_ns, end_ns + kMs);
    pitot::model::RequestRow& request = maker.trace.requests.back();
    request.begin_thread = request.end_thread = engine;
    request.output_tokens = 2;
    request.first_token_ns = first_ns;
    const uint32_t first = maker.Batch(2 * id, "llm", engine, at_ns, first_ns);
    maker.Member(first, row, at_ns);
    maker.Event(engine, prefill, at_ns, first_ns, {row, first});
    if (longer_ns >= 10 * kMs)
      maker.Event(engine, wait, at_ns + kMs, longer_ns, {row, first},
                  {static_cast<uint64_t>(pitot::WaitKind::kIo), maker.String("weights"), 0, 0});
    const uint32_t second = maker.Batch(2 * id + 1, "llm", engine, at_ns + first_ns, 5 * kMs);
    maker.Member(second, row, at_ns + first_ns);
    maker.Event(engine, decode, at_ns + first_ns, 5 * kMs, {row, second});
    const auto token = static_cast<uint32_t>(maker.trace.tokens.size());
    for (const int64_t after_ns : {first_ns, end_ns}) maker.trace.tokens.push_back({row, engine, at_ns + after_ns, 1});
    return token;
  }
  // A first token that is late, because its weights are read from a disk; a trigger fires for it.
  uint32_t ServeLate(int64_t at_ms = 7'000) {
    const uint32_t token = Serve(at_ms, kLateNs);
    const pitot::model::TokenRow& row = maker.trace.tokens[token];
    maker.trace.firings.push_back({row.at_ns + 100, maker.trace.requests[row.request].id,
                                   maker.String("first_token /generate"), maker.String("late")});
    return token;
  }
  pitot::model::Trace Finish() {
    pitot::model::Trace trace = maker.Finish();
    REQUIRE(FindInconsistency(trace) == "");
    return trace;
  }

  pitot::test::TraceMaker maker;
  int64_t begin_ns;
  uint32_t engine, prefill, decode, wait;
};

}  // namespace prompt_server

#endif  // PITOT_TEST_ANALYZE_PROMPT_SERVER_H_
