// SPDX-License-Identifier: Apache-2.0
//
// The walk's use of a GPU's hardware counters where neither calls nor kernels were recorded.
#include "analyze/blame/gpu_use.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "analyze/blame_of.h"
#include "base/gpu_counters.h"
#include "base/host_counters.h"
#include "pitot/analyze/judgement.h"
#include "pitot/analyze/verdict.h"
#include "pitot/analyze/why.h"
#include "serialize/sample_trace.h"

using namespace pitot;
using namespace pitot::model;
using analyze::Blame;
using analyze::RequestBlame;
using base::GpuCounter;
using test::TraceMaker;

namespace {

constexpr int64_t kMs = 1'000'000;
using Values = test::CounterValues;

// A request from 100 to 200 ms, all on the executor. Its batch is from 110 to 190, in the scope "forward". No call and
// no GPU work was recorded.
struct Server {
  Server() {
    maker.trace.window_end_ns = 1'000 * kMs;
    const uint32_t executor = maker.Thread("executor");
    forward = maker.Site(SiteKind::kScope, "forward");
    request = maker.Request(1, "/classify", 100 * kMs, 100 * kMs);
    maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = executor;
    batch = maker.Batch(11, "resnet50", executor, 110 * kMs, 80 * kMs);
    maker.Member(batch, request, 110 * kMs);
    maker.Event(executor, maker.Site(SiteKind::kScope, "decode"), 100 * kMs, 10 * kMs, {request, kNone});
    maker.Event(executor, forward, 110 * kMs, 80 * kMs, {kNone, batch});
    maker.trace.devices.push_back({0});
    maker.trace.threads[executor].tid = 77;
  }
  // A device's counter; kNone: the process's.
  void Counter(uint32_t device, std::string_view name, const Values& values) {
    counters.push_back({device, std::string(name), values});
  }
  void Sampled(const Values& values, uint32_t device = 0) {
    Counter(device, base::NameOf(GpuCounter::kSampled), values);
  }
  void Active(const Values& values, uint32_t device = 0) {
    Counter(device, base::NameOf(GpuCounter::kEngineActive), values);
  }
  RequestBlame Walk() {
    Trace trace = maker.Finish();
    for (const auto& [device, name, values] : counters) test::AddCounter(&trace, device, name, values);
    return test::BlameOf(trace, request);
  }

  struct Of {
    uint32_t device;
    std::string name;
    Values values;
  };
  TraceMaker maker;
  uint32_t forward, request, batch;
  std::vector<Of> counters;
};

}  // namespace

TEST_CASE("model code is a wait for the GPU as long as the GPU worked and no call tells more", "[gpu_use]") {
  Server server;
  server.Sampled({{0, 1}, {900, 0}});
  server.Active({{0, 0}, {120, 100}, {160, 50}, {180, 0}});

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuExecExpected] == 50 * kMs);  // 40 ms, and half of 20
  CHECK(blame.blame[Blame::kHostOncpuFramework] == 30 * kMs);
}

TEST_CASE("model code is a copy as long as the bus was busy and the GPU's engine stood still", "[gpu_use]") {
  Server server;
  server.Sampled({{0, 1}, {900, 0}});
  server.Active({{0, 0}, {130, 100}, {140, 0}});
  server.Counter(0, base::NameOf(GpuCounter::kPcieReceiving), {{0, 3e7}, {120, 2e9}, {130, 3e7}});
  server.Counter(0, base::NameOf(GpuCounter::kPcieSending), {{0, 1e7}, {150, 12e9}, {170, 1e7}});

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuExecExpected] == 10 * kMs);
  CHECK(blame.blame[Blame::kH2d] == 10 * kMs);
  CHECK(blame.blame[Blame::kD2h] == 20 * kMs);
  CHECK(blame.blame[Blame::kHostOncpuFramework] == 40 * kMs);
}

TEST_CASE("a busy bus is a copy only in time in which the GPU's engine stood still", "[gpu_use]") {
  Server server;
  server.Sampled({{0, 1}, {900, 0}});
  server.Active({{0, 0}, {110, 100}, {150, 75}, {170, 0}});
  server.Counter(0, base::NameOf(GpuCounter::kPcieReceiving), {{0, 8e9}, {180, 3e7}});

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuExecExpected] == 55 * kMs);
  CHECK(blame.blame[Blame::kH2d] == 15 * kMs);  // 5 beside a little work, and the 10 after it
  CHECK(blame.blame[Blame::kHostOncpuFramework] == 10 * kMs);
}

