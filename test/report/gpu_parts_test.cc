// SPDX-License-Identifier: Apache-2.0
//
// The division of a request's time between host and GPUs.
#include "serialize/report_gpu_parts.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <string>

#include "report/incident_trace.h"

using namespace pitot;
using incident::kMs;
using model::kNone;
using report::GpuParts;

namespace {

constexpr uint32_t kSegment = 12, kSlow = 13;  // the batch's members

GpuParts PartsOf(const model::Trace& trace, uint32_t request = kSlow) {
  REQUIRE(model::FindInconsistency(trace) == "");
  const model::CoverageIndex coverage(trace);
  const GpuParts parts = report::GpuPartsIndex(trace, coverage).Of(request);
  const model::RequestRow& row = trace.requests[request];
  CHECK(parts.worked_ns + parts.launching_ns + parts.waiting_ns + parts.calling_ns + parts.neither_ns +
            parts.unknown_ns ==
        trace.RequestEnd(row) - row.begin_ns);
  return parts;
}

// A trace without losses.
model::Trace MakeWholeTrace() {
  model::Trace trace = incident::MakeGpuTrace();
  trace.depths = {{trace.window_begin_ns, trace.window_end_ns, Depth::kKernels}};
  trace.gpu_losses.clear();
  trace.losses.clear();
  return trace;
}

// The sum of the whole us in a text.
int64_t SumOfUs(const std::string& text) {
  int64_t sum = 0, number = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] >= '0' && text[at] <= '9') number = 10 * number + (text[at] - '0');
    if (text.compare(at, 3, " us") == 0) sum += number, number = 0;
  }
  return sum;
}

}  // namespace

