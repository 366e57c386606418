// SPDX-License-Identifier: Apache-2.0
//
// The trace of a server of language models: it puts out tokens in iterations, and one token is late.
#ifndef PITOT_TEST_ANALYZE_DECODE_SERVER_H_
#define PITOT_TEST_ANALYZE_DECODE_SERVER_H_

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "serialize/sample_trace.h"

namespace decode_server {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr uint32_t kIterations = 200, kLate = 120;
inline constexpr int64_t kUsualNs = 10 * kMs, kPromptNs = 90 * kMs;

// A server that decodes for two requests in iterations of 10 ms, and puts out a token of each at the end. One iteration
// first reads the prompt of a third request by itself, for 90 ms; the triggers fire for the first request's token.
struct DecodeServer {
  DecodeServer() {
    scheduler = maker.Thread("scheduler");
    forward = maker.Site(pitot::SiteKind::kScope, "forward");
    prefill = maker.Site(pitot::SiteKind::kScope, "prefill");
    const int64_t total_ns = kIterations * kUsualNs + kPromptNs;
    maker.trace.window_end_ns = 2 * total_ns;
    for (uint32_t i = 0; i < 3; ++i) {
      requests.push_back(maker.Request(10 + i, "/generate", kMs, total_ns));
      pitot::model::RequestRow& row = maker.trace.requests.back();
      row.begin_thread = row.end_thread = scheduler;
      if (i == 2) continue;
      row.output_tokens = kIterations;
      row.first_token_ns = kUsualNs;
    }
    int64_t at_ns = kMs;
    for (uint32_t i = 0; i < kIterations; ++i) {
      const int64_t begin_ns = at_ns;
      at_ns += kUsualNs + (i == kLate ? kPromptNs : 0);
      const uint32_t batch = maker.Batch(1'000 + i, "decode", scheduler, begin_ns, at_ns - begin_ns);
      const int64_t decode_ns = at_ns - kUsualNs + (i % 7) * kMs / 100;
      maker.Member(batch, requests[0], begin_ns);
      maker.Member(batch, requests[1], begin_ns);
      if (i == kLate) {
        maker.Member(batch, requests[2], begin_ns);
        maker.Event(scheduler, prefill, begin_ns, kPromptNs, {requests[2], batch});
      }
      maker.Event(scheduler, forward, decode_ns, at_ns - decode_ns, {pitot::model::kNone, batch});
      for (uint32_t member = 0; member < 2; ++member)
        maker.trace.tokens.push_back({requests[member], scheduler, at_ns, 1});
      if (i == kLate) Fire("token_gap /generate", at_ns + 100);
    }
  }
  void Fire(const char* cause, int64_t at_ns, uint64_t id = 10) {
    maker.trace.firings.push_back({at_ns, id, maker.String(cause), maker.String("late")});
  }
  pitot::model::Trace Finish() {
    pitot::model::Trace trace = maker.Finish();
    REQUIRE(FindInconsistency(trace) == "");
    return trace;
  }

  pitot::test::TraceMaker maker;
  std::vector<uint32_t> requests;
  uint32_t scheduler, forward, prefill;
};

}  // namespace decode_server

#endif  // PITOT_TEST_ANALYZE_DECODE_SERVER_H_