TEST_CASE("code stays code while the GPU stood still, or was not sampled", "[gpu_use]") {
  Server server;
  SECTION("it stood still") {
    server.Sampled({{0, 1}, {900, 0}});
    server.Active({{0, 0}});
  }
  SECTION("it was not sampled meanwhile") {
    server.Sampled({{0, 1}, {105, 0}, {195, 1}, {900, 0}});
    server.Active({{0, 100}});
  }
  SECTION("no counter") {}

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuExecExpected] == 0);
  CHECK(blame.blame[Blame::kHostOncpuFramework] == 80 * kMs);
}

TEST_CASE(
    "code stays code if only NVML's coarse counters were sampled, and its time is not known to be free of the GPU",
    "[gpu_use]") {
  Server server;
  server.Sampled({{0, 1}, {900, 0}});
  server.Counter(0, base::NameOf(GpuCounter::kSmActive), {{0, 100}});
  server.Counter(0, base::NameOf(GpuCounter::kPcieReceiving), {{0, 12e9}});
  const RequestBlame blame = server.Walk();
  CHECK(blame.blame[Blame::kGpuExecExpected] == 0);
  CHECK(blame.blame[Blame::kH2d] == 0);
  CHECK(blame.blame[Blame::kHostOncpuFramework] == 80 * kMs);
  Trace trace;
  trace.counters.push_back({0, trace.strings.Add(base::NameOf(GpuCounter::kSampled)), trace.strings.Add("")});
  for (const auto& [at_ms, value] : Values{{0, 1}, {900, 0}}) {
    trace.samples.counter.push_back(0);
    trace.samples.at_ns.push_back(at_ms * kMs);
    trace.samples.value.push_back(value);
  }
  CHECK_FALSE(blame::GpuUse(trace).AreSampled(100 * kMs, 200 * kMs));
}

TEST_CASE("recorded calls decide, not the counters of the GPU", "[gpu_use]") {
  Server server;
  server.maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
  server.maker.Call(0, "cudaLaunchKernel", 111 * kMs, 1 * kMs, {kNone, server.batch});
  server.maker.Gpu(0, GpuKind::kKernel, "gemm", 112 * kMs, 5 * kMs, 0);
  server.Sampled({{0, 1}, {900, 0}});
  server.Active({{0, 100}});

  CHECK(server.Walk().blame[Blame::kHostOncpuFramework] == 79 * kMs);
}

