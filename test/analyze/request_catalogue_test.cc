// SPDX-License-Identifier: Apache-2.0
//
// The trace itself, and where the time of requests goes (a30, a31, a39, a41). Each on a trace made for its question,
// and on a harmless one that looks like it.
#include "analyze/serving_trace.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "analyze/catalogue_edges.h"
#include "analyze/facts/copies.h"
#include "pitot/analyze/walks.h"

namespace pitot::test {

namespace {

// A GPU that is idle most of the time, so that a03 and a04 find something.
GpuTrace Idle() {
  GpuTrace made(1000);
  made.Launch("first", 0, 10, 20, 80);
  made.Launch("second", 550, 10, 580, 20);
  return made;
}

}  // namespace

TEST_CASE("a39 reports losses, and analyzers that read the lost rows are less sure and give the reason", "[a39]") {
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

TEST_CASE("losses in less than a thousandth of the window are not mentioned", "[a39]") {
  GpuTrace made = Idle();
  made.trace.gpu_losses.push_back({0, 0, 700'000, 700'900, 40, 0});
  made.trace.losses.push_back({0, model::LossReason::kReserve, 700'000, 700'900, 40, 0});

  CHECK(made.Run("a39").analyzers[0].findings.empty());
  CHECK(Found(made.Run("a04"), "a04.idle")->caveats.empty());
}

TEST_CASE("a39 reports how many events threads lost and when, and readers of events are less sure", "[a39]") {
  GpuTrace made = Idle();
  made.trace.losses.push_back({0, model::LossReason::kOverwritten, 100'000, 300'000, 40, 0});
  made.trace.losses.push_back({0, model::LossReason::kReserve, 200'000, 350'000, 2, 0});

  const std::optional<FindingRow> lost = Found(made.Run("a39"), "a39.lost_events");

  REQUIRE(lost.has_value());
  CHECK(lost->value == Approx(0.25));
  CHECK(Has(lost->summary, "in 25.0 % of the window (42 events)"));
  CHECK(lost->severity == Severity::kMedium);
  REQUIRE(lost->evidence.size() == 1);
  CHECK(lost->evidence[0].begin_ns == 100'000);
  CHECK(Found(made.Run("a04"), "a04.idle")->caveats.size() == 1);

  made.trace.losses[1].end_ns = 600'000;
  CHECK(Found(made.Run("a39"), "a39.lost_events")->severity == Severity::kHigh);
}

TEST_CASE("a39 counts neither requests without room nor scopes closed on another thread as lost events", "[a39]") {
  GpuTrace made = Idle();
  for (const model::LossReason reason : {model::LossReason::kOpenRequests, model::LossReason::kClosedElsewhere})
    made.trace.losses.push_back({kNone, reason, 0, 1'000'000, 40, 0});

  CHECK(made.Run("a39").analyzers[0].findings.empty());
}

TEST_CASE("a39 reports a damaged dump, with an unknown loss", "[a39]") {
  GpuTrace made = Idle();
  const double whole = Found(made.Run("a04"), "a04.idle")->confidence;
  made.trace.losses.push_back({kNone, model::LossReason::kDamaged, 700'000, 1'000'000, 0, 0});

  const AnalysisReport report = made.Run("a39");

  CHECK(Codes(report) == std::vector<std::string>{"a39.damaged"});  // it does not count as a thread's loss
  const FindingRow& damaged = report.analyzers[0].findings[0];
  CHECK(damaged.severity == Severity::kHigh);
  CHECK(Has(damaged.recommendation, "pitot recover"));
  CHECK(Found(made.Run("a04"), "a04.idle")->confidence == Approx(0.5 * whole));
}

TEST_CASE("a39 reports a GPU's clock that is early, or late, against the host's", "[a39]") {
  GpuTrace early(100'000), late(100'000), queued(100'000), few(100'000);
  for (int i = 0; i < 200; ++i) {
    early.Launch("k", 100 + i * 100, 5, 60 + i * 100, 10);
    late.Launch("k", i * 100, 5, i * 100 + 400, 10);
    queued.Launch("k", i * 100, 5, i == 0 ? 10 : i * 100 + 400, 10);  // the first one begins soon after its launch
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

TEST_CASE("a39 blames no clock for work whose stream waited for an event", "[a39]") {
  // Fifty kernels at once, of which the first begins 6 ms after its launch.
  const auto run = [](const char* before) {
    GpuTrace made(100'000);
    for (int64_t round = 0; round < 3; ++round) {
      made.Call(before, 10'000 * round, 3);
      for (int64_t i = 0; i < 50; ++i)
        made.Launch("k", 10'000 * round + 10 + 5 * i, 5, 10'000 * round + 6'000 + 60 * i, 50);
    }
    return Found(made.Run("a39"), "a39.clock_late").has_value();
  };
  CHECK(run("cudaEventRecord"));
  for (const char* const call : {"cudaStreamWaitEvent", "hipStreamWaitEvent", "cuStreamWaitValue32_v2"})
    CHECK_FALSE(run(call));
}

TEST_CASE("a39 blames no clock for work that waited in a full queue", "[a39]") {
  // Work of before the window, then kernels that begin 10 ms after their launches. The device is idle for `idle_us`
  // before each.
  const auto run = [](int64_t idle_us) {
    GpuTrace made(100'000);
    for (int64_t i = 0; i < 100; ++i) made.Gpu(GpuKind::kKernel, "before", 100 * i, 100 - idle_us, kNone);
    for (int64_t i = 0; i < 100; ++i) made.Launch("k", 100 * i, 5, 10'000 + 100 * i, 100 - idle_us);
    return Found(made.Run("a39"), "a39.clock_late").has_value();
  };
  CHECK_FALSE(run(1));
  CHECK_FALSE(run(40));
  CHECK(run(60));  // a queue would not leave the device idle for most of the time
}

TEST_CASE("a39 does not take work for the program for the profiler's", "[a39]") {
  const auto share = [](const char* name) {
    GpuTrace made(1000);
    made.Launch("k", 0, 10, 20, 80);
    made.trace.overheads.push_back({300'000, 200'000, made.trace.strings.Add(name)});
    return Found(made.Run("a39"), "a39.overhead").has_value();
  };
  for (const char* const name : {"Lazy Function Loading", "Runtime Triggered Module Loading", "Driver Compiler",
                                 "Command Buffer Full", "lazy function loading"}) {
    INFO(name);
    CHECK_FALSE(share(name));
  }
  for (const char* const name : {"Buffer Flush", "Activity Buffer Request", "Instrumentation", "Resource"}) {
    INFO(name);
    CHECK(share(name));
  }
}

TEST_CASE("a39 counts work without a call or a duration, requests without an end, and the profiler's own work",
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

TEST_CASE("a39 tells profiles of kernels from the profiling library's own work", "[a39]") {
  GpuTrace made(1000);
  made.trace.overheads.push_back({300'000, 200'000, made.trace.strings.Add("profiling kernels")});

  const AnalysisReport report = made.Run("a39");

  REQUIRE(Found(report, "a39.profiled").has_value());
  CHECK(Found(report, "a39.profiled")->value == Approx(0.2));
  CHECK_FALSE(Found(report, "a39.overhead").has_value());
}

TEST_CASE("a39 reports nothing for a whole trace, and damage affects only findings that rest on it", "[a39]") {
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

TEST_CASE("a41 names parts that vary with the latency, not merely large ones", "[a41]") {
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
  CHECK(finding.confidence == 0.6);
  CHECK(finding.subject == "/classify");
  CHECK(finding.metric == "Cov(queue_wait_others, latency) / Var(latency)");  // the scoreboard reads it
  CHECK(finding.value > 0.95);
  CHECK(Has(finding.summary, "30.0 ms"));
  CHECK(finding.evidence.size() == 3);
  double shares = 0;
  for (const analyze::MeasureRow& measure : report.analyzers[0].measures) {
    if (measure.name != "p99 / p50") shares += measure.value;
  }
  CHECK(shares == Approx(1));
  CHECK(Run(even.Finish(), "a41").analyzers[0].findings.empty());
}

TEST_CASE("a41 names the three slowest requests, as pitot why takes them", "[a41]") {
  Server server;
  for (int i = 0; i < 200; ++i) server.Serve({2'000, i % 20 == 0 ? 30'000 + i * 10 : 0, 5'000, 500});

  const std::optional<FindingRow> finding = Found(Run(server.Finish(), "a41"), "a41.driver");

  REQUIRE(finding.has_value());
  CHECK(Has(finding->summary, "the slowest: request 00000000000010b4, 00000000000010a0, 000000000000108c"));
  REQUIRE(finding->evidence.size() == 3);
  CHECK(finding->evidence[1].note == "one of the slowest: request 00000000000010a0");
  CHECK(Has(finding->recommendation, "`pitot why FILE --request ID`"));
}

TEST_CASE("walks of many requests keep where their time went, and none of their segments", "[analyze]") {
  Server server;
  for (int i = 0; i < 20; ++i) server.Serve({2'000, 1'000, 5'000, 500});
  const Trace trace = server.Finish();

  analyze::BlameIndex index;
  REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());

  const analyze::Walks walks = analyze::FindWalks(index);

  REQUIRE(walks.blames.size() == 20);
  for (const analyze::RequestBlame& blame : walks.blames) {
    CHECK(blame.blame.Total() == 8'000 * kUs);
    CHECK(blame.segments.capacity() == 0);
    CHECK(blame.detours.capacity() == 0);
  }
}

TEST_CASE("analyzers of requests walk with the given index", "[analyze]") {
  Server lock, even;
  for (int i = 0; i < 200; ++i) {
    lock.Serve({20'000 + i % 7 * 10, i % 10 == 0 ? 30'000 : 0, 5'000, 500});
    even.Serve({20'000 + i % 7 * 10, 0, 5'000, 500});
  }
  const Trace trace = lock.Finish(), other = even.Finish();
  analyze::BlameIndex own, of_other;
  REQUIRE(analyze::BlameIndex::Make(trace, {}, &own).ok());
  REQUIRE(analyze::BlameIndex::Make(other, {}, &of_other).ok());
  AnalyzeOptions given;
  given.index = &own;

  CHECK(Codes(Run(trace, "a41", given)) == std::vector<std::string>{"a41.driver"});
  given.index = &of_other;  // nobody does this, but it shows
  CHECK(Codes(Run(trace, "a41", given)).empty());
}

TEST_CASE("a31 reports the limit of speeding up a part, and how sure its share is", "[a31]") {
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

TEST_CASE("a31 does not send readers to the speed of copies, which also wait for the work before them", "[a31]") {
  struct Copying : Server {
    void ServeCopy(int64_t copy_us) {
      Serve({500, 0, copy_us, 500});
      const auto batch = static_cast<uint32_t>(maker.trace.batches.size() - 1);
      maker.Call(executor_, "cudaMemcpyAsync HtoD (blocking)", maker.trace.batches[batch].begin_ns, copy_us * kUs,
                 {kNone, batch});
    }
  } copies;
  Server code;
  for (int i = 0; i < 50; ++i) {
    copies.ServeCopy(8'000 + i % 5 * 100);
    code.Serve({8'000 + i % 5 * 100, 0, 2'000, 500});
  }

  const std::optional<FindingRow> copied = Found(Run(copies.Finish(), "a31"), "a31.dominant");
  REQUIRE(copied.has_value());
  CHECK(Has(copied->summary, "h2d is "));
  CHECK(Has(copied->recommendation, "see first what the copies wait for"));
  CHECK_FALSE(Has(copied->recommendation, "nothing else can gain as much"));
  CHECK(Has(copied->recommendation, "These are upper bounds"));
  CHECK(Has(Found(Run(code.Finish(), "a31"), "a31.dominant")->recommendation, "nothing else can gain as much"));
}

TEST_CASE("a30 reports the levers that reach a target, and targets out of reach", "[a30]") {
  Server server;
  for (int i = 0; i < 30; ++i) server.Serve({3'000, 7'000, 5'000, 500});
  const Trace trace = server.Finish();

  CHECK(Run(trace, "a30").analyzers[0].findings.empty());  // no target given
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

TEST_CASE("a30 finds the fewest levers, not the one with the largest first saving", "[a30]") {
  // 8 ms of decoding, 8 of a copy, 12 on the GPU. Computing four times as fast saves most at once, but then nothing can
  // hide behind it. The others alone, hidden behind the GPU as it is, save 16.
  GpuTrace made(30 * 28'010);
  for (int64_t i = 0; i < 30; ++i) {
    const int64_t at_us = i * 28'010;
    made.For(made.Request(at_us, 28'000));
    made.Event(SiteKind::kScope, "decode", at_us, 8'000);
    const uint32_t copy = made.Call("cudaMemcpyAsync", at_us + 8'000, 1);
    made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", at_us + 8'001, 7'999, copy, 8 << 20);
    made.Gpu(GpuKind::kKernel, "gemm", at_us + 16'000, 12'000, made.Call("cudaLaunchKernel", at_us + 8'001, 1));
    made.Call("cudaStreamSynchronize", at_us + 8'002, 19'998);
  }
  AnalyzeOptions options = With("a30.target", 13e6);
  options.thresholds.push_back({"a30.kernel_speedup", 4});

  const AnalysisReport report = made.Run("a30", options);

  const std::optional<FindingRow> plan = Found(report, "a30.plan");
  REQUIRE(plan.has_value());
  CHECK(Has(plan->recommendation, "Copy while computing"));
  CHECK(Has(plan->recommendation, "prepare inputs on the GPU"));
  CHECK_FALSE(Has(plan->recommendation, "precision"));
  CHECK(Measured(report, "least latency") == Approx(12'000).epsilon(0.01));
}

TEST_CASE("a request with a parent elsewhere is whole, and one with a parent in the trace is a part", "[requests]") {
  GpuTrace made(1000);
  for (const uint64_t id : {1, 2, 3, 4}) {
    model::RequestRow request;
    request.id = id;
    request.begin_known = request.end_known = id != 4;
    request.duration_ns = 1000;
    made.trace.requests.push_back(request);
  }
  made.trace.requests[1].parent_id = 0xabc;
  made.trace.requests[2].parent_id = 1;

  CHECK(analyze::WholeRequests(made.trace) == std::vector<uint32_t>{0, 1});
}

TEST_CASE("the direction of a copy is known by the names of collectors and of readers", "[copies]") {
  CHECK(facts::DirectionOf("pageable to device") == "HtoD");
  CHECK(facts::DirectionOf("HtoD, pageable to device") == "HtoD");
  CHECK(facts::DirectionOf("array to pinned") == "DtoH");
  CHECK(facts::DirectionOf("device to device") == "DtoD");
  CHECK(facts::DirectionOf("PtoP, device to device") == "PtoP");
  CHECK(facts::DirectionOf("managed to device") == "managed");
}

// ---- At their edges

TEST_CASE("a30 plans for enough requests, and reports what a target would save", "[a30]") {
  Server server;
  for (int i = 0; i < 30; ++i) server.Serve({3'000, 7'000, 5'000, 500});
  const GpuTrace made = Of(server.Finish());
  const AnalyzeOptions near_target = With("a30.target", 9e6), far_target = With("a30.target", 2e6);

  CheckFinding(Found(made.Run("a30", near_target), "a30.plan"), Severity::kMedium, 0.6, 30 * 6'000, 1);
  CheckFinding(Found(made.Run("a30", far_target), "a30.unreachable"), Severity::kHigh, 0.8, 30 * 13'000, 1);
  CheckEdge(made, "a30.plan", "least_requests", Edge::kFrom, 30, near_target);
  CHECK(FoundWith(made, "a30.plan", "target", 14.99e6).has_value());
  CHECK_FALSE(FoundWith(made, "a30.plan", "target", 15.01e6).has_value());
  CHECK(Measured(made.Run("a30"), "mean latency") == 15'000);
  CHECK(Measured(made.Run("a30"), "more_capacity alone saves") == 7'000);
  CHECK(Found(made.Run("a30", With("a30.target", 8e6)), "a30.plan").has_value());
  CHECK(Found(made.Run("a30", With("a30.target", 8e6 - 1)), "a30.unreachable").has_value());
}

TEST_CASE("a30 takes what saves less than a share of the latency as no lever", "[a30]") {
  Server server;
  for (int i = 0; i < 30; ++i) server.Serve({3'000, 7'000, 5'000, 500});
  const Trace trace = server.Finish();
  const auto is_lever = [&](double share) {
    return Run(trace, "a30", With("a30.least_saving", share)).Find("a30", "more_capacity alone saves") != nullptr;
  };

  CHECK(is_lever(6.999 / 15));
  CHECK_FALSE(is_lever(7.001 / 15));
}

TEST_CASE("a31 names a part whose share is surely its threshold or more", "[a31]") {
  Server one;
  for (int i = 0; i < 50; ++i) one.Serve({8'000 + i % 5 * 100, 0, 2'000, 500});
  const GpuTrace made = Of(one.Finish());
  const AnalysisReport report = made.Run("a31");

  CheckFinding(Found(report, "a31.dominant"), Severity::kInfo, 0.95, 50 * 8'200, 1);
  CheckEdge(made, "a31.dominant", "share", Edge::kFrom, Measured(report, "host_oncpu_pre share, low"));
  CheckEdge(made, "a31.dominant", "least_requests", Edge::kFrom, 50);
  CHECK(Measured(report, "host_oncpu_pre share") == Approx(8.2 / 10.2));
  // The share's interval: 1.96 deviations of the mean, of 50.
  CHECK(Measured(report, "host_oncpu_pre share, high") - Measured(report, "host_oncpu_pre share") ==
        Approx(Measured(report, "host_oncpu_pre share") - Measured(report, "host_oncpu_pre share, low")));
  const std::optional<FindingRow> faster = FoundWith(made, "a31.dominant", "speedup", 4);
  REQUIRE(faster.has_value());
  CHECK(Has(faster->summary, "2.52"));  // 10.2 / (2 + 8.2 / 4)
}

TEST_CASE("a39 takes damage to a tenth of a trace as medium, and to three tenths as high", "[a39]") {
  const auto severity = [](int64_t lost_us) {
    GpuTrace made = Idle();
    made.trace.gpu_losses.push_back({0, 0, 0, lost_us * 1000, 40, 0});
    const std::optional<FindingRow> finding = Found(made.Run("a39"), "a39.lost_gpu_records");
    REQUIRE(finding.has_value());
    return finding->severity;
  };

  CHECK(severity(99) == Severity::kLow);
  CHECK(severity(100) == Severity::kMedium);
  CHECK(severity(299) == Severity::kMedium);
  CHECK(severity(300) == Severity::kHigh);
}

TEST_CASE("a39 recommends the memory option of the collector that lost records", "[a39]") {
  const auto advice = [](uint32_t ordinal, const char* reason) {
    GpuTrace made = Idle();
    made.trace.devices.push_back({ordinal});
    const auto device = static_cast<uint32_t>(made.trace.devices.size() - 1);
    made.trace.gpu_losses.push_back({pitot::model::kNone, made.trace.strings.Add(reason), 0, 700'000, 40, device});
    return Found(made.Run("a39"), "a39.lost_gpu_records")->recommendation;
  };

  CHECK(advice(1, "overwritten") == "Give the collector more memory (CuptiOptions::memory_bytes).");
  CHECK(advice(100, "overwritten") == "Give the collector more memory (OpenClOptions::memory_bytes).");
  CHECK(Has(advice(100, "OpenCL command failed"), "more memory does not help"));
  CHECK(Has(advice(1, "another profiler took the buffers"), "more memory does not help"));
}

TEST_CASE("a39 judges by the thresholds that are set", "[a39]") {
  GpuTrace made(1000);
  for (int64_t i = 0; i < 20; ++i) made.Launch("k", 40 * i, 5, 40 * i + 10, i == 0 ? 0 : 10);
  made.trace.gpu.call[1] = kNone;
  made.trace.overheads.push_back({0, 200'000, made.trace.strings.Add("Flush")});
  for (uint64_t id = 1; id <= 4; ++id) {
    model::RequestRow request;
    request.id = id;
    request.duration_ns = 1000;
    request.end_known = id != 1;
    made.trace.requests.push_back(request);
  }

  for (const auto& [code, threshold, value] : {std::tuple{"a39.unmatched", "unmatched_share", 0.05},
                                               {"a39.instant", "instant_share", 0.05},
                                               {"a39.overhead", "overhead_share", 0.2},
                                               {"a39.endless", "endless_share", 0.25}}) {
    INFO(code);
    CHECK(FoundWith(made, code, threshold, value * 0.99).has_value());
    CHECK_FALSE(FoundWith(made, code, threshold, value * 1.01).has_value());
  }
}

TEST_CASE("a39 judges clocks by the thresholds that are set", "[a39]") {
  GpuTrace early(100'000), late(100'000);
  for (int i = 0; i < 200; ++i) {
    early.Launch("k", 100 + i * 100, 5, 60 + i * 100, 10);
    late.Launch("k", i * 100, 5, i * 100 + 400, 10);
  }

  CHECK(FoundWith(early, "a39.clock_skew", "skew", 39'000).has_value());
  CHECK_FALSE(FoundWith(early, "a39.clock_skew", "skew", 41'000).has_value());
  CHECK(FoundWith(late, "a39.clock_late", "late", 399'000).has_value());
  CHECK_FALSE(FoundWith(late, "a39.clock_late", "late", 401'000).has_value());
  CHECK(FoundWith(late, "a39.clock_late", "least_launches", 199).has_value());
  CHECK_FALSE(FoundWith(late, "a39.clock_late", "least_launches", 201).has_value());
}

TEST_CASE("a41 explains tails from a ratio on, by parts from a share of the variance on", "[a41]") {
  Server lock;
  for (int i = 0; i < 200; ++i) lock.Serve({20'000 + i % 7 * 10, i % 10 == 0 ? 30'000 : 0, 5'000, 500});
  const GpuTrace made = Of(lock.Finish());
  const AnalysisReport report = made.Run("a41");
  const std::optional<FindingRow> finding = Found(report, "a41.driver");

  // 30 ms for the slowest twentieth, none for the middle half; for 11 requests.
  CheckFinding(finding, Severity::kHigh, 0.6, 11 * 30'000, 3);
  CheckEdge(made, "a41.driver", "share", Edge::kFrom);
  CheckInformsBelow(made, "a41.driver", "main_share", finding->value);
  CheckEdge(made, "a41.driver", "tail_ratio", Edge::kFrom, Measured(report, "p99 / p50"));
  CheckEdge(made, "a41.driver", "least_requests", Edge::kFrom, 200);
}

TEST_CASE("a41 only informs of a driver of less than six tenths of the variance", "[a41]") {
  Server two;
  for (int i = 0; i < 200; ++i) two.Serve({20'000 + (i % 10 == 5 ? 30'000 : 0), i % 10 == 0 ? 30'000 : 0, 5'000, 500});

  const AnalysisReport report = Run(two.Finish(), "a41");

  REQUIRE(report.analyzers[0].findings.size() == 2);
  for (const FindingRow& finding : report.analyzers[0].findings) {
    CHECK(finding.value == Approx(0.5).epsilon(0.01));
    CHECK(finding.severity == Severity::kInfo);
  }
}

TEST_CASE("a30 names the fewest levers that come as near as any to a target out of reach", "[a30]") {
  // 8 ms of decoding, 8 of a copy, 12 on the GPU: hidden behind the GPU, the first two save 16. If that computes four
  // times as fast, less can hide behind it.
  GpuTrace made(30 * 28'010);
  for (int64_t i = 0; i < 30; ++i) {
    const int64_t at_us = i * 28'010;
    made.For(made.Request(at_us, 28'000));
    made.Event(SiteKind::kScope, "decode", at_us, 8'000);
    const uint32_t copy = made.Call("cudaMemcpyAsync", at_us + 8'000, 1);
    made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", at_us + 8'001, 7'999, copy, 8 << 20);
    made.Gpu(GpuKind::kKernel, "gemm", at_us + 16'000, 12'000, made.Call("cudaLaunchKernel", at_us + 8'001, 1));
    made.Call("cudaStreamSynchronize", at_us + 8'002, 19'998);
  }
  AnalyzeOptions options = With("a30.target", 1e6);
  options.thresholds.push_back({"a30.kernel_speedup", 4});

  const std::optional<FindingRow> finding = Found(made.Run("a30", options), "a30.unreachable");

  REQUIRE(finding.has_value());
  CHECK_FALSE(Has(finding->recommendation, "precision"));
  CHECK(Has(finding->summary, "12.0 ms"));
}

TEST_CASE("a31 reports the interval of a share as of a ratio of means", "[a31]") {
  Server one;
  for (int i = 0; i < 50; ++i) one.Serve({8'000 + i * 7 % 5 * 100, 0, 2'000, 500});

  const AnalysisReport report = Run(one.Finish(), "a31");

  // A request is off by 2 / 10.2 of 200, 100 or 0 us, 141 in the root of the mean square.
  const double off_us = 2 / 10.2 * 141.4, of_mean = off_us / std::sqrt(49) / 10'200;
  CHECK(Measured(report, "host_oncpu_pre share, high") - Measured(report, "host_oncpu_pre share") ==
        Approx(1.96 * of_mean).epsilon(0.02));
}

TEST_CASE("a41 measures the tail against the median", "[a41]") {
  Server lock;
  for (int i = 0; i < 200; ++i) lock.Serve({20'000, i % 10 == 0 ? 30'000 : 0, 5'000, 500});

  CHECK(Measured(Run(lock.Finish(), "a41"), "p99 / p50") == Approx(55.0 / 25));
}

TEST_CASE("a31 leaves out parts of a hundredth of the latency or less", "[a31]") {
  const auto has_queue = [](int64_t queued_us) {
    Server server;
    for (int i = 0; i < 30; ++i) server.Serve({6'000, queued_us, 4'000 - queued_us, 500});
    const AnalysisReport report = Run(server.Finish(), "a31");
    return std::any_of(report.analyzers[0].measures.begin(), report.analyzers[0].measures.end(),
                       [](const analyze::MeasureRow& row) { return row.value > 0 && row.value < 0.02; });
  };

  CHECK(has_queue(110));
  CHECK_FALSE(has_queue(100));
}

}  // namespace pitot::test
