// SPDX-License-Identifier: Apache-2.0
//
// The limits of a server (a28, a29). Each on a trace made for its question, and on a harmless one that looks like it.
#include "analyze/serving_trace.h"

#include <catch2/catch.hpp>
#include <string>

namespace pitot::test {

namespace {

// A server that decodes on one thread, 8 requests at a time, in front of an executor that keeps a GPU busy for `gpu_us`
// of each request.
Trace SerialServer(int64_t decode_us, int64_t gpu_us, int64_t idle_us = 0) {
  TraceMaker maker;
  const uint32_t decoder = maker.Thread("decoder"), executor = maker.Thread("executor-1");
  const uint32_t decode = maker.Site(SiteKind::kScope, "decode"), forward = maker.Site(SiteKind::kScope, "forward");
  maker.trace.devices.resize(1);
  maker.trace.streams.resize(1);
  maker.trace.streams[0].device = 0;
  const int64_t step_us = std::max(decode_us, gpu_us) + idle_us;
  struct Done {
    int64_t begin_us, decoded_us, end_us;
  };
  std::vector<Done> done;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t decoded_us = 1000 + i * step_us + decode_us;
    done.push_back({std::max<int64_t>(1000, decoded_us - 8 * step_us), decoded_us, decoded_us + gpu_us + 20});
  }
  for (const Done& one : done) {
    const uint32_t request = maker.Request(maker.trace.requests.size() + 1, "/classify", one.begin_us * kUs,
                                           (one.end_us - one.begin_us) * kUs);
    maker.trace.requests[request].end_known = true;
    maker.Event(decoder, decode, (one.decoded_us - decode_us) * kUs, decode_us * kUs, {request, kNone});
    maker.Event(executor, forward, one.decoded_us * kUs, (gpu_us + 20) * kUs, {request, kNone});
    maker.Call(executor, "cudaLaunchKernel", one.decoded_us * kUs, 5 * kUs, {request, kNone});
    const uint32_t call = maker.trace.calls.size() - 1;
    maker.Call(executor, "cudaStreamSynchronize", (one.decoded_us + 6) * kUs, (gpu_us + 8) * kUs, {request, kNone});
    maker.Gpu(0, GpuKind::kKernel, "k", (one.decoded_us + 10) * kUs, gpu_us * kUs, call);
  }
  maker.trace.window_end_ns = done.back().end_us * kUs + kMs;
  return maker.Finish();
}

}  // namespace

TEST_CASE("a28 names the thread that serialises a server with an idle GPU", "[a28]") {
  const AnalysisReport report = Run(SerialServer(5'000, 1'000), "a28");

  const std::optional<FindingRow> finding = Found(report, "a28.serial_station");
  REQUIRE(finding.has_value());
  CHECK(finding->subject == "threads decoder");
  CHECK(finding->severity == Severity::kHigh);
  CHECK(finding->value > 0.99);
  CHECK(Has(finding->summary, "at most"));
  CHECK(Measured(report, "ceiling", "threads decoder") == Approx(200).epsilon(0.01));
  CHECK(Measured(report, "utilisation", "GPU 0") == Approx(0.2).epsilon(0.02));
  CHECK(Measured(report, "throughput") == Approx(199.5).epsilon(0.01));
}