TEST_CASE("with several sampled devices the one that the batch used decides, and none if it is not known",
          "[gpu_use]") {
  struct Case {
    std::vector<uint32_t> used;  // devices on which work of the thread's other batches was recorded
    int64_t expected_ms;
  };
  for (const Case& one : {Case{{}, 0}, {{0}, 60}, {{1}, 20}, {{0, 1}, 0}}) {
    Server server;
    server.maker.trace.devices.push_back({1});
    const uint32_t executor = server.maker.trace.batches[server.batch].thread;
    for (uint32_t i = 0; i < one.used.size(); ++i) {
      const int64_t at_ns = (300 + i) * kMs;
      const uint32_t other = server.maker.Batch(20 + i, "resnet50", executor, at_ns, kMs);
      server.maker.Call(executor, "cudaLaunchKernel", at_ns, 1'000, {kNone, other});
      server.maker.trace.streams.push_back({one.used[i], 1, 7, 0, 0, 0});
      server.maker.Gpu(i, GpuKind::kKernel, "gemm", at_ns + 1'000, 10'000, i);
    }
    for (const uint32_t device : {0u, 1u}) server.Sampled({{0, 1}, {900, 0}}, device);
    server.Active({{0, 0}, {110, 100}, {170, 0}}, 0);
    server.Active({{0, 0}, {110, 100}, {130, 0}}, 1);

    CHECK(server.Walk().blame[Blame::kGpuExecExpected] == one.expected_ms * kMs);
  }
}

TEST_CASE("a batch that used two devices has the counters of neither, whatever its thread used else", "[gpu_use]") {
  Server server;
  server.maker.trace.devices.push_back({1});
  const uint32_t executor = server.maker.trace.batches[server.batch].thread;
  const uint32_t other = server.maker.Batch(20, "resnet50", executor, 300 * kMs, kMs);
  server.maker.Call(executor, "CudaEventScope", 150 * kMs, 1'000, {kNone, server.batch});
  server.maker.Call(executor, "CudaEventScope", 151 * kMs, 1'000, {kNone, server.batch});
  server.maker.Call(executor, "CudaEventScope", 300 * kMs, 1'000, {kNone, other});
  for (const uint32_t device : {0u, 1u}) server.maker.trace.streams.push_back({device, 1, 7, 0, 0, 0});
  server.maker.Gpu(0, GpuKind::kSpan, "a", 150 * kMs + 1'000, 10'000, 0);
  server.maker.Gpu(0, GpuKind::kSpan, "c", 300 * kMs + 1'000, 10'000, 2);
  server.maker.Gpu(1, GpuKind::kSpan, "b", 151 * kMs + 1'000, 10'000, 1);
  for (const uint32_t device : {0u, 1u}) {
    server.Sampled({{0, 1}, {900, 0}}, device);
    server.Active({{0, 100}}, device);
  }
  CHECK(server.Walk().blame[Blame::kGpuExecExpected] == 0);
}

TEST_CASE("a thread that sleeps in a synchronisation is not blocked for an unknown reason while the GPU works",
          "[gpu_use]") {
  Server server;
  server.Sampled({{0, 1}, {900, 0}});
  server.Active({{0, 0}, {110, 100}, {170, 0}});
  const auto of_thread = [](const auto& what) { return base::ThreadCounter(77, what); };
  server.Counter(kNone, of_thread(base::kOnCpu), {{110, 0}, {190, 5e6}});
  server.Counter(kNone, of_thread(base::kRunQueueDelay), {{110, 0}, {190, 0}});

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuExecExpected] == 60 * kMs);
  CHECK(blame.blame[Blame::kHostBlockedUnknown] == 15 * kMs);
  CHECK(blame.blame[Blame::kHostOncpuFramework] == 5 * kMs);
}

TEST_CASE("a slow request is compared by its GPU time if all of it was sampled, otherwise by code and GPU together",
          "[gpu_use]") {
  // Requests of 40 ms, 30 of them on the GPU; the last one takes 60 ms more there.
  TraceMaker maker;
  maker.trace.window_end_ns = 10'000 * kMs;
  const uint32_t executor = maker.Thread("executor"), decode = maker.Site(SiteKind::kScope, "decode");
  const uint32_t forward = maker.Site(SiteKind::kScope, "forward");
  maker.trace.devices.push_back({0});
  Values active = {{0, 0}};
  constexpr int64_t kCount = 100;
  for (int64_t i = 0; i < kCount; ++i) {
    const int64_t begin_ms = 50 * i, more_ms = i + 1 == kCount ? 60 : i % 3;
    const uint32_t row = maker.Request(static_cast<uint64_t>(i + 1), "/x", begin_ms * kMs, (40 + more_ms) * kMs);
    maker.trace.requests[row].begin_thread = maker.trace.requests[row].end_thread = executor;
    const uint32_t batch =
        maker.Batch(static_cast<uint64_t>(1000 + i), "model", executor, (begin_ms + 5) * kMs, (35 + more_ms) * kMs);
    maker.Member(batch, row, (begin_ms + 5) * kMs);
    maker.Event(executor, decode, begin_ms * kMs, 5 * kMs, {row, kNone});
    maker.Event(executor, forward, (begin_ms + 5) * kMs, (35 + more_ms) * kMs, {kNone, batch});
    active.insert(active.end(), {{begin_ms + 10, 100}, {begin_ms + 40 + more_ms, 0}});
  }
  const bool is_sampled = GENERATE(true, false);
  Trace trace = maker.Finish();
  const auto add = [&](GpuCounter counter, const Values& values) {
    test::AddCounter(&trace, 0, base::NameOf(counter), values);
  };
  add(GpuCounter::kSampled, {{0, 1}, {is_sampled ? 9'000 : 4'960, 0}});
  add(GpuCounter::kEngineActive, active);
  REQUIRE(FindInconsistency(trace) == "");
  analyze::Judgement judgement;
  REQUIRE(JudgeRequest(trace, kCount - 1, nullptr, &judgement).ok());
  const analyze::Verdict& verdict = judgement.verdict;

  REQUIRE_FALSE(verdict.causes.empty());
  CHECK(verdict.is_coarse == !is_sampled);
  if (is_sampled) {
    CHECK(verdict.causes[0].blame == Blame::kGpuExecExpected);
    CHECK(verdict.causes[0].excess_ns == Approx(59e6).margin(1e5));
    CHECK(std::string(verdict.causes[0].advice.text).find("A GPU worked longer.") == 0);
  }
  CHECK(verdict.causes[0].confidence < 0.9);
}

TEST_CASE("code of a batch is not called code if its thread may have waited for a GPU unseen", "[gpu_use]") {
  // Requests of 40 ms, 35 of them in code of their batches; the last one takes 60 ms more there.
  TraceMaker maker;
  maker.trace.window_end_ns = 10'000 * kMs;
  const uint32_t executor = maker.Thread("executor"), decode = maker.Site(SiteKind::kScope, "decode");
  const uint32_t forward = maker.Site(SiteKind::kScope, "forward");
  constexpr int64_t kCount = 100;
  for (int64_t i = 0; i < kCount; ++i) {
    const int64_t begin_ns = 50 * i * kMs, length_ns = (40 + (i + 1 == kCount ? 60 : i % 3)) * kMs;
    const uint32_t row = maker.Request(static_cast<uint64_t>(i + 1), "/x", begin_ns, length_ns);
    maker.trace.requests[row].begin_thread = maker.trace.requests[row].end_thread = executor;
    const uint32_t batch =
        maker.Batch(static_cast<uint64_t>(1000 + i), "model", executor, begin_ns + 5 * kMs, length_ns - 5 * kMs);
    maker.Member(batch, row, begin_ns + 5 * kMs);
    maker.Event(executor, decode, begin_ns, 5 * kMs, {row, kNone});
    maker.Event(executor, forward, begin_ns + 5 * kMs, length_ns - 5 * kMs, {kNone, batch});
  }
  std::vector<std::pair<GpuCounter, Values>> counters;
  const auto judge = [&] {
    Trace trace = maker.Finish();
    for (const auto& [counter, values] : counters) test::AddCounter(&trace, 0, base::NameOf(counter), values);
    REQUIRE(FindInconsistency(trace) == "");
    analyze::Judgement judgement;
    REQUIRE(JudgeRequest(trace, kCount - 1, nullptr, &judgement).ok());
    REQUIRE_FALSE(judgement.verdict.causes.empty());
    CHECK(judgement.verdict.causes[0].blame == Blame::kHostOncpuFramework);
    return judgement.verdict;
  };
  SECTION("a process without a GPU") { CHECK(judge().kind == analyze::VerdictKind::kCauses); }
  SECTION("a process with one, of which nothing was recorded") {
    maker.trace.devices.push_back({0});
    const analyze::Verdict verdict = judge();
    CHECK(verdict.kind == analyze::VerdictKind::kUndetermined);
    CHECK(verdict.why_not.find("a wait for a GPU") != std::string::npos);
    CHECK(verdict.causes[0].confidence < 0.5);
    CHECK(std::string(verdict.causes[0].advice.code) == "record_gpu");
  }
  SECTION("a process with one, whose waits are recorded") {
    maker.trace.devices.push_back({0});
    maker.trace.attributes.push_back({maker.String("cuda_calls.libraries"), maker.String("1")});
    maker.Call(executor, "cudaStreamSynchronize", 30 * kMs, kMs, {kNone, 0});
    CHECK(judge().kind == analyze::VerdictKind::kCauses);
  }
  SECTION("a process with one, where another executor's waits are recorded") {
    maker.trace.devices.push_back({0});
    maker.trace.attributes.push_back({maker.String("cuda_calls.libraries"), maker.String("1")});
    const uint32_t thread = maker.Thread("other");
    const uint32_t batch = maker.Batch(5000, "other", thread, 5'000 * kMs, 50 * kMs);
    maker.Call(thread, "cudaStreamSynchronize", 5'010 * kMs, kMs, {kNone, batch});
    CHECK(judge().kind == analyze::VerdictKind::kUndetermined);
  }
  SECTION("a batch with a recorded wait, whose thread may have asked the GPU again and again") {
    const bool is_busy = GENERATE(true, false);
    maker.trace.devices.push_back({0});
    maker.trace.attributes.push_back({maker.String("cuda_calls.libraries"), maker.String("1")});
    maker.Call(executor, "cudaStreamSynchronize", 5'048 * kMs, kMs, {kNone, kCount - 1});
    counters.push_back({GpuCounter::kSampled, {{0, 1}, {9'000, 0}}});
    Values active;
    for (int64_t at_ms = 0; at_ms < 9'000; at_ms += 20) active.emplace_back(at_ms, is_busy ? 100 : 0);
    counters.push_back({GpuCounter::kEngineActive, active});
    const analyze::Verdict verdict = judge();
    CHECK((verdict.kind == analyze::VerdictKind::kUndetermined) == is_busy);
    CHECK((verdict.why_not.find("again and again") != std::string::npos) == is_busy);
    CHECK((std::string(verdict.causes[0].advice.code) == "wait_in_calls") == is_busy);
  }
}
