// SPDX-License-Identifier: Apache-2.0
//
// The limits of a server (a28, a29). Each on a trace made for its question, and on a harmless one that looks like it.
#include "analyze/serving_trace.h"

#include <catch2/catch.hpp>
#include <string>

#include "analyze/catalogue_edges.h"

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
    CHECK(Has(finding->recommendation, "Options::memory_budget_bytes"));
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

// ---- At their edges

TEST_CASE("a28 calls a station full from a share of its time on, and serial while GPUs have time to spare", "[a28]") {
  const GpuTrace serial = Of(SerialServer(5'000, 1'000)), full = Of(SerialServer(1'000, 5'000));
  const AnalysisReport report = serial.Run("a28");
  const std::optional<FindingRow> finding = Found(report, "a28.serial_station");

  REQUIRE(finding.has_value());
  CHECK(finding->confidence == Approx(0.9));
  // Without the decoder's limit, the executor's or the GPU's would hold it.
  const double next =
      std::max(Measured(report, "utilisation", "GPU 0"), Measured(report, "utilisation", "threads executor"));
  const int64_t time_ns = serial.trace.RequestEnd(serial.trace.requests.back()) - serial.trace.requests[0].begin_ns;
  CHECK(static_cast<double>(finding->cost_ns) ==
        Approx((1 - next / finding->value) * static_cast<double>(time_ns)).epsilon(1e-6));
  CheckEdge(serial, "a28.serial_station", "saturated", Edge::kFrom);
  // Not serial from a busy GPU on: "above" is the threshold's.
  const double gpu = Measured(report, "utilisation", "GPU 0");
  CheckEdge(serial, "a28.serial_station", "gpu_busy", Edge::kBelow, gpu);
  CheckEdge(serial, "a28.serial_station", "least_requests", Edge::kFrom, 100);
  CheckEdge(full, "a28.saturated", "saturated", Edge::kFrom);
  const std::optional<FindingRow> saturated = Found(full.Run("a28"), "a28.saturated");
  REQUIRE(saturated.has_value());
  CHECK(saturated->cost_ns == 0);
  CHECK(saturated->confidence == Approx(0.9));
  REQUIRE(saturated->evidence.size() == 1);
  CHECK(saturated->evidence[0].begin_ns == full.trace.requests[0].begin_ns);
  CHECK(saturated->evidence[0].end_ns == full.trace.RequestEnd(full.trace.requests.back()));
}

namespace {

// Requests of 10 ms on threads of these names, one after another on each.
Trace OnThreads(const std::vector<std::string>& names, int64_t idle_ms = 0) {
  TraceMaker maker;
  std::vector<uint32_t> threads;
  for (const std::string& name : names) threads.push_back(maker.Thread(name));
  const uint32_t handle = maker.Site(SiteKind::kScope, "handle"), wait = maker.Site(SiteKind::kWait, "wait");
  for (int64_t i = 0; i < 60; ++i) {
    for (const uint32_t thread : threads) {
      const int64_t at = i * (10 + idle_ms) * kMs;
      const uint32_t request = maker.Request(maker.trace.requests.size() + 1, "/a", at, 10 * kMs);
      maker.trace.requests[request].end_known = true;
      maker.Event(thread, handle, at, 8 * kMs, {request, kNone});
      maker.Event(thread, wait, at + 8 * kMs, 2 * kMs, {request, kNone});
    }
  }
  maker.trace.window_end_ns = 60 * (10 + idle_ms) * kMs;
  return maker.Finish();
}

}  // namespace