TEST_CASE("a28 calls a full GPU full, and reports nothing for a server with time to spare", "[a28]") {
  const AnalysisReport full = Run(SerialServer(1'000, 5'000), "a28");
  REQUIRE(full.analyzers[0].findings.size() == 1);
  CHECK(full.analyzers[0].findings[0].code == "a28.saturated");
  CHECK(full.analyzers[0].findings[0].subject == "GPU 0");
  CHECK(full.analyzers[0].findings[0].severity == Severity::kLow);
  // A full thread in front of a nearly full GPU is not a waste.
  CHECK(Codes(Run(SerialServer(5'000, 4'500), "a28")) == std::vector<std::string>{"a28.saturated"});
  CHECK(Run(SerialServer(5'000, 1'000, 5'000), "a28").analyzers[0].findings.empty());
}

TEST_CASE("a28 reports how full batches are, how long they wait for members, and how steady the throughput is",
          "[a28]") {
  const auto run = [](int64_t last_gap_ms) {
    TraceMaker maker;
    const uint32_t thread = maker.Thread("executor"), wait = maker.Site(SiteKind::kWait, "batch member"),
                   forward = maker.Site(SiteKind::kScope, "forward");
    int64_t at = 0;
    for (uint64_t i = 0; i < 60; ++i) {
      const uint32_t batch = maker.Batch(i + 1, "resnet", thread, at, 10 * kMs);
      for (uint64_t member = 0; member < (i % 2 == 0 ? 8u : 2u); ++member) {
        const uint32_t request = maker.Request(i * 8 + member + 1, "/classify", at, 10 * kMs);
        maker.trace.requests[request].end_known = true;
        maker.Member(batch, request, at);
      }
      maker.Event(thread, wait, at, 4 * kMs, {kNone, batch});
      maker.Event(thread, forward, at + 4 * kMs, 6 * kMs, {kNone, batch});
      at += 10 * kMs + (i >= 40 ? last_gap_ms : 0) * kMs;
    }
    maker.trace.window_end_ns = at;
    return Run(maker.Finish(), "a28");
  };
  const AnalysisReport steady = run(0), slower = run(10);

  CHECK(Measured(steady, "members of a batch") == 5);
  CHECK(Measured(steady, "members of the largest batch") == 8);
  CHECK(Measured(steady, "batches wait for members") == Approx(0.4));
  CHECK(Measured(steady, "throughput of the best third to the worst") < 1.1);
  CHECK(Measured(slower, "throughput of the best third to the worst") > 1.5);
}

TEST_CASE("a28 judges a thread by the cost of full batches, which take as long as others", "[a28]") {
  const auto run = [](uint64_t members_of_every_second) {
    TraceMaker maker;
    const uint32_t thread = maker.Thread("executor"), forward = maker.Site(SiteKind::kScope, "forward");
    for (uint64_t i = 0; i < 60; ++i) {
      const int64_t at = static_cast<int64_t>(i) * 10 * kMs;
      const uint32_t batch = maker.Batch(i + 1, "resnet", thread, at, 10 * kMs);
      for (uint64_t member = 0; member < (i % 2 == 0 ? 8 : members_of_every_second); ++member) {
        const uint32_t request = maker.Request(i * 8 + member + 1, "/classify", at, 10 * kMs);
        maker.trace.requests[request].end_known = true;
        maker.Member(batch, request, at);
      }
      maker.Event(thread, forward, at, 10 * kMs, {kNone, batch});
    }
    maker.trace.window_end_ns = 600 * kMs;
    return Run(maker.Finish(), "a28");
  };
  const AnalysisReport full = run(8), half_full = run(2);

  CHECK(Codes(full) == std::vector<std::string>{"a28.saturated"});
  CHECK(Measured(full, "ceiling", "threads executor") == Approx(800));
  CHECK(Codes(half_full).empty());
  CHECK(Measured(half_full, "utilisation", "threads executor") == Approx(1));
  CHECK(Measured(half_full, "ceiling", "threads executor") == Approx(800));
}

namespace {

// One iteration follows another, of 10 ms; every member gets a token at its end.
class Decoder {
 public:
  Decoder() { thread_ = maker_.Thread("scheduler"); }
  // Requests in order of their beginnings. They are in the iterations from `first` to `last`, except for `left_out`.
  void Add(int64_t begin_ms, int first, int last, int left_out_from = -1, int left_out_to = -1) {
    const auto id = static_cast<uint64_t>(rows_.size()) + 1;
    rows_.push_back({begin_ms, first, last, left_out_from, left_out_to});
    maker_.Request(id, "/generate", begin_ms * kMs, kMs);
  }
  // Iterations that read prompts take `prompt_ms` more; iteration `slow` takes that longer without any.
  Trace Finish(int64_t prompt_ms, int slow = -1) {
    std::vector<std::vector<int64_t>> tokens(rows_.size());
    int64_t at_ms = 100;
    int last = 0;
    for (const Row& row : rows_) last = std::max(last, row.last);
    for (int i = 0; i <= last; ++i) {
      int64_t length_ms = 10 + (i == slow ? prompt_ms : 0);
      for (const Row& row : rows_) length_ms += row.first == i ? prompt_ms : 0;
      const uint32_t batch =
          maker_.Batch(0x1000 + static_cast<uint64_t>(i), "decode", thread_, at_ms * kMs, length_ms * kMs);
      for (uint32_t r = 0; r < rows_.size(); ++r) {
        if (i < rows_[r].first || i > rows_[r].last || (i >= rows_[r].left_from && i <= rows_[r].left_to)) continue;
        maker_.Member(batch, r, at_ms * kMs);
        tokens[r].push_back((at_ms + length_ms) * kMs - 1);
        maker_.trace.tokens.push_back({r, thread_, (at_ms + length_ms) * kMs - 1, 1});
      }
      at_ms += length_ms;
    }
    for (uint32_t r = 0; r < rows_.size(); ++r) {
      model::RequestRow& request = maker_.trace.requests[r];
      request.duration_ns = tokens[r].back() + 1 - request.begin_ns;
      request.end_known = true;
      request.output_tokens = static_cast<uint32_t>(tokens[r].size());
      request.first_token_ns = tokens[r][0] - request.begin_ns;
      const int64_t joined_ns = tokens[r][0] - 9 * kMs;
      request.stages = {{maker_.String("kv cache"), request.begin_ns, joined_ns - request.begin_ns},
                        {maker_.String("prefill"), joined_ns, request.duration_ns - (joined_ns - request.begin_ns)}};
    }
    maker_.trace.window_end_ns = at_ms * kMs;
    return maker_.Finish();
  }

 private:
  struct Row {
    int64_t begin_ms;
    int first, last, left_from, left_to;
  };
  TraceMaker maker_;
  uint32_t thread_;
  std::vector<Row> rows_;
};

}  // namespace

TEST_CASE("a29 blames prompts of others for late tokens", "[a29]") {
  Decoder mixed, alone;
  for (Decoder* const decoder : {&mixed, &alone}) decoder->Add(95, 0, 80);
  for (int i = 1; i < 8; ++i) mixed.Add(100 + 100 * i, 10 * i, 10 * i + 2);

  const AnalysisReport report = Run(mixed.Finish(60), "a29");

  CHECK(Codes(report) == std::vector<std::string>{"a29.prefill_mixed"});
  const std::optional<FindingRow> finding = Found(report, "a29.prefill_mixed");
  REQUIRE(finding.has_value());
  CHECK(finding->cost_ns == 7 * 60 * kMs);
  CHECK(Measured(report, "usual gap, no prompt") == Approx(10'000));
  CHECK(Measured(report, "usual gap, with a prompt") == Approx(70'000));
  CHECK(finding->evidence.size() == 5);
  CHECK(Run(alone.Finish(60), "a29").analyzers[0].findings.empty());
}

TEST_CASE("a29 reports requests that had to leave, and does not guess why a gap is long", "[a29]") {
  Decoder preempted, slow;
  preempted.Add(95, 0, 80);
  preempted.Add(96, 0, 80, 20, 50);
  slow.Add(95, 0, 80);

  CHECK(Codes(Run(preempted.Finish(5), "a29")) == std::vector<std::string>{"a29.preemption"});
  const AnalysisReport report = Run(slow.Finish(300, 40), "a29");
  CHECK(Codes(report) == std::vector<std::string>{"a29.long_gaps"});
  CHECK(report.analyzers[0].findings[0].is_undetermined);
}

TEST_CASE("a29 reports that the first token waits for room, and in which stage", "[a29]") {
  Decoder full, quick;
  for (int i = 0; i < 12; ++i) {
    full.Add(10 + i, 10, 20);
    quick.Add(99 + i / 12, 0, 20);
  }
  const std::optional<FindingRow> finding = Found(Run(full.Finish(0), "a29"), "a29.queueing");

  REQUIRE(finding.has_value());
  CHECK(finding->value > 0.9);
  CHECK(Has(finding->summary, "\"kv cache\""));
  CHECK(Run(quick.Finish(0), "a29").analyzers[0].findings.empty());
}

TEST_CASE("a29 does not explain the wait for a first token if iterations may be lost", "[a29]") {
  Decoder full;
  for (int i = 0; i < 12; ++i) full.Add(10 + i, 10, 20);
  const Trace whole = full.Finish(0);
  Trace lost = whole, late = whole, little = whole;
  lost.losses.push_back({0, model::LossReason::kOverwritten, 20 * kMs, 120 * kMs, 9, 0});
  little.losses.push_back({0, model::LossReason::kOverwritten, 20 * kMs, 24 * kMs, 9, 0});
  for (model::RequestRow& request : late.requests) request.first_token_ns = 50 * kMs;  // before any known one

  for (const Trace* trace : {&lost, &late}) {
    const std::optional<FindingRow> finding = Found(Run(*trace, "a29"), "a29.queueing");
    REQUIRE(finding.has_value());
    CHECK(finding->is_undetermined);
    CHECK(finding->severity == Severity::kInfo);
    CHECK(finding->cost_ns == 0);
    CHECK_FALSE(Has(finding->summary, "stage"));
    CHECK(Has(finding->recommendation, "Options::max_ring_bytes"));
  }
  const std::optional<FindingRow> of_little = Found(Run(little, "a29"), "a29.queueing");
  REQUIRE(of_little.has_value());
  CHECK_FALSE(of_little->is_undetermined);
}

TEST_CASE("a29 reports missing records of iterations or tokens", "[a29]") {
  Server server;
  const uint32_t request = server.Serve({});
  server.maker.trace.requests[request].output_tokens = 20;
  CHECK(Codes(Run(server.Finish(), "a29")) == std::vector<std::string>{"a29.not_known"});
}

}  // namespace pitot::test
