// SPDX-License-Identifier: Apache-2.0
//
// Analyzers of how work is put on streams: each on a fault and on what looks like it.
#include <catch2/catch.hpp>
#include <string>

#include "analyze/gpu_trace.h"

namespace pitot::test {

using model::GpuKind;
using model::kNone;

namespace {

// Two workers, each with a request whose kernels of 300 us come every ms; the second one's are launched while the
// first one's run.
struct TwoWorkers {
  bool one_stream = false, by_requests = true, are_small = true, are_late = false, run_beside = false;
  int64_t shift_us = 0;
  bool reversed = false;  // the threads' order
  analyze::AnalysisReport Run() const {
    GpuTrace made(10'000 + shift_us);
    made.trace.window_begin_ns = 1000 * shift_us;
    model::DeviceRow& device = made.trace.devices[0];
    device.multiprocessors = 132;
    device.threads_per_multiprocessor = 2048;
    device.blocks_per_multiprocessor = 32;
    device.registers_per_multiprocessor = 65536;
    device.shared_bytes_per_multiprocessor = 233472;
    made.trace.requests.clear();
    const uint32_t first = made.Request(shift_us, 10'000), second = made.Request(shift_us, 10'000);
    std::vector<uint32_t> calls[2];
    for (const int worker : {reversed ? 1 : 0, reversed ? 0 : 1}) {
      if (worker != (reversed ? 1 : 0)) made.UseThread();
      if (by_requests) made.For(worker == 0 ? first : second);
      for (int64_t i = 0; i < 10; ++i)
        calls[worker].push_back(
            made.Call("cudaLaunchKernel", shift_us + 1000 * i + 10 * worker + (are_late && worker == 1 ? 300 : 0), 5));
    }
    model::KernelShape shape;
    shape.grid[0] = are_small ? 132 : 132 * 100;
    shape.block[0] = 256;
    shape.grid[1] = shape.grid[2] = shape.block[1] = shape.block[2] = 1;
    shape.registers_per_thread = 32;
    const auto kernel = [&](int worker, int64_t i) {
      const int64_t begin_us = shift_us + 1000 * i + 20 + (worker == 1 && !run_beside ? 300 : 0);
      made.Shape(made.Gpu(GpuKind::kKernel, "k", begin_us, 300, calls[worker][static_cast<size_t>(i)]), shape);
    };
    if (one_stream) {
      for (int64_t i = 0; i < 10; ++i) kernel(0, i), kernel(1, i);
    } else {
      for (int64_t i = 0; i < 10; ++i) kernel(0, i);
      made.UseStream(13);
      for (int64_t i = 0; i < 10; ++i) kernel(1, i);
    }
    return made.Run("a16");
  }
};

}  // namespace

TEST_CASE("a16 finds requests that wait for each other on one stream, and on two that never overlap", "[a16]") {
  for (const bool one_stream : {true, false}) {
    TwoWorkers workers;
    workers.one_stream = one_stream;
    const analyze::AnalysisReport report = workers.Run();
    const std::optional<analyze::FindingRow> finding = Found(report, "a16.serialised_streams");
    REQUIRE(finding.has_value());
    CHECK(finding->cost_ns == 10 * 300'000);
    CHECK(finding->subject == (one_stream ? "GPU 0 stream 7" : "GPU 0 streams 7 and 13"));
    CHECK(finding->recommendation.find(one_stream ? "of its own" : "cudaStreamNonBlocking") != std::string::npos);
    CHECK_FALSE(finding->is_undetermined);
  }
}

TEST_CASE("a16 leaves work alone that fills the device, runs beside, or was launched late", "[a16]") {
  for (const bool one_stream : {true, false}) {
    TwoWorkers full, late;
    full.one_stream = late.one_stream = one_stream;
    full.are_small = false;
    late.are_late = true;
    CHECK(full.Run().analyzers[0].findings.empty());
    CHECK(late.Run().analyzers[0].findings.empty());
  }
  TwoWorkers beside;
  beside.run_beside = true;
  CHECK(beside.Run().analyzers[0].findings.empty());
}

TEST_CASE("a16 does not know whether threads' work depends on each other's", "[a16]") {
  TwoWorkers workers;
  workers.by_requests = false;
  const std::optional<analyze::FindingRow> finding = Found(workers.Run(), "a16.serialised_streams");
  REQUIRE(finding.has_value());
  CHECK(finding->is_undetermined);
  CHECK(finding->confidence < 0.5);
}

TEST_CASE("a16 finds the same later, and whatever the threads' order", "[a16]") {
  TwoWorkers workers, later, reversed;
  later.shift_us = 123'456;
  reversed.reversed = true;
  const auto cost_ns = [](const TwoWorkers& of) { return Found(of.Run(), "a16.serialised_streams")->cost_ns; };
  CHECK(cost_ns(later) == cost_ns(workers));
  CHECK(cost_ns(reversed) == cost_ns(workers));
}

}  // namespace pitot::test
