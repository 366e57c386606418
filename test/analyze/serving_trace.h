// SPDX-License-Identifier: Apache-2.0
//
// Small traces of servers, for the tests of analyzers of requests.
#ifndef PITOT_TEST_ANALYZE_SERVING_TRACE_H_
#define PITOT_TEST_ANALYZE_SERVING_TRACE_H_

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/gpu_trace.h"
#include "analyze/overheard.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using analyze::AnalysisReport;
using analyze::AnalyzeOptions;
using analyze::FindingRow;
using model::GpuKind;
using model::kNone;
using model::Trace;

inline constexpr int64_t kUs = 1000, kMs = 1000 * kUs, kSecond = 1000 * kMs;

inline AnalysisReport Run(const Trace& trace, const std::string& analyzer, AnalyzeOptions options = {}) {
  REQUIRE(FindInconsistency(trace) == "");
  AnalysisReport report;
  options.only = {analyzer};
  REQUIRE(Analyze(trace, OverheardCatalogue(), options, &report).ok());
  REQUIRE(std::string(report.analyzers.at(0).status.message()) == "");
  return report;
}

inline bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::vector<std::string> Codes(const AnalysisReport& report) {
  std::vector<std::string> codes;
  for (const FindingRow& finding : report.analyzers[0].findings) codes.push_back(finding.code);
  return codes;
}

inline AnalyzeOptions With(const std::string& threshold, double value) {
  AnalyzeOptions options;
  options.thresholds = {{threshold, value}};
  return options;
}

// Requests are decoded on one thread and wait in a queue while the executor does something of its own. Then the
// executor runs them, one a batch.
class Server {
 public:
  struct Times {
    int64_t decode_us = 2'000, queued_us = 0, forward_us = 5'000, gap_us = 500;
  };
  Server() {
    http_ = maker.Thread("http");
    executor_ = maker.Thread("executor");
    decode_ = maker.Site(SiteKind::kScope, "decode");
    forward_ = maker.Site(SiteKind::kScope, "forward");
    reload_ = maker.Site(SiteKind::kScope, "reload weights");
  }
  // Serves a request after the one before, with the gap between them.
  uint32_t Serve(const Times& times, const char* route = "/classify") {
    const int64_t begin = at, queued = begin + times.decode_us * kUs, taken = queued + times.queued_us * kUs;
    at = taken + times.forward_us * kUs;
    const uint32_t request = maker.Request(0x1000 + maker.trace.requests.size(), route, begin, at - begin);
    model::RequestRow& row = maker.trace.requests[request];
    row.end_known = true;
    row.begin_thread = http_;
    row.end_thread = executor_;
    row.stages = {{maker.String("decode"), begin, times.decode_us * kUs},
                  {maker.String("forward"), queued, at - queued}};
    maker.Event(http_, decode_, begin, times.decode_us * kUs, {request, kNone});
    if (times.queued_us != 0) maker.Event(executor_, reload_, queued, times.queued_us * kUs);
    const uint32_t batch = maker.Batch(0x9000 + request, "resnet", executor_, taken, at - taken);
    maker.Member(batch, request, taken);
    maker.trace.handoffs.push_back({request, maker.String("images"), http_, executor_, queued, taken, batch});
    maker.Event(executor_, forward_, taken, times.forward_us * kUs, {kNone, batch});
    at += times.gap_us * kUs;
    return request;
  }
  Trace Finish() {
    maker.trace.window_end_ns = at;
    return maker.Finish();
  }

  TraceMaker maker;
  int64_t at = kMs;

 protected:
  uint32_t http_, executor_, decode_, forward_, reload_;
};

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_SERVING_TRACE_H_
