// SPDX-License-Identifier: Apache-2.0
//
// The walk's use of a GPU's hardware counters where neither calls nor kernels were recorded.
#include "analyze/blame/gpu_use.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/gpu_counters.h"
#include "base/host_counters.h"
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
using Values = std::vector<std::pair<int64_t, double>>;  // from ms on

// A request from 100 to 200 ms: its batch runs on the executor from 110 to 190 in the scope "forward". No call and no
// GPU work was recorded.
struct Server {
  Server() {
    maker.trace.window_end_ns = 1'000 * kMs;
    const uint32_t http = maker.Thread("http"), executor = maker.Thread("executor");
    forward = maker.Site(SiteKind::kScope, "forward");
    request = maker.Request(1, "/classify", 100 * kMs, 100 * kMs);
    maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = http;
    batch = maker.Batch(11, "resnet50", executor, 110 * kMs, 80 * kMs);
    maker.Member(batch, request, 110 * kMs);
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
    for (const auto& [device, name, values] : counters) {
      const auto row = static_cast<uint32_t>(trace.counters.size());
      trace.counters.push_back({device, trace.strings.Add(name), trace.strings.Add("%")});
      for (const auto& [at_ms, value] : values) {
        trace.samples.counter.push_back(row);
        trace.samples.at_ns.push_back(at_ms * kMs);
        trace.samples.value.push_back(value);
      }
    }
    REQUIRE(FindInconsistency(trace) == "");
    analyze::BlameIndex index;
    REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
    RequestBlame blame;
    REQUIRE(FindBlame(index, request, &blame).ok());
    CHECK(blame.blame.Total() == 100 * kMs);
    return blame;
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

TEST_CASE("recorded calls decide, not the counters of the GPU", "[gpu_use]") {
  Server server;
  server.maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
  server.maker.Call(1, "cudaLaunchKernel", 111 * kMs, 1 * kMs, {kNone, server.batch});
  server.maker.Gpu(0, GpuKind::kKernel, "gemm", 112 * kMs, 5 * kMs, 0);
  server.Sampled({{0, 1}, {900, 0}});
  server.Active({{0, 100}});

  CHECK(server.Walk().blame[Blame::kHostOncpuFramework] == 79 * kMs);
}

TEST_CASE("with several sampled devices the request's is not known, and code stays code", "[gpu_use]") {
  Server server;
  server.maker.trace.devices.push_back({1});
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