TEST_CASE("a28 takes threads whose names differ by a number as one station", "[a28]") {
  const AnalysisReport report =
      Run(OnThreads({"worker-1", "worker-2", "io 1", "io 23", "7", "x_3", "x/4", "x#5"}), "a28");

  CHECK(Measured(report, "utilisation", "threads worker") == Approx(0.8));
  CHECK(Measured(report, "ceiling", "threads worker") == Approx(480 * 2 / (2 * 60 * 0.008)));
  CHECK(Measured(report, "demand", "threads worker") == Approx(2 * 60 * 8'000 / 480.0).epsilon(0.001));
  CHECK(Measured(report, "ceiling", "threads x") == Approx(480 * 3 / (3 * 60 * 0.008)));
  CHECK(report.Find("a28", "utilisation", "threads io") != nullptr);
  CHECK(report.Find("a28", "utilisation", "threads 7") != nullptr);
}

TEST_CASE("a28 measures requests in flight, their response and the throughput of thirds", "[a28]") {
  const AnalysisReport report = Run(OnThreads({"worker"}, 10), "a28");

  CHECK(Measured(report, "in flight") == Approx(600.0 / 1190));
  CHECK(Measured(report, "response") == 10'000);
  CHECK(Measured(report, "throughput") == Approx(60 / 1.19));
  CHECK(Measured(report, "throughput of the best third to the worst") == Approx(1));
}

TEST_CASE("a28 is less sure of the only station, and a serial one of several threads is of medium severity", "[a28]") {
  const GpuTrace one = Of(OnThreads({"worker"})), two = Of(OnThreads({"worker 1", "worker 2"}));

  const std::optional<FindingRow> of_one = FoundWith(one, "a28.serial_station", "saturated", 0.75),
                                  of_two = FoundWith(two, "a28.serial_station", "saturated", 0.75);

  CheckFinding(of_one, Severity::kHigh, 0.6, 0, 1);
  CheckFinding(of_two, Severity::kMedium, 0.6, 0, 1);
}

TEST_CASE("a29 finds late tokens from their thresholds on", "[a29]") {
  Decoder mixed, preempted, slow;
  for (Decoder* const decoder : {&mixed, &preempted, &slow}) decoder->Add(95, 0, 80);
  for (int i = 1; i < 8; ++i) mixed.Add(100 + 100 * i, 10 * i, 10 * i + 2);
  preempted.Add(96, 0, 80, 20, 50);

  const struct {
    const char *code, *threshold;
    GpuTrace made;
    double confidence;
    size_t evidence;
  } kinds[] = {{"a29.prefill_mixed", "mixed_share", Of(mixed.Finish(60)), 0.9, 5},
               {"a29.preemption", "preempted_share", Of(preempted.Finish(5)), 0.9, 1},
               {"a29.long_gaps", "gap_share", Of(slow.Finish(300, 40)), 0.3, 1}};
  for (const auto& [code, threshold, made, confidence, evidence] : kinds) {
    const std::optional<FindingRow> finding = Found(made.Run("a29"), code);
    REQUIRE(finding.has_value());
    INFO(code);
    CHECK(finding->confidence == Approx(confidence));
    CHECK(finding->evidence.size() == evidence);
    CheckEdge(made, code, threshold, Edge::kFrom);
    CheckSeverities(made, code, threshold);
  }
  CHECK(Found(kinds[1].made.Run("a29"), "a29.preemption")->cost_ns == 31 * 10 * kMs);
  CHECK(Found(kinds[2].made.Run("a29"), "a29.long_gaps")->cost_ns == 300 * kMs);
  CheckEdge(kinds[2].made, "a29.long_gaps", "least_tokens", Edge::kFrom, 80);
  CheckEdge(kinds[2].made, "a29.long_gaps", "spike", Edge::kFrom, 31);
}

TEST_CASE("a29 measures usual gaps and the time to the first token", "[a29]") {
  Decoder mixed;
  mixed.Add(95, 0, 80);
  for (int i = 1; i < 8; ++i) mixed.Add(100 + 100 * i, 10 * i, 10 * i + 2);

  const AnalysisReport report = Run(mixed.Finish(60), "a29");

  CHECK(Measured(report, "gaps with a prompt") == 7);
  // 80 gaps of the first request, and two of each other: 94 in all, 7 of them 60 ms longer.
  CHECK(Measured(report, "time per output token") == Approx((94 * 10'000 + 7 * 60'000) / 94.0));
}

TEST_CASE("a29 finds waits for the first iteration from a share on, of ten requests or more", "[a29]") {
  const auto make = [](int count, int64_t begin_ms) {
    Decoder full;
    for (int i = 0; i < count; ++i) full.Add(begin_ms + i, 10, 20);
    return Of(full.Finish(0));
  };
  const GpuTrace made = make(12, 10);
  const std::optional<FindingRow> finding = Found(made.Run("a29"), "a29.queueing");

  REQUIRE(finding.has_value());
  CHECK(finding->severity == Severity::kHigh);
  CHECK(finding->confidence == Approx(0.95));
  CHECK(finding->evidence.size() == 5);
  CHECK(static_cast<double>(finding->cost_ns) ==
        Approx(12 * 1000 * Measured(made.Run("a29"), "of that before the first iteration")).epsilon(0.001));
  CheckEdge(made, "a29.queueing", "queue_share", Edge::kFrom);
  CHECK(Found(make(10, 10).Run("a29"), "a29.queueing").has_value());
  CHECK_FALSE(Found(make(9, 10).Run("a29"), "a29.queueing").has_value());
  // 20 ms of waiting and 10 of the iteration are two thirds.
  const std::optional<FindingRow> medium = Found(make(12, 172).Run("a29"), "a29.queueing");
  REQUIRE(medium.has_value());
  CHECK(medium->value < 0.75);
  CHECK(medium->severity == Severity::kMedium);
}

TEST_CASE("a29 names the stage in which most of the wait for the first iteration passed", "[a29]") {
  Decoder full;
  for (int i = 0; i < 12; ++i) full.Add(10 + i, 10, 20);
  Trace trace = full.Finish(0);
  for (model::RequestRow& request : trace.requests) {
    request.stages[0].begin_ns += kMs;
    request.stages[0].duration_ns -= kMs;
    request.stages.insert(request.stages.begin(), {trace.strings.Add("admission"), request.begin_ns, kMs});
  }

  const std::optional<FindingRow> finding = Found(Run(trace, "a29"), "a29.queueing");

  REQUIRE(finding.has_value());
  CHECK(Has(finding->summary, "\"kv cache\""));
}

}  // namespace pitot::test