TEST_CASE("a completely recorded request's time is GPU work, launching, waiting, or neither", "[report]") {
  const GpuParts parts = PartsOf(MakeWholeTrace());

  CHECK(parts.worked_ns == 13'100'000);  // 13 ms of kernels on two streams, and the copy
  CHECK(parts.launching_ns == 5'000);    // the kernel's call
  CHECK(parts.waiting_ns == 520'000);    // 0.5 ms of a 12.5 ms wait, after the last kernel; and the copy's call
  CHECK(parts.calling_ns == 0);
  CHECK(parts.unknown_ns == 1000);  // an unattributed memset
  CHECK(parts.neither_ns == 41'300'000 - 13'100'000 - 5'000 - 520'000 - 1000);
}

TEST_CASE("a call for a copy of pageable memory is a wait, not a launch, even if asynchronous", "[report]") {
  model::Trace trace = MakeWholeTrace();
  const GpuParts of_pageable = PartsOf(trace);
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.kind[row] == model::GpuKind::kMemcpy) trace.gpu.name[row] = trace.strings.Add("pinned to device");
  }

  const GpuParts of_pinned = PartsOf(trace);

  CHECK(of_pinned.launching_ns == of_pageable.launching_ns + 20'000);
  CHECK(of_pinned.waiting_ns == of_pageable.waiting_ns - 20'000);
}

TEST_CASE("only the recorded work of an incomplete recording is known", "[report]") {
  model::Trace trace = incident::MakeGpuTrace();  // graphs until 640 ms, lost until 650 ms

  const GpuParts parts = PartsOf(trace);

  CHECK(parts.worked_ns == 13'100'000);
  CHECK(parts.launching_ns + parts.waiting_ns == 0);
  CHECK(parts.neither_ns == 1'299'000);

  trace.depths.clear();
  trace.gpu_losses.clear();
  CHECK(PartsOf(trace).neither_ns == 0);
  CHECK(PartsOf(trace).unknown_ns == 41'300'000 - 13'100'000);
}

TEST_CASE("time in which any thread lost events is unknown, and a graph with gaps is not work", "[report]") {
  model::Trace trace = MakeWholeTrace();
  trace.losses = {{3, model::LossReason::kOverwritten, trace.window_begin_ns, trace.window_begin_ns + 636 * kMs, 1, 0}};
  CHECK(PartsOf(trace).launching_ns == 0);
  CHECK(PartsOf(trace).waiting_ns == 500'000);

  trace = MakeWholeTrace();
  for (model::GpuKind& kind : trace.gpu.kind) kind = model::GpuKind::kGraph;
  CHECK(PartsOf(trace).worked_ns == 0);
  CHECK(PartsOf(trace).unknown_ns >= 13'100'000 - 25'000);
}

TEST_CASE("losses and unattributed work of a device count only against requests that used it", "[report]") {
  model::Trace trace = MakeWholeTrace();
  const GpuParts whole = PartsOf(trace);
  const auto lose = [&](uint32_t device) {
    trace.gpu_losses = {
        {kNone, trace.strings.Add("overwritten"), trace.window_begin_ns, trace.window_end_ns, 7, device}};
  };
  const auto is_whole = [&] {
    const GpuParts parts = PartsOf(trace);
    return parts.launching_ns == whole.launching_ns && parts.waiting_ns == whole.waiting_ns &&
           parts.unknown_ns == whole.unknown_ns;
  };
  lose(1);
  CHECK(is_whole());
  SECTION("its own device") {
    lose(0);
    CHECK(PartsOf(trace).unknown_ns == 41'300'000 - 13'100'000);
  }
  SECTION("an unknown device") {
    lose(kNone);
    CHECK(PartsOf(trace).unknown_ns == 41'300'000 - 13'100'000);
  }
  SECTION("a device that one of its calls may have used, without recorded work") {
    trace.calls.batch[3] = 0;
    trace.calls.name[3] = trace.strings.Add("cudaLaunchKernel");
    CHECK_FALSE(is_whole());
  }
  SECTION("a device it used outside of batches") {
    trace.calls.batch[1] = kNone;
    trace.calls.request[1] = kSlow;
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
      if (trace.gpu.call[row] == 1) trace.streams[trace.gpu.stream[row]].device = 1;
    }
    CHECK(PartsOf(trace).unknown_ns > 20'000'000);
  }
  SECTION("unattributed work") {
    trace.gpu_losses.clear();
    trace.streams[1].device = 1;  // also has a kernel of its batch
    CHECK(PartsOf(trace).unknown_ns == 1000);
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
      if (trace.gpu.stream[row] == 1) trace.gpu.call[row] = kNone;
    }
    CHECK(PartsOf(trace).unknown_ns == 0);
  }
}

TEST_CASE("a request has no share in its batch's work before it joined, and a blocking copy is a wait", "[report]") {
  model::Trace trace = MakeWholeTrace();
  trace.members[1].join_ns = trace.window_begin_ns + 640 * kMs;
  trace.calls.name[0] = trace.strings.Add("cudaMemcpy");

  const GpuParts late = PartsOf(trace), early = PartsOf(trace, kSegment);

  CHECK(late.worked_ns == 9'000'000);
  CHECK(late.launching_ns == 0);
  CHECK(early.worked_ns == 13'100'000);
  CHECK(early.launching_ns == 5000);
  CHECK(early.waiting_ns == 520'000);
}

TEST_CASE("calls of CUDA that neither launch nor wait are a separate part", "[report]") {
  model::Trace trace = MakeWholeTrace();
  trace.calls.name[1] = trace.strings.Add("cudaMalloc");
  const model::CoverageIndex coverage(trace);

  CHECK(PartsOf(trace).calling_ns == 5000);
  CHECK(report::GpuPartsIndex(trace, coverage).Text(kSlow) ==
        "GPUs worked for it 13,100 us; otherwise launching 0 us, waiting for GPUs 520 us, in other CUDA calls 5 us, "
        "neither 27,674 us, not known 1 us");
}

TEST_CASE("whole us add up for any ns", "[report]") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round) {
    model::Trace trace = MakeWholeTrace();
    for (int64_t& duration_ns : trace.gpu.duration_ns) duration_ns -= static_cast<int64_t>(random() % 900);
    for (int64_t& duration_ns : trace.calls.duration_ns) duration_ns -= static_cast<int64_t>(random() % 900);
    const model::CoverageIndex coverage(trace);
    PartsOf(trace);
    CHECK(SumOfUs(report::GpuPartsIndex(trace, coverage).Text(kSlow)) == 41'300);
  }
}

TEST_CASE("a request without known calls or GPU work has no text", "[report]") {
  const model::Trace trace = MakeWholeTrace();
  const model::CoverageIndex coverage(trace);
  CHECK(report::GpuPartsIndex(trace, coverage).Text(0) == "");
}
