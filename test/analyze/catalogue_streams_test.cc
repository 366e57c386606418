// SPDX-License-Identifier: Apache-2.0
//
// Analyzers of how work is put on streams: each on a fault and on what looks like it.
#include <catch2/catch.hpp>
#include <string>

#include "analyze/gpu_trace.h"
#include "analyze/replay.h"
#include "serialize/sample_trace.h"

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

namespace {

// A step launches two kernels, waits for them, and computes for a while.
GpuTrace Steps(int64_t kernel_us, int64_t host_us) {
  const int64_t step_us = 20 + 2 * kernel_us + 10 + host_us;
  GpuTrace made(10 * step_us);
  for (int64_t i = 0; i < 10; ++i) {
    const int64_t at_us = i * step_us;
    const uint32_t first = made.Call("cudaLaunchKernel", at_us, 5),
                   second = made.Call("cudaLaunchKernel", at_us + 5, 5);
    made.Call("cudaStreamSynchronize", at_us + 10, 20 + 2 * kernel_us);
    made.Gpu(GpuKind::kKernel, "_Z5firstv", at_us + 20, kernel_us, first);
    made.Gpu(GpuKind::kKernel, "_Z6secondv", at_us + 20 + kernel_us, kernel_us, second);
  }
  return made;
}

}  // namespace

TEST_CASE("a17 finds the path: kernels where they are long, code where they are short", "[a17]") {
  const analyze::AnalysisReport gpu = Steps(200, 30).Run("a17"), host = Steps(10, 300).Run("a17");

  CHECK(Measured(gpu, "path_compute") == 10 * 400);
  CHECK(Measured(gpu, "path_launch") == 10 * 20);
  CHECK(Measured(gpu, "path_return") == 10 * 10);
  CHECK(Measured(gpu, "path_host") == 9 * 30);
  CHECK(Measured(gpu, "path_end") == 30);
  CHECK(Measured(gpu, "saved_without_compute") == 10 * 400);
  CHECK(Measured(gpu, "saved_at_half", "first") == 10 * 100);
  REQUIRE(Found(gpu, "a17.critical_path").has_value());
  CHECK(Found(gpu, "a17.critical_path")->summary.find("compute") != std::string::npos);
  CHECK(Found(gpu, "a17.critical_path")->evidence.size() == 5);
  REQUIRE(Found(host, "a17.critical_path").has_value());
  CHECK(Found(host, "a17.critical_path")->summary.find("code between calls") != std::string::npos);
  CHECK(Found(host, "a17.critical_path")->cost_ns == 9 * 300'000);
}

TEST_CASE("a17 says what is saved by playing again: what is hidden saves nothing", "[a17]") {
  // A copy on another stream, that ends while the kernels still run; what is on the path saves as far as the copy.
  GpuTrace made(1000);
  const uint32_t kernel = made.Call("cudaLaunchKernel", 0, 10), copy = made.Call("cudaMemcpyAsync", 10, 10);
  made.Call("cudaDeviceSynchronize", 20, 980);
  made.Gpu(GpuKind::kKernel, "_Z4gemmv", 20, 970, kernel);
  made.UseStream(13);
  made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", 30, 600, copy, 1 << 20);

  const analyze::AnalysisReport report = made.Run("a17");

  CHECK(Measured(report, "path_copies") == 0);
  CHECK(Measured(report, "path_compute") == 970);
  CHECK(Measured(report, "saved_without_compute") == 990 - 630);
}

TEST_CASE("a17 is not sure of a path through work whose calls are not known", "[a17]") {
  GpuTrace made = Steps(200, 30);
  made.trace.gpu.call[4] = kNone;
  const std::optional<analyze::FindingRow> finding = Found(made.Run("a17"), "a17.critical_path");
  REQUIRE(finding.has_value());
  CHECK(finding->is_undetermined);
  GpuTrace without(1000);
  without.Gpu(GpuKind::kKernel, "k", 0, 900, kNone);
  CHECK(without.Run("a17").analyzers[0].findings.empty());
}

TEST_CASE("a17 does not call it launching where one hole between a call and its work is most of it", "[a17]") {
  GpuTrace made(500'000);
  made.Launch("first", 0, 10, 20, 80);
  made.Launch("after the hole", 110, 10, 400'000, 100'000);
  const std::optional<analyze::FindingRow> finding = Found(made.Run("a17"), "a17.critical_path");
  REQUIRE(finding.has_value());
  CHECK(finding->is_undetermined);
  CHECK(finding->confidence < 0.5);
}

TEST_CASE("a window that is played again as it was takes as long, and its path adds up to it", "[a17]") {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    const model::Trace trace = RandomTrace(seed, 20 + 3 * seed);
    const model::Indexes indexes(trace);
    analyze::Replay replay(trace, indexes);
    const int64_t window_ns = trace.window_end_ns - trace.window_begin_ns;
    CHECK(replay.Run({}) == window_ns);
    const analyze::Path path = replay.FindPath();
    int64_t sum_ns = 0;
    for (const int64_t ns : path.ns) {
      CHECK(ns >= 0);
      sum_ns += ns;
    }
    CHECK(sum_ns == window_ns);
    for (uint32_t k = 0; k < analyze::kPathClasses; ++k) {
      analyze::Pace pace;
      pace.of[k] = 0;
      CHECK(replay.Run(pace) <= window_ns);
    }
  }
}

}  // namespace pitot::test
