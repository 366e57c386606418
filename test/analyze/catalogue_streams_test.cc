// SPDX-License-Identifier: Apache-2.0
//
// Analyzers of work on streams: each on a fault and on a harmless trace that looks like it.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>

#include "analyze/facts/replay.h"
#include "analyze/facts/scaling_law.h"
#include "analyze/gpu_trace.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using model::GpuKind;
using model::kNone;

namespace {

// Two workers, each with a request and kernels of 300 us every ms. The second one's are launched while the first one's
// run.
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

TEST_CASE("a16 ignores work that fills the device, runs at the same time, or was launched late", "[a16]") {
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

TEST_CASE("a16 is undecided about the work of different threads without requests", "[a16]") {
  TwoWorkers workers;
  workers.by_requests = false;
  const std::optional<analyze::FindingRow> finding = Found(workers.Run(), "a16.serialised_streams");
  REQUIRE(finding.has_value());
  CHECK(finding->is_undetermined);
  CHECK(finding->confidence < 0.5);
}

TEST_CASE("a16 finds the same in a shifted trace, and in any order of threads", "[a16]") {
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

// Batches of 1 to 32 requests, ten of each; a batch's time depends on its size, a little more or less.
analyze::AnalysisReport Batches(const std::function<double(double)>& us, uint32_t most = 32, int64_t shift_us = 0) {
  GpuTrace made(1'000'000 + shift_us);
  int64_t at_us = shift_us;
  for (int64_t i = 0; i < 10; ++i) {
    for (uint32_t size = 1; size <= most; size *= 2) {
      const auto took_us = static_cast<int64_t>(us(size)) + (i * 7 + size) % 5;
      made.Batch("unet", at_us, took_us, size);
      at_us += took_us + 10;
    }
  }
  REQUIRE(at_us < 1'000'000 + shift_us);
  return made.Run("a15");
}

}  // namespace

TEST_CASE("the scalability law is recovered from its own times, but not from too few sizes", "[a15]") {
  const facts::ScalingLaw made = {1000, 0.2, 0.01};
  std::map<uint32_t, std::vector<double>> times;
  for (const uint32_t n : {1, 2, 4, 8, 16}) times[n] = {made.TimeNs(n), made.TimeNs(n), 9 * made.TimeNs(n)};
  const facts::ScalingLaw found = facts::FitScaling(times);
  CHECK(found.one_ns == Approx(1000));
  CHECK(found.serial == Approx(0.2));
  CHECK(found.crosstalk == Approx(0.01));
  CHECK(found.Peak() == Approx(std::sqrt(80)));
  std::map<uint32_t, std::vector<double>> two = {{1, {1000}}, {2, {1500}}};
  CHECK(facts::FitScaling(two).one_ns == 0);
  std::map<uint32_t, std::vector<double>> falling = {{1, {1000}}, {2, {900}}, {4, {700}}};
  CHECK(facts::FitScaling(falling).serial == 0);
}

TEST_CASE("a15 finds batches that do one request after another, and batches that are too large", "[a15]") {
  const analyze::AnalysisReport serial = Batches([](double n) { return 200 + 200 * (n - 1); });
  CHECK(Measured(serial, "serial") == Approx(1).epsilon(0.05));
  REQUIRE(Found(serial, "a15.serial").has_value());
  CHECK(Found(serial, "a15.serial")->subject == "executor unet");

  const auto crosstalk = [](double n) { return 500 + 10 * (n - 1) + 5 * n * (n - 1); };
  const std::optional<analyze::FindingRow> finding = Found(Batches(crosstalk), "a15.crosstalk");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(10 / 1'040.0 / (32 / 5'770.0) - 1).epsilon(0.05));  // 10 next to 32
  CHECK(finding->threshold.source == "model_analyzer");
  CHECK(Found(Batches(crosstalk, 32, 777), "a15.crosstalk")->value == finding->value);
}

TEST_CASE("a15 ignores batches that bring enough, and sizes too alike to tell", "[a15]") {
  CHECK(Batches([](double n) { return 1000 + 20 * (n - 1); }).analyzers[0].findings.empty());
  CHECK(Batches([](double n) { return 200 + 200 * (n - 1); }, 2).analyzers[0].findings.empty());
}

