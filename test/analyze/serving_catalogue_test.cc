// SPDX-License-Identifier: Apache-2.0
//
// Each analyzer of requests and of the trace itself: on a trace made for its question, and on one that looks like it
// and is not.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>

#include "analyze/gpu_trace.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using analyze::AnalysisReport;
using analyze::AnalyzeOptions;
using analyze::FindingRow;
using model::GpuKind;
using model::kNone;
using model::Trace;

namespace {

constexpr int64_t kUs = 1000, kMs = 1000 * kUs, kSecond = 1000 * kMs;

AnalysisReport Run(const Trace& trace, const std::string& analyzer, AnalyzeOptions options = {}) {
  REQUIRE(FindInconsistency(trace) == "");
  AnalysisReport report;
  options.only = {analyzer};
  REQUIRE(Analyze(trace, analyze::MakeCatalogue(), options, &report).ok());
  REQUIRE(std::string(report.analyzers.at(0).status.message()) == "");
  return report;
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> Codes(const AnalysisReport& report) {
  std::vector<std::string> codes;
  for (const FindingRow& finding : report.analyzers[0].findings) codes.push_back(finding.code);
  return codes;
}

AnalyzeOptions With(const std::string& threshold, double value) {
  AnalyzeOptions options;
  options.thresholds = {{threshold, value}};
  return options;
}

// Requests are decoded on one thread, wait in a queue while the executor does something of its own, and are run by it,
// one a batch.
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
  // After the one before, the gap between them.
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

// A GPU that is idle most of the time, so that a03 and a04 find something.
GpuTrace Idle() {
  GpuTrace made(1000);
  made.Launch("first", 0, 10, 20, 80);
  made.Launch("second", 550, 10, 580, 20);
  return made;
}

}  // namespace

TEST_CASE("a39 says what was lost, and whoever reads it is less sure and says why (F37)", "[a39]") {
  GpuTrace made = Idle();
  const double whole = Found(made.Run("a04"), "a04.idle")->confidence;
  made.trace.gpu_losses.push_back({0, 0, 700'000, 1'000'000, 40, 0});

  const std::optional<FindingRow> damage = Found(made.Run("a39"), "a39.lost_gpu_records");
  REQUIRE(damage.has_value());
  CHECK(damage->value == Approx(0.3));
  CHECK(damage->confidence == 1);
  CHECK(Has(damage->summary, "40 records"));
  const std::optional<FindingRow> idle = Found(made.Run("a04"), "a04.idle");
  REQUIRE(idle.has_value());
  CHECK(idle->confidence == Approx(0.7 * whole));
  REQUIRE(idle->caveats.size() == 1);
  CHECK(Has(idle->caveats[0], "lost in 30.0 % of the window"));
}

TEST_CASE("a39 says that a GPU's clock is early, or late, against the host's (F38)", "[a39]") {
  GpuTrace early(100'000), late(100'000), queued(100'000), few(100'000);
  for (int i = 0; i < 200; ++i) {
    early.Launch("k", 100 + i * 100, 5, 60 + i * 100, 10);
    late.Launch("k", i * 100, 5, i * 100 + 400, 10);
    queued.Launch("k", i * 100, 5, i == 0 ? 10 : i * 100 + 400, 10);  // one was not waited for
  }
  const std::optional<FindingRow> skew = Found(early.Run("a39"), "a39.clock_skew");
  REQUIRE(skew.has_value());
  CHECK(skew->value == Approx(40'000));
  REQUIRE(Found(late.Run("a39"), "a39.clock_late").has_value());
  CHECK(Found(late.Run("a39"), "a39.clock_late")->value == Approx(400'000));
  CHECK(queued.Run("a39").analyzers[0].findings.empty());
  for (int i = 0; i < 50; ++i) few.Launch("k", i * 100, 5, i * 100 + 400, 10);
  CHECK(few.Run("a39").analyzers[0].findings.empty());
}

TEST_CASE("a39 counts what has no call or no duration, requests that lost their ends, the profiler's own work",
          "[a39]") {
  GpuTrace made(1000);
  made.Launch("k", 0, 10, 20, 80);
  made.Gpu(GpuKind::kKernel, "k", 200, 0, kNone);
  made.trace.overheads.push_back({300'000, 200'000, made.trace.strings.Add("Flush")});
  model::RequestRow request;
  request.id = 1;
  request.duration_ns = 1000;
  made.trace.requests = {request};

  const AnalysisReport report = made.Run("a39");

  CHECK(Found(report, "a39.unmatched")->value == 0.5);
  CHECK(Found(report, "a39.instant")->value == 0.5);
  CHECK(Found(report, "a39.overhead")->value == Approx(0.2));
  CHECK(Found(report, "a39.endless")->value == 1);
}

TEST_CASE("a39 says nothing of a whole trace, and damage does not touch what does not rest on it", "[a39]") {
  GpuTrace made = Idle();
  CHECK(made.Run("a39").analyzers[0].findings.empty());

  // Requests are whole, whatever GPUs lost.
  class OfRequests final : public Analyzer {
   public:
    AnalyzerInfo Info() const noexcept override { return {"b1", "", nullptr, 0, kReadsRequests}; }
    Status Run(Analysis& analysis) override {
      Finding finding;
      finding.confidence = 0.9;
      analysis.Add(finding);
      return Status();
    }
  };
  made.trace.gpu_losses.push_back({0, 0, 0, 1'000'000, 0, 0});
  std::vector<std::unique_ptr<Analyzer>> analyzers;
  analyzers.push_back(std::make_unique<OfRequests>());
  AnalysisReport report;
  REQUIRE(Analyze(made.trace, analyzers, {}, &report).ok());
  CHECK(report.analyzers[0].findings[0].confidence == 0.9);
  CHECK(report.analyzers[0].findings[0].caveats.empty());
}

TEST_CASE("a41 names what varies with the latency, not what is merely large", "[a41]") {
  Server lock, even;
  for (int i = 0; i < 200; ++i) {
    // 20 ms of decoding always; one of ten waits 30 ms in the queue.
    lock.Serve({20'000 + i % 7 * 10, i % 10 == 0 ? 30'000 : 0, 5'000, 500});
    even.Serve({20'000 + i % 7 * 10, 0, 5'000, 500});
  }
  const AnalysisReport report = Run(lock.Finish(), "a41");

  REQUIRE(report.analyzers[0].findings.size() == 1);
  const FindingRow& finding = report.analyzers[0].findings[0];
  CHECK(finding.code == "a41.driver");
  CHECK(finding.subject == "/classify");
  CHECK(finding.value > 0.95);
  CHECK(Has(finding.summary, "30.0 ms"));
  CHECK_FALSE(finding.evidence.empty());
  double shares = 0;
  for (const analyze::MeasureRow& measure : report.analyzers[0].measures) {
    if (measure.name != "p99 / p50") shares += measure.value;
  }
  CHECK(shares == Approx(1));
  CHECK(Run(even.Finish(), "a41").analyzers[0].findings.empty());
}

TEST_CASE("a31 says what a part of the latency can bring at most, and how sure its share is", "[a31]") {
  Server one, even;
  for (int i = 0; i < 50; ++i) {
    one.Serve({8'000 + i % 5 * 100, 0, 2'000, 500});
    even.Serve({4'000, 2'500, 5'500, 500});
  }
  const AnalysisReport report = Run(one.Finish(), "a31");

  const std::optional<FindingRow> finding = Found(report, "a31.dominant");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(8.2 / 10.2).epsilon(0.001));
  CHECK(Measured(report, "host_oncpu_pre limit") == Approx(10.2 / 2).epsilon(0.001));
  CHECK(Measured(report, "host_oncpu_pre share, low") < finding->value);
  CHECK(Measured(report, "host_oncpu_pre share, high") > finding->value);
  CHECK(Measured(report, "host_oncpu_pre share, low") > 0.79);
  CHECK(Has(finding->summary, "at most 1.67 times as fast"));
  CHECK_FALSE(Found(Run(even.Finish(), "a31"), "a31.dominant").has_value());
}

TEST_CASE("a30 says which levers reach a target, and when none do", "[a30]") {
  Server server;
  for (int i = 0; i < 30; ++i) server.Serve({3'000, 7'000, 5'000, 500});
  const Trace trace = server.Finish();

  CHECK(Run(trace, "a30").analyzers[0].findings.empty());  // nobody said how fast
  const std::optional<FindingRow> plan = Found(Run(trace, "a30", With("a30.target", 9e6)), "a30.plan");
  REQUIRE(plan.has_value());
  CHECK(plan->value == Approx(15e6));
  CHECK(plan->threshold.source == "config");
  CHECK(Has(plan->recommendation, "saves up to 7.00 ms"));
  const AnalysisReport far = Run(trace, "a30", With("a30.target", 2e6));
  REQUIRE(Found(far, "a30.unreachable").has_value());
  CHECK(Measured(far, "least latency") == Approx(8'000));
  CHECK(Run(trace, "a30", With("a30.target", 16e6)).analyzers[0].findings.empty());
}

namespace {

// Decodes on one thread, 8 at a time, before `gpus` executors that keep a GPU busy for `gpu_us` of each request.
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

TEST_CASE("a28 names the thread that serialises a server whose GPU is idle (F02)", "[a28]") {
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

TEST_CASE("a28 calls a full GPU full, and a server with time to spare nothing", "[a28]") {
  const AnalysisReport full = Run(SerialServer(1'000, 5'000), "a28");
  REQUIRE(full.analyzers[0].findings.size() == 1);
  CHECK(full.analyzers[0].findings[0].code == "a28.saturated");
  CHECK(full.analyzers[0].findings[0].subject == "GPU 0");
  CHECK(full.analyzers[0].findings[0].severity == Severity::kLow);
  // A full thread before a GPU that is nearly full is no waste.
  CHECK(Codes(Run(SerialServer(5'000, 4'500), "a28")) == std::vector<std::string>{"a28.saturated"});
  CHECK(Run(SerialServer(5'000, 1'000, 5'000), "a28").analyzers[0].findings.empty());
}

namespace {

// One iteration follows another, of 10 ms; whoever is in one gets a token at its end.
class Decoder {
 public:
  Decoder() { thread_ = maker_.Thread("scheduler"); }
  // Requests in order of their beginnings. They are in the iterations from `first` to `last`, but for `left_out`.
  void Add(int64_t begin_ms, int first, int last, int left_out_from = -1, int left_out_to = -1) {
    const auto id = static_cast<uint64_t>(rows_.size()) + 1;
    rows_.push_back({begin_ms, first, last, left_out_from, left_out_to});
    maker_.Request(id, "/generate", begin_ms * kMs, kMs);
  }
  // Iterations that read prompts take `prompt_ms` more; `slow` one takes that longer without any.
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

TEST_CASE("a29 says that prompts of others make tokens late (F30)", "[a29]") {
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

TEST_CASE("a29 says that requests had to leave (F29), and does not guess why a gap is long", "[a29]") {
  Decoder preempted, slow;
  preempted.Add(95, 0, 80);
  preempted.Add(96, 0, 80, 20, 50);
  slow.Add(95, 0, 80);

  CHECK(Codes(Run(preempted.Finish(5), "a29")) == std::vector<std::string>{"a29.preemption"});
  const AnalysisReport report = Run(slow.Finish(300, 40), "a29");
  CHECK(Codes(report) == std::vector<std::string>{"a29.long_gaps"});
  CHECK(report.analyzers[0].findings[0].is_undetermined);
}

TEST_CASE("a29 says that the first token waits for room, in which stage", "[a29]") {
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

TEST_CASE("a29 says so where iterations or tokens were not recorded", "[a29]") {
  Server server;
  const uint32_t request = server.Serve({});
  server.maker.trace.requests[request].output_tokens = 20;
  CHECK(Codes(Run(server.Finish(), "a29")) == std::vector<std::string>{"a29.not_known"});
}

namespace {

// 100 requests of 2 ms a GPU's work, `every_us` from one to the next.
Trace Paced(int64_t every_us) {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("worker"), scope = maker.Site(SiteKind::kScope, "forward");
  const uint32_t wait = maker.Site(SiteKind::kWait, "wait");
  maker.trace.devices.resize(1);
  maker.trace.streams.resize(1);
  maker.trace.streams[0].device = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t at = i * every_us * kUs;
    const uint32_t request = maker.Request(static_cast<uint64_t>(i) + 1, "/classify", at, 2'500 * kUs);
    maker.trace.requests[request].end_known = true;
    maker.Event(thread, scope, at, 2'500 * kUs, {request, kNone});
    maker.Event(thread, wait, at + kMs, kMs, {request, kNone});
    maker.Call(thread, "cudaLaunchKernel", at, 5 * kUs, {request, kNone});
    maker.Gpu(0, GpuKind::kKernel, "k", at + 10 * kUs, 2 * kMs, maker.trace.calls.size() - 1);
  }
  maker.trace.window_end_ns = 100 * every_us * kUs;
  return maker.Finish();
}

// A counter of the NVML collector's.
void AddPower(Trace* trace, const std::vector<std::pair<int64_t, double>>& samples) {
  model::CounterRow counter;
  counter.name = trace->strings.Add("GPU 0 (NVIDIA H100): power");
  counter.unit = trace->strings.Add("W");
  for (const auto& [at_ns, watts] : samples) {
    trace->samples.counter.push_back(static_cast<uint32_t>(trace->counters.size()));
    trace->samples.at_ns.push_back(at_ns);
    trace->samples.value.push_back(watts);
  }
  trace->counters.push_back(counter);
}

}  // namespace

TEST_CASE("a34 says what requests cost, and what of it is for idle GPUs", "[a34]") {
  AnalyzeOptions prices;
  prices.thresholds = {{"a34.gpu_hour", 3.6}, {"a34.cpu_hour", 0.36}};
  const AnalysisReport idle = Run(Paced(10'000), "a34", prices);

  CHECK(Measured(idle, "GPU time of a request") == Approx(2'000));
  CHECK(Measured(idle, "CPU time of a request") == Approx(1'500));
  // A second of a GPU is 0.001, of a thread 0.0001.
  CHECK(Measured(idle, "cost of 1,000 requests") == Approx(10 * (0.001 + 0.15 * 0.0001)));
  CHECK(Measured(idle, "cost of 1,000 requests, GPUs never idle") == Approx(10 * (0.0002 + 0.15 * 0.0001)));
  const std::optional<FindingRow> finding = Found(idle, "a34.idle_cost");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(0.8));
  CHECK(finding->cost_ns == 800 * kMs);

  CHECK(Run(Paced(2'600), "a34", prices).analyzers[0].findings.empty());
  CHECK(Run(Paced(10'000), "a34").analyzers[0].findings.empty());  // nobody said what anything costs
  Server server;
  for (int i = 0; i < 30; ++i) server.Serve({});
  CHECK(Codes(Run(server.Finish(), "a34", prices)) == std::vector<std::string>{"a34.not_known"});
}

TEST_CASE("a35 says when requests became slower for good", "[a35]") {
  Server changed, spike;
  for (int i = 0; i < 200; ++i) {
    const int64_t noise = i * 37 % 100 * 5;
    changed.Serve({2'000 + noise, 0, i < 120 ? 5'000 : 6'500, 500});
    spike.Serve({2'000 + noise, 0, i >= 120 && i < 124 ? 60'000 : 5'000, 500});
  }
  const Trace trace = changed.Finish();
  const std::optional<FindingRow> finding = Found(Run(trace, "a35"), "a35.latency");

  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(1.5 / 7.25).epsilon(0.05));
  REQUIRE(finding->evidence.size() == 1);
  CHECK(finding->evidence[0].begin_ns == trace.requests[120].begin_ns);
  CHECK(Run(spike.Finish(), "a35").analyzers[0].findings.empty());
}

TEST_CASE("a35 hardly ever takes chance for a change", "[a35]") {
  std::mt19937_64 random(3);
  std::lognormal_distribution<double> lognormal(0, 0.4);
  int found = 0;
  for (int i = 0; i < 100; ++i) {
    Server server;
    for (int k = 0; k < 400; ++k) server.Serve({std::llround(5'000 * lognormal(random)), 0, 2'000, 100});
    found += !Run(server.Finish(), "a35").analyzers[0].findings.empty();
  }
  CHECK(found <= 1);
}

TEST_CASE("a35 says when GPU work or allocations of requests grew", "[a35]") {
  Trace trace = Paced(10'000);
  for (uint32_t i = 60; i < 100; ++i) {
    trace.gpu.duration_ns[i] = 3 * kMs;
    trace.calls.name[i] = trace.strings.Add("cudaMalloc");
  }
  CHECK(Codes(Run(trace, "a35")) == std::vector<std::string>{"a35.gpu_time", "a35.allocations"});
}

TEST_CASE("a36 finds batches far out of line and their period, not larger batches nor the first ones", "[a36]") {
  const auto make = [](const auto& length_us, int members) {
    TraceMaker maker;
    const uint32_t thread = maker.Thread("executor"), request = maker.Request(1, "/classify", 0, kMs);
    int64_t at_us = 0;
    for (int i = 0; i < 100; ++i) {
      const uint32_t batch =
          maker.Batch(static_cast<uint64_t>(i) + 1, "resnet", thread, at_us * kUs, length_us(i) * kUs);
      for (int m = 0; m < (i % 2 == 0 ? members : 1); ++m) maker.Member(batch, request, at_us * kUs);
      at_us += length_us(i) + 100;
    }
    maker.trace.window_end_ns = at_us * kUs;
    return maker.Finish();
  };
  const AnalysisReport periodic = Run(make([](int i) { return i % 20 == 19 ? 30'000 : 5'000 + i % 7 * 20; }, 1), "a36");
  const std::optional<FindingRow> finding = Found(periodic, "a36.outliers");
  REQUIRE(finding.has_value());
  CHECK(Measured(periodic, "outliers") == 5);
  CHECK(Measured(periodic, "period") == 20);
  CHECK(Has(finding->summary, "one every 20 steps"));
  CHECK(finding->cost_ns == Approx(5 * 25 * kMs).epsilon(0.01));
  CHECK(finding->evidence.size() == 5);

  const AnalysisReport irregular =
      Run(make([](int i) { return i == 22 || i == 40 || i == 90 ? 30'000 : 5'000; }, 1), "a36");
  CHECK(Measured(irregular, "outliers") == 3);
  CHECK(irregular.Find("a36", "period") == nullptr);
  const AnalysisReport once = Run(make([](int i) { return i == 50 ? 30'000 : 5'000; }, 1), "a36");
  REQUIRE(Found(once, "a36.outliers").has_value());
  CHECK(once.Find("a36", "period") == nullptr);
  CHECK(Run(make([](int i) { return i % 2 == 0 ? 20'000 : 5'000; }, 4), "a36").analyzers[0].findings.empty());
  CHECK(Run(make([](int i) { return i < 10 ? 60'000 : 5'000; }, 1), "a36").analyzers[0].findings.empty());
}

TEST_CASE("a42 says from which load on requests only wait for each other", "[a42]") {
  // A server of `width` requests at once, 10 ms each, that is given 1, 2, 4 and 16 at once, for a second each.
  // 16 at once may take `batched_ms` all together.
  const auto make = [](int width, int64_t batched_ms = 0) {
    TraceMaker maker;
    maker.Thread("worker");
    struct One {
      int64_t begin, end;
    };
    std::vector<One> ones;
    int64_t at = 0;
    for (const int load : {1, 2, 4, 16}) {
      if (load == 16 && batched_ms != 0) {
        for (int64_t end = at + kSecond; at < end; at += batched_ms * kMs)
          ones.resize(ones.size() + 16, {at, at + batched_ms * kMs});
        continue;
      }
      const int waves = (load + width - 1) / width;
      for (int64_t end = at + kSecond; at < end; at += waves * 10 * kMs) {
        for (int i = 0; i < load; ++i) ones.push_back({at, at + (i / width + 1) * 10 * kMs});
      }
    }
    for (const One& one : ones) {
      const uint32_t request =
          maker.Request(maker.trace.requests.size() + 1, "/classify", one.begin, one.end - one.begin);
      maker.trace.requests[request].end_known = true;
    }
    maker.trace.window_end_ns = at;
    return maker.Finish();
  };
  const AnalysisReport report = Run(make(2), "a42");
  const std::optional<FindingRow> finding = Found(report, "a42.beyond_knee");
  REQUIRE(finding.has_value());
  CHECK(Measured(report, "knee") == Approx(2).epsilon(0.1));
  CHECK(finding->value == Approx(200.0 / 700).epsilon(0.1));
  CHECK(Has(finding->recommendation, "about 2."));
  CHECK_FALSE(Found(Run(make(16), "a42"), "a42.beyond_knee").has_value());
  // Later, but more: 533 requests/s in 30 ms beside 400 in 10 ms.
  CHECK_FALSE(Found(Run(make(4, 30), "a42"), "a42.beyond_knee").has_value());
}

TEST_CASE("a42 says nothing where the load hardly varies", "[a42]") {
  Server server;
  for (int i = 0; i < 200; ++i) server.Serve({});
  CHECK(Run(server.Finish(), "a42").analyzers[0].measures.empty());
}

TEST_CASE("a43 says what energy requests take and how much goes into an idle GPU", "[a43]") {
  Trace idle = Paced(10'000), busy = Paced(2'600);
  AddPower(&idle, {{0, 100}, {kSecond / 2, 200}});
  AddPower(&busy, {{0, 300}});

  const AnalysisReport report = Run(idle, "a43");

  CHECK(Measured(report, "energy") == Approx(150));
  CHECK(Measured(report, "mean power") == Approx(150));
  CHECK(Measured(report, "energy while idle") == Approx(120));
  CHECK(Measured(report, "energy of a request") == Approx(1.5));
  const std::optional<FindingRow> finding = Found(report, "a43.idle_energy");
  REQUIRE(finding.has_value());
  CHECK(finding->subject == "GPU 0 (NVIDIA H100)");
  CHECK(finding->value == Approx(0.8));
  CHECK(Run(busy, "a43").analyzers[0].findings.empty());
  CHECK(Codes(Run(Paced(10'000), "a43")) == std::vector<std::string>{"a43.not_known"});
}

TEST_CASE("the whole catalogue answers of any consistent trace, with numbers that are some", "[analyze]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Trace trace = RandomTrace(seed, 50 + seed * 10);
    AnalyzeOptions options;
    // As if every number were enough, so that all paths are walked.
    for (const char* const name : {"a28.least_requests", "a29.least_tokens", "a30.least_requests", "a31.least_requests",
                                   "a34.least_requests", "a36.least_steps", "a41.least_requests", "a42.least_levels"})
      options.thresholds.push_back({name, 2});
    options.thresholds.push_back({"a30.target", 1});
    options.thresholds.push_back({"a34.gpu_hour", 1});
    AnalysisReport report;
    REQUIRE(Analyze(trace, analyze::MakeCatalogue(), options, &report).ok());
    for (const analyze::AnalyzerReport& analyzer : report.analyzers) {
      INFO(analyzer.name << " of seed " << seed << ": " << analyzer.status.message());
      CHECK(analyzer.status.ok());
      for (const FindingRow& finding : analyzer.findings) {
        CHECK((finding.confidence >= 0 && finding.confidence <= 1));
        CHECK_FALSE(std::isnan(finding.value));
        CHECK(finding.cost_ns >= 0);
        CHECK_FALSE(finding.summary.empty());
        CHECK_FALSE(finding.recommendation.empty());
      }
    }
  }
}

}  // namespace pitot::test