TEST_CASE("a15 advises smaller batches only where they bring something, of sizes seen often enough", "[a15]") {
  // Most throughput at 24; 32 have 98 % of it.
  const auto slight = [](double n) { return 500 + 60 * (n - 1) + 0.75 * n * (n - 1); };
  const analyze::AnalysisReport report = Batches(slight);
  CHECK(Measured(report, "best_size") == Approx(24).margin(1));
  CHECK(Measured(report, "gain_of_best_size") < 0.05);
  CHECK_FALSE(Found(report, "a15.crosstalk").has_value());
  // One long batch of 32 proves nothing about batches of 32.
  GpuTrace made(1'000'000);
  for (int64_t i = 0; i < 30; ++i) made.Batch("unet", i * 2'000, 1'000 + 20 * (1 << i % 4), 1u << i % 4);
  made.Batch("unet", 80'000, 300'000, 32);
  CHECK(made.Run("a15").analyzers[0].findings.empty());
}

TEST_CASE("a15 does not count a batch's wait for members as work", "[a15]") {
  GpuTrace made(1'000'000);
  int64_t at_us = 0;
  for (int64_t i = 0; i < 60; ++i) {
    const uint32_t size = 1u << i % 6;
    const int64_t waits_us = 50 * size * size, works_us = 1'000 + 20 * size;
    const uint32_t batch = made.Batch("unet", at_us, waits_us + works_us, size);
    const uint32_t wait = made.Event(SiteKind::kWait, "batch member", at_us, waits_us),
                   work = made.Event(SiteKind::kScope, "forward", at_us + waits_us, works_us);
    made.trace.events.batch[wait] = made.trace.events.batch[work] = batch;
    at_us += waits_us + works_us + 10;
  }
  made.trace.window_end_ns = at_us * 1000;
  const analyze::AnalysisReport report = made.Run("a15");
  CHECK(Measured(report, "serial") < 0.1);
  CHECK(report.analyzers[0].findings.empty());
}

TEST_CASE("a15 reports the limit set by communication, and claims nothing about other numbers of GPUs", "[a15]") {
  const auto run = [](int64_t communication_us) {
    GpuTrace made(1000);
    made.Gpu(GpuKind::kKernel, "gemm", 0, 700, kNone);
    made.UseStream(13);
    made.Gpu(GpuKind::kKernel, "ncclKernel_AllReduce", 600, 100 + communication_us, kNone);
    return made.Run("a15");
  };
  const std::optional<analyze::FindingRow> finding = Found(run(300), "a15.communication");
  REQUIRE(finding.has_value());
  CHECK(finding->is_undetermined);
  CHECK(finding->value == Approx(0.3));
  CHECK(run(10).analyzers[0].findings.empty());
}

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

TEST_CASE("a17 calls nothing a bottleneck if another way is nearly as long", "[a17]") {
  // Nobody waits for the kernels. They take 98 of each 100 us, as long as the code between their launches.
  GpuTrace made(2000);
  for (int64_t i = 0; i < 20; ++i)
    made.Gpu(GpuKind::kKernel, "_Z4gemmv", i * 100 + 1, 98, made.Call("cudaLaunchKernel", i * 100, 1));
  made.Call("cudaGetDevice", 1999, 1);

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a17"), "a17.critical_path");

  REQUIRE(finding.has_value());
  CHECK(finding->summary.find("code between calls") != std::string::npos);
  CHECK(finding->cost_ns < 100'000);
  CHECK(finding->recommendation.find("bottleneck") == std::string::npos);
}

TEST_CASE("a17 computes savings by playing again: hidden work saves nothing", "[a17]") {
  // A copy on another stream that ends while the kernels still run. Work on the path saves time down to the copy.
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

TEST_CASE("a17 does not call time without requests code between calls", "[a17]") {
  // Ten requests of 500 us, one every 10 ms: 100 us of code, then a kernel of 300 us and a wait for it.
  const auto make = [] {
    GpuTrace made(100'000);
    for (int64_t at_us = 0; at_us < 100'000; at_us += 10'000) {
      const uint32_t call = made.Call("cudaLaunchKernel", at_us + 100, 5);
      made.Call("cudaStreamSynchronize", at_us + 110, 300);
      made.Gpu(GpuKind::kKernel, "_Z4gemmv", at_us + 110, 290, call);
    }
    return made;
  };
  GpuTrace asked = make();
  for (int64_t at_us = 0; at_us < 100'000; at_us += 10'000) asked.Request(at_us, 500);
  const analyze::AnalysisReport report = asked.Run("a17"), without = make().Run("a17");

  CHECK(Measured(report, "path_no_request") == 10 * 9'500);
  CHECK(Measured(report, "path_host") == 10 * 100 + 9 * 90);  // from the wait to the request's end, too
  CHECK(Measured(report, "path_compute") == 10 * 290);
  CHECK(Measured(report, "path_end") == 90);
  CHECK(Measured(report, "saved_without_host") == 10 * 100 + 9 * 90);
  CHECK(Measured(report, "saved_without_compute") == 10 * 290);
  const std::optional<analyze::FindingRow> finding = Found(report, "a17.critical_path");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(2'900 / 5'000.0));
  CHECK(finding->cost_ns == 2'900'000);
  CHECK(finding->summary.find("with open requests, 58.0 %, was compute") != std::string::npos);

  CHECK(Measured(without, "path_no_request") == 0);
  CHECK(Found(without, "a17.critical_path")->cost_ns == 10 * 100'000 + 9 * 9'590'000);
}

TEST_CASE("a17 does not call calls and launches slow for outlasting a time without requests", "[a17]") {
  const auto run = [](const char* of, const auto& make) {
    INFO(of);
    GpuTrace made(1000);
    made.Request(0, 100);
    made.Request(900, 100);
    made.Launch("_Z1kv", 0, 5, 10, 50);
    make(&made);
    const analyze::AnalysisReport report = made.Run("a17");
    CHECK(Measured(report, std::string("path_") + of) < 300);
    CHECK(Measured(report, std::string("saved_without_") + of) < 300);
    CHECK(Measured(report, "saved_without_waits") < 300);
    CHECK(Measured(report, "path_no_request") == 800);
  };
  run("api", [](GpuTrace* made) { made->Call("cudaEventQuery", 20, 980); });
  run("return", [](GpuTrace* made) { made->Call("cudaStreamSynchronize", 20, 980); });
  run("launch", [](GpuTrace* made) { made->Launch("_Z1kv", 70, 5, 950, 50); });
  run("dispatch", [](GpuTrace* made) { made->Gpu(GpuKind::kKernel, "_Z1kv", 950, 50, kNone); });
}

TEST_CASE("a17 is not sure of a path through work with unknown calls", "[a17]") {
  GpuTrace made = Steps(200, 30);
  made.trace.gpu.call[4] = kNone;
  const std::optional<analyze::FindingRow> finding = Found(made.Run("a17"), "a17.critical_path");
  REQUIRE(finding.has_value());
  CHECK(finding->is_undetermined);
  GpuTrace without(1000);
  without.Gpu(GpuKind::kKernel, "k", 0, 900, kNone);
  CHECK(without.Run("a17").analyzers[0].findings.empty());
}

TEST_CASE("a17 does not call it launching if one hole between a call and its work is most of it", "[a17]") {
  GpuTrace made(500'000);
  made.Launch("first", 0, 10, 20, 80);
  made.Launch("after the hole", 110, 10, 400'000, 100'000);
  const std::optional<analyze::FindingRow> finding = Found(made.Run("a17"), "a17.critical_path");
  REQUIRE(finding.has_value());
  CHECK(finding->is_undetermined);
  CHECK(finding->confidence < 0.5);
}

TEST_CASE("an unchanged replay of a window takes as long, and its path adds up to it", "[a17]") {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    const model::Trace trace = RandomTrace(seed, 20 + 3 * seed);
    const model::Indexes indexes(trace);
    facts::Replay replay(trace, indexes);
    const int64_t window_ns = trace.window_end_ns - trace.window_begin_ns;
    CHECK(replay.Run({}) == window_ns);
    const facts::Path path = replay.FindPath();
    int64_t sum_ns = 0;
    for (const int64_t ns : path.ns) {
      CHECK(ns >= 0);
      sum_ns += ns;
    }
    CHECK(sum_ns == window_ns);
    for (uint32_t k = 0; k < facts::kPathClasses; ++k) {
      facts::Pace pace;
      pace.of[k] = 0;
      CHECK(replay.Run(pace) <= window_ns);
    }
  }
}

}  // namespace pitot::test
