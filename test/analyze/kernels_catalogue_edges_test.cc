// SPDX-License-Identifier: Apache-2.0
//
// Where findings of the catalogue begin and end: streams, kernels, frameworks, memory, clocks and the host (a15 to
// a27), at their edges.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "analyze/catalogue_edges.h"
#include "base/host_counters.h"

namespace pitot::test {

using model::GpuKind;
using model::kNone;

namespace {

constexpr uint64_t kMiB = 1 << 20;

analyze::AnalyzeOptions With(const std::string& threshold, double value) {
  analyze::AnalyzeOptions options;
  options.thresholds = {{threshold, value}};
  return options;
}

// ---- a15

// `count` batches, in turn of each of these sizes; a batch's time depends on its size alone.
GpuTrace Batches(int count, const std::vector<uint32_t>& sizes, const std::function<double(double)>& us) {
  GpuTrace made(1'000'000);
  int64_t at_us = 0;
  for (int i = 0; i < count; ++i) {
    const uint32_t size = sizes[static_cast<size_t>(i) % sizes.size()];
    const auto took_us = static_cast<int64_t>(us(size));
    made.Batch("unet", at_us, took_us, size);
    at_us += took_us + 10;
  }
  made.trace.window_end_ns = at_us * 1000;
  return made;
}
double OneAfterAnother(double n) { return 200 * n; }

}  // namespace

TEST_CASE("a15 judges executors with enough batches of enough sizes", "[a15]") {
  const GpuTrace made = Batches(30, {1, 2, 4, 8, 16, 32}, OneAfterAnother);
  const std::optional<analyze::FindingRow> finding = Found(made.Run("a15"), "a15.serial");

  CheckFinding(finding, Severity::kMedium, 0.8, 0, 5);
  CHECK(finding->value == Approx(1));
  CHECK(finding->evidence[0].end_ns - finding->evidence[0].begin_ns == 32 * 200'000);
  CheckEdge(made, "a15.serial", "least_batches", Edge::kFrom, 30);
  CheckEdge(made, "a15.serial", "least_of_size", Edge::kFrom, 5);
  CHECK(FoundWith(made, "a15.serial", "serial", 0.9).has_value());
  CHECK_FALSE(FoundWith(made, "a15.serial", "serial", 1.1).has_value());
}

TEST_CASE("a15 compares sizes from one to twice another on", "[a15]") {
  CHECK(Found(Batches(60, {4, 6, 8}, OneAfterAnother).Run("a15"), "a15.serial").has_value());
  CHECK(Batches(60, {4, 5, 7}, OneAfterAnother).Run("a15").analyzers[0].measures.empty());
}

TEST_CASE("a15 measures what more at once brings", "[a15]") {
  const analyze::AnalysisReport report =
      Batches(60, {1, 2, 4, 8, 16, 32}, [](double n) { return 1000 * (1 + 0.25 * (n - 1)); }).Run("a15");
  const analyze::AnalysisReport crosstalk =
      Batches(60, {1, 2, 4, 8, 16, 32}, [](double n) { return 1000 * (1 + 0.01 * n * (n - 1)); }).Run("a15");

  CHECK(Measured(report, "serial") == Approx(0.25).epsilon(0.01));
  CHECK(Measured(report, "crosstalk") == Approx(0).margin(0.001));
  CHECK(Measured(report, "throughput_of_largest_to_one") == Approx(32 / (1 + 0.25 * 31)).epsilon(0.01));
  CHECK(report.analyzers[0].findings.empty());  // each adds less than half
  CHECK(Measured(crosstalk, "crosstalk") == Approx(0.01).epsilon(0.05));
  CHECK(Measured(crosstalk, "best_size") == Approx(10).margin(1));
  // 10 have 10 / 1.9, and 32 have 32 / 10.92 of the throughput of one.
  CHECK(Measured(crosstalk, "gain_of_best_size") == Approx(10 / 1.9 / (32 / 10.92) - 1).epsilon(0.05));
  CheckFinding(Found(crosstalk, "a15.crosstalk"), Severity::kMedium, 0.8, 0, 5);
}

TEST_CASE("a15 finds exposed communication from its threshold on, without being sure", "[a15]") {
  GpuTrace made(1000);
  made.Launch("gemm", 0, 5, 10, 500);
  made.UseStream(13);
  made.Gpu(GpuKind::kKernel, "ncclKernel_AllReduce", 410, 350, made.Call("cudaLaunchKernel", 10, 5));

  const analyze::AnalysisReport report = made.Run("a15");

  CHECK(Measured(report, "efficiency_at_most") == Approx(500.0 / 750));
  const std::optional<analyze::FindingRow> finding = Found(report, "a15.communication");
  CheckFinding(finding, Severity::kMedium, 0.4, 250, 1, true);
  CheckEdge(made, "a15.communication", "communication_share", Edge::kFrom);
  CheckSeverities(made, "a15.communication", "communication_share");
}

// ---- a16

namespace {

// Every ms a kernel of the first request, and one of the second, launched with the first and begun `gap_us` after it.
// Both fit on the device.
GpuTrace InLine(int64_t gap_us, bool one_stream = true, bool by_requests = true) {
  GpuTrace made(10'000);
  IsGpu(&made, 132);
  const uint32_t first = made.Request(0, 10'000), second = made.Request(0, 10'000);
  std::vector<uint32_t> calls[2];
  for (const uint32_t worker : {0u, 1u}) {
    if (worker == 1) made.UseThread();
    if (by_requests) made.For(worker == 0 ? first : second);
    for (int64_t i = 0; i < 10; ++i) calls[worker].push_back(made.Call("cudaLaunchKernel", 1000 * i, 5));
  }
  const auto kernel = [&](uint32_t worker, int64_t i, int64_t begin_us) {
    made.Shape(made.Gpu(GpuKind::kKernel, "k", begin_us, 300, calls[worker][static_cast<size_t>(i)]), Shape(132, 256));
  };
  for (int64_t i = 0; i < 10; ++i) {
    kernel(0, i, 1000 * i + 20);
    if (one_stream) kernel(1, i, 1000 * i + 320 + gap_us);
  }
  if (!one_stream) {
    made.UseStream(13);
    for (int64_t i = 0; i < 10; ++i) kernel(1, i, 1000 * i + 320 + gap_us);
  }
  return made;
}
const char* const kInLine = "a16.serialised_streams";

}  // namespace

TEST_CASE("a16 finds work that waited in line from its threshold on", "[a16]") {
  const GpuTrace made = InLine(0);
  const analyze::AnalysisReport report = made.Run("a16");

  CHECK(Measured(report, "waited") == 3000);
  CHECK(Measured(report, "waits") == 10);
  const std::optional<analyze::FindingRow> finding = Found(report, kInLine);
  CheckFinding(finding, Severity::kMedium, 0.85, 3000, 5);
  CHECK(IsEvidence(finding->evidence[0], 1, 20, 320));
  CheckEdge(made, kInLine, "waited_share", Edge::kFrom);
  CheckSeverities(made, kInLine, "waited_share", 2);
  CheckFinding(Found(InLine(0, false).Run("a16"), kInLine), Severity::kMedium, 0.7, 3000, 5);
  CheckFinding(Found(InLine(0, true, false).Run("a16"), kInLine), Severity::kLow, 0.4, 3000, 5, true);
}

TEST_CASE("a16 takes work as waiting if it began at most the handover after the other's end", "[a16]") {
  CHECK(Found(InLine(20).Run("a16"), kInLine)->cost_ns == 10 * 320'000);
  CHECK(InLine(21).Run("a16").analyzers[0].findings.empty());
}

TEST_CASE("a16 counts work as held up from its own request's last work on", "[a16]") {
  // The second request's work: until 100 us, and again from 320 us on.
  GpuTrace made(1000);
  IsGpu(&made, 132);
  const uint32_t first = made.Request(0, 1000), second = made.Request(0, 1000);
  made.For(first);
  const uint32_t others = made.Call("cudaLaunchKernel", 0, 5);
  made.UseThread();
  made.For(second);
  const uint32_t own = made.Call("cudaLaunchKernel", 1, 5), held_up = made.Call("cudaLaunchKernel", 6, 5);
  made.Shape(made.Gpu(GpuKind::kKernel, "k", 20, 300, others), Shape(132, 256));
  made.Shape(made.Gpu(GpuKind::kKernel, "k", 320, 100, held_up), Shape(132, 256));
  made.UseStream(13);
  made.Shape(made.Gpu(GpuKind::kKernel, "k", 10, 90, own), Shape(132, 256));

  CHECK(Measured(made.Run("a16"), "waited", "GPU 0 stream 7") == 220);
}

TEST_CASE("a16 takes copies the same way as in each other's way, and no others", "[a16]") {
  const auto is_found = [](const char* first, const char* second) {
    GpuTrace made(1000);
    IsGpu(&made, 132);
    std::vector<uint32_t> calls;
    for (const char* const name : {first, second}) {
      static_cast<void>(name);
      made.For(made.Request(0, 1000));
      calls.push_back(made.Call("cudaLaunchKernel", 0, 0));
    }
    int64_t at_us = 20;
    for (const char* const name : {first, second}) {
      const bool is_copy = std::string(name) != "k";
      const uint32_t row =
          made.Gpu(is_copy ? GpuKind::kMemcpy : GpuKind::kKernel, name, at_us, 300, calls[at_us == 20 ? 0 : 1], kMiB);
      if (!is_copy) made.Shape(row, Shape(132, 256));
      at_us += 300;
    }
    return !made.Run("a16").analyzers[0].findings.empty();
  };
  const char *const kUp = "HtoD, pinned to device", *const kDown = "DtoH, device to pinned";

  CHECK(is_found(kUp, kDown));
  CHECK(is_found(kUp, "k"));
  CHECK(is_found("k", kDown));
  CHECK(is_found("k", "k"));
  CHECK_FALSE(is_found(kUp, kUp));
}

TEST_CASE("a16 takes kernels as fitting beside each other up to all of the device", "[a16]") {
  // 8 blocks a multiprocessor are all of it.
  const auto is_found = [](uint32_t blocks) {
    GpuTrace made = InLine(0);
    for (model::KernelShape& shape : made.trace.shapes) shape = Shape(blocks, 256);
    return !made.Run("a16").analyzers[0].findings.empty();
  };

  CHECK(is_found(4 * 132));
  CHECK_FALSE(is_found(4 * 132 + 1));
}

// ---- a17

namespace {

// Ten steps: two kernels, a wait for them, and code for a while.
GpuTrace Steps(int64_t kernel_us, int64_t host_us) {
  const int64_t step_us = 30 + 2 * kernel_us + host_us;
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
const char* const kPath = "a17.critical_path";

}  // namespace

TEST_CASE("a17 finds a part of the path from its threshold on, and a bottleneck from its saving on", "[a17]") {
  const GpuTrace made = Steps(200, 30);
  const analyze::AnalysisReport report = made.Run("a17");
  const std::optional<analyze::FindingRow> finding = Found(report, kPath);

  CheckFinding(finding, Severity::kInfo, 0.8, 4000, 5);
  CHECK(finding->value == Approx(4000.0 / 4600));
  CHECK(finding->metric == "on the path / window");
  CHECK(Measured(report, "on_path", "first") == 2000);
  CheckEdge(made, kPath, "path_share", Edge::kFrom);
  const auto advice = [&](double saved_share) {
    return FoundWith(made, kPath, "saved_share", saved_share)->recommendation;
  };
  const double saved = 4000.0 / 4600;
  CHECK(advice(saved) == finding->recommendation);
  CHECK(advice(std::nextafter(saved, 1)) != finding->recommendation);
}

TEST_CASE("a17 is not sure if more than a share of the work has no call, or one launch is most of the path", "[a17]") {
  GpuTrace made = Steps(200, 30);
  made.trace.gpu.call[4] = kNone;
  const auto confidence = [&](double share) { return FoundWith(made, kPath, "unlinked_share", share)->confidence; };
  const double damaged = confidence(0.05) / 0.8;
  CHECK(confidence(std::nextafter(0.05, 0)) == Approx(0.4 * damaged));

  GpuTrace hole(100'000);
  hole.Launch("first", 0, 5, 10, 990);
  hole.Launch("b", 1010, 5, 61'010, 38'990);
  CheckFinding(Found(hole.Run("a17"), kPath), Severity::kInfo, 0.3, 60'000, 1, true);
  CHECK(FoundWith(hole, kPath, "launch_hole", 59'999'999)->is_undetermined);
  CHECK_FALSE(FoundWith(hole, kPath, "launch_hole", 60'000'000)->is_undetermined);
}

// ---- a18

namespace {

// An operator of 10^9 flop and 10^6 bytes in 100 us, next to 400 us of something else: 10^4 flop/ns and 10 bytes/ns.
GpuTrace Operator(int64_t us = 100) {
  GpuTrace made(10'000);
  IsGpu(&made);
  made.Event(SiteKind::kOperator, "aten::mm", 0, 50, {{"flops", 1'000'000'000}}, "500x250 f32, 250x300 f32");
  made.Launch("gemm", 10, 5, 100, us);
  made.Launch("other", 60, 5, 5000, 400);
  return made;
}
analyze::AnalyzeOptions Peaks(double flops, double bytes) {
  analyze::AnalyzeOptions options;
  options.thresholds = {{"a18.peak_flops", flops}, {"a18.peak_bandwidth", bytes}};
  return options;
}
constexpr double kBytes = 4 * (500 * 250 + 250 * 300 + 500 * 300);

}  // namespace

TEST_CASE("a18 finds an operator near its bound, or far from it, at its thresholds", "[a18]") {
  const GpuTrace made = Operator();
  const analyze::AnalyzeOptions near_peak = Peaks(12'500, 1000), far_from_peak = Peaks(100'000, 1000);
  const analyze::AnalysisReport report = made.Run("a18", near_peak);

  CHECK(Measured(report, "intensity") == Approx(1e9 / kBytes));
  CHECK(Measured(report, "efficiency") == Approx(0.8));
  CHECK(Measured(report, "compute_bound") == 100);
  CHECK(Measured(report, "memory_bound") == 0);
  CheckFinding(Found(report, "a18.compute_bound"), Severity::kInfo, 0.6, 0, 1);
  CheckEdge(made, "a18.compute_bound", "efficiency_high", Edge::kFrom, Found(report, "a18.compute_bound")->value,
            near_peak);
  CheckEdge(made, "a18.compute_bound", "op_share", Edge::kFrom, 0.2, near_peak);
  const std::optional<analyze::FindingRow> low = Found(made.Run("a18", far_from_peak), "a18.low_efficiency");
  CheckFinding(low, Severity::kLow, 0.6, 90, 1);
  CheckEdge(made, "a18.low_efficiency", "efficiency_low", Edge::kUpTo, low->value, far_from_peak);
}

TEST_CASE("a18 makes no claim about an operator more than a fifth above its bound", "[a18]") {
  CHECK(Found(Operator().Run("a18", Peaks(1e4 / 1.19, 1000)), "a18.compute_bound").has_value());
  CHECK_FALSE(Found(Operator().Run("a18", Peaks(1e4 / 1.21, 1000)), "a18.compute_bound").has_value());
}

TEST_CASE("a18 calls an operator bound by memory if its bytes take longer than its operations", "[a18]") {
  const double intensity = 1e9 / kBytes;  // flop a byte
  const analyze::AnalysisReport memory = Operator().Run("a18", Peaks(20'000, 19'000 / intensity)),
                                compute = Operator().Run("a18", Peaks(20'000, 21'000 / intensity));

  CHECK(Measured(memory, "memory_bound") == 100);
  CHECK(Measured(memory, "efficiency") == Approx(1e4 / 19'000));
  CHECK(Measured(compute, "compute_bound") == 100);
  CHECK(Measured(compute, "efficiency") == Approx(0.5));
}

TEST_CASE("a18 is surer with a known clock, which is the median over time", "[a18]") {
  GpuTrace made = Operator();
  model::DeviceRow& device = made.trace.devices[0];
  device.name = made.trace.strings.Add("NVIDIA H100 80GB HBM3");
  const uint32_t clock = made.Counter("GPU 0 (NVIDIA H100 80GB HBM3): SM clock", "MHz");
  made.Sample(clock, 0, 500);  // for two fifths of the time
  made.Sample(clock, 4000, 1000);
  made.Sample(clock, 6000, 2000);  // for two fifths
  const auto efficiency = [](const GpuTrace& trace) { return Measured(trace.Run("a18"), "efficiency"); };
  GpuTrace slow = made, fast = made;
  for (double& value : slow.trace.samples.value) value = 1000;
  for (double& value : fast.trace.samples.value) value = 2000;

  CHECK(efficiency(made) == Approx(efficiency(slow)));
  CHECK(efficiency(slow) == Approx(2 * efficiency(fast)));
  analyze::AnalyzeOptions low = With("a18.efficiency_low", 10);
  CHECK(Found(made.Run("a18", low), "a18.low_efficiency")->confidence == Approx(0.7));
}

TEST_CASE("a18 finds operators with unknown peaks if they are most, from its threshold on", "[a18]") {
  const GpuTrace made = Operator();

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a18"), "a18.unknown");

  CheckFinding(finding, Severity::kInfo, 0.3, 0, 0, true);
  CHECK(finding->value == Approx(0.2));
  CheckEdge(made, "a18.unknown", "op_share", Edge::kFrom);
  CHECK(Measured(made.Run("a18"), "bound_unknown") == 100);
}

// ---- a20

namespace {

// Ten launches of 100 us, one after another, on 132 multiprocessors with room for 8 blocks of 256 threads each.
GpuTrace Launched(uint32_t blocks, uint32_t threads, uint32_t registers = 32) {
  GpuTrace made(2000);
  IsGpu(&made, 132);
  for (int64_t i = 0; i < 10; ++i) {
    const uint32_t call = made.Call("cudaLaunchKernel", 100 * i, 0);
    made.Shape(made.Gpu(GpuKind::kKernel, "k", 100 * i, 100, call), Shape(blocks, threads, registers));
  }
  return made;
}

}  // namespace

TEST_CASE("a20 finds each waste of launch shapes from its threshold on", "[a20]") {
  const struct {
    const char *code, *measure;
    GpuTrace made;
    double share;
  } kinds[] = {{"a20.small_grid", "small_grid", Launched(33, 256), 0.75},
               {"a20.partial_warps", "partial_warps", Launched(132 * 64, 40), 24 / 64.0},
               {"a20.tail", "tail", Launched(1056 + 264, 256), 0.375}};
  for (const auto& [code, measure, made, share] : kinds) {
    INFO(code);
    const analyze::AnalysisReport report = made.Run("a20");
    CHECK(Measured(report, measure) == Approx(1000 * share));
    const std::optional<analyze::FindingRow> finding = Found(report, code);
    REQUIRE(finding.has_value());
    CHECK(finding->value == Approx(share));
    CHECK(finding->confidence == Approx(0.6));
    CHECK(finding->evidence.size() == 5);
    CheckEdge(made, code, "cost_share", Edge::kFrom);
  }
  CheckSeverities(kinds[0].made, "a20.small_grid", "cost_share", 2,
                  static_cast<double>(Found(kinds[0].made.Run("a20"), "a20.small_grid")->cost_ns) / 1e6);
}

TEST_CASE("a20 counts a tail after up to four waves, and none after whole ones", "[a20]") {
  const auto has_tail = [](uint32_t blocks) { return Launched(blocks, 256).Run("a20").Find("a20", "tail") != nullptr; };

  CHECK(has_tail(4 * 1056 + 1));
  CHECK_FALSE(has_tail(5 * 1056 + 1));
  CHECK_FALSE(has_tail(3 * 1056));
  CHECK_FALSE(has_tail(1055));
}

TEST_CASE("a20 finds low occupancy from its thresholds on, without a cost", "[a20]") {
  const GpuTrace made = Launched(10'560, 256, 255);
  const analyze::AnalysisReport report = made.Run("a20");

  CHECK(Measured(report, "low_occupancy") == 1000);
  const std::optional<analyze::FindingRow> finding = Found(report, "a20.low_occupancy");
  CheckFinding(finding, Severity::kInfo, 0.5, 0, 5);
  CheckEdge(made, "a20.low_occupancy", "low_occupancy_share", Edge::kFrom);
  // One block of 8 warps of 64.
  CHECK(FoundWith(made, "a20.low_occupancy", "occupancy_low", 0.126).has_value());
  CHECK_FALSE(FoundWith(made, "a20.low_occupancy", "occupancy_low", 0.125).has_value());
}

TEST_CASE("a20 looks at kernels that ran alone", "[a20]") {
  GpuTrace made = Launched(33, 256);
  made.UseStream(13);
  made.UseThread();
  made.Launch("other", 0, 0, 250, 100);  // beside the third and the fourth

  CHECK(Measured(made.Run("a20"), "small_grid") == 8 * 75);
}

// ---- a22

namespace {

// A copy of `bytes` to the host every 100 us, each followed by a wait.
GpuTrace Readbacks(uint64_t bytes, int count = 40) {
  GpuTrace made(10'000);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t call = made.Call("cudaMemcpyAsync", 100 * i, 5);
    made.Call("cudaStreamSynchronize", 100 * i + 5, 20);
    made.Gpu(GpuKind::kMemcpy, "DtoH, device to pinned", 100 * i + 10, 2, call, bytes);
  }
  return made;
}
// Requests of 900 us, one a ms. The first `calling` of them make a call of 50 us.
GpuTrace Calling(int count, int calling, const std::string& call) {
  GpuTrace made(1000 * count);
  for (int64_t i = 0; i < count; ++i) {
    made.For(made.Request(1000 * i, 900));
    made.Launch("k", 1000 * i, 5, 1000 * i + 10, 300);
    if (i < calling) made.Call(call, 1000 * i + 400, 50);
  }
  return made;
}

}  // namespace

TEST_CASE("a22 finds readbacks of single values: up to 8 bytes, often enough and long enough", "[a22]") {
  const GpuTrace made = Readbacks(8);

  CheckFinding(Found(made.Run("a22"), "a22.scalar_readback"), Severity::kMedium, 0.9, 1000, 5);
  CHECK(IsEvidence(Found(made.Run("a22"), "a22.scalar_readback")->evidence[0], 0, 0, 25));
  CheckEdge(made, "a22.scalar_readback", "readback_bytes", Edge::kUpTo, 8);
  CheckEdge(made, "a22.scalar_readback", "least", Edge::kFrom, 40);
  CheckEdge(made, "a22.scalar_readback", "readback_share", Edge::kFrom);
  CheckSeverities(made, "a22.scalar_readback", "readback_share", 5);
  CHECK(Readbacks(9).Run("a22").analyzers[0].findings.empty());
  CHECK(Measured(Readbacks(0).Run("a22"), "readbacks") == 0);
}

TEST_CASE("a22 takes a wait as one for a readback if it is the thread's next call", "[a22]") {
  GpuTrace made(1000);
  const uint32_t call = made.Call("cudaMemcpyAsync", 0, 5);
  made.UseThread();
  made.Call("cudaStreamSynchronize", 5, 20);
  made.Gpu(GpuKind::kMemcpy, "DtoH, device to pinned", 10, 2, call, 4);

  CHECK(Measured(made.Run("a22"), "readbacks") == 0);
}

TEST_CASE("a22 finds requests that free memory from half of them on, if there are enough", "[a22]") {
  const GpuTrace made = Calling(10, 6, "cuMemFree_v2");
  const std::optional<analyze::FindingRow> finding = Found(made.Run("a22"), "a22.empty_cache");

  CheckFinding(finding, Severity::kMedium, 0.85, 300, 5);
  CHECK(finding->value == Approx(0.6));
  CheckEdge(made, "a22.empty_cache", "emptying_share", Edge::kFrom);
  CheckEdge(made, "a22.empty_cache", "least_requests", Edge::kFrom, 10);
  CHECK_FALSE(Found(Calling(10, 10, "cudaMalloc").Run("a22"), "a22.empty_cache").has_value());
  CHECK(Found(Calling(10, 10, "hipFree").Run("a22"), "a22.empty_cache").has_value());
}

TEST_CASE("a22 finds dear patterns of operators from their thresholds on", "[a22]") {
  GpuTrace on_host(1000), copied(10'000), unaligned(1000), autograd(1000);
  on_host.Event(SiteKind::kOperator, "aten::softmax", 500, 100);
  on_host.Launch("gemm", 100, 5, 110, 300);
  for (int64_t i = 0; i < 20; ++i) {
    copied.Event(SiteKind::kOperator, "aten::zeros", 200 * i, 20);
    copied.Event(SiteKind::kOperator, "aten::to", 200 * i + 30, 50);
    copied.Gpu(GpuKind::kMemcpy, "HtoD, pageable to device", 200 * i + 50, 10,
               copied.Call("cudaMemcpyAsync", 200 * i + 40, 30), kMiB);
  }
  unaligned.Event(SiteKind::kOperator, "aten::mm", 0, 20, {}, "64x100 f16, 100x64 f16");
  unaligned.Launch("gemm", 5, 5, 20, 300);
  unaligned.Launch("other", 50, 5, 400, 100);
  autograd.For(autograd.Request(0, 900));
  autograd.Event(SiteKind::kOperator, "aten::linear", 100, 50, {{"sequence", 7}});
  autograd.Event(SiteKind::kOperator, "aten::relu", 200, 50, {{"sequence", UINT64_MAX}});
  autograd.Launch("k", 110, 5, 120, 500);

  CheckFinding(Found(on_host.Run("a22"), "a22.host_softmax"), Severity::kLow, 0.7, 100, 1);
  CheckEdge(on_host, "a22.host_softmax", "host_share", Edge::kFrom);
  CheckFinding(Found(copied.Run("a22"), "a22.extra_copy"), Severity::kLow, 0.8, 20 * 80, 5);
  CheckEdge(copied, "a22.extra_copy", "copied_share", Edge::kFrom);
  CheckEdge(copied, "a22.extra_copy", "least", Edge::kFrom, 20);
  CheckFinding(Found(unaligned.Run("a22"), "a22.unaligned_product"), Severity::kLow, 0.6, 300, 1);
  CHECK(Found(unaligned.Run("a22"), "a22.unaligned_product")->value == Approx(0.75));
  CheckEdge(unaligned, "a22.unaligned_product", "unaligned_share", Edge::kFrom);
  CheckFinding(Found(autograd.Run("a22"), "a22.autograd_on"), Severity::kLow, 0.9, 0, 1);
  CHECK(Measured(autograd.Run("a22"), "operators_under_autograd") == Approx(0.5));
  CheckEdge(autograd, "a22.autograd_on", "autograd_share", Edge::kFrom);
}

// ---- a23

namespace {

// Requests one a ms; each leaves as much behind.
GpuTrace Leaking(int count, uint64_t bytes) {
  GpuTrace made(1000 * count);
  const uint32_t counter = made.Counter("LibTorch allocated", "bytes");
  for (int i = 0; i < count; ++i) {
    made.Request(1000 * i, 900);
    made.Sample(counter, 1000 * i, static_cast<double>(900 * kMiB + bytes * static_cast<uint64_t>(i)));
  }
  return made;
}
GpuTrace Used(double used, double total) {
  GpuTrace made(1000);
  const uint32_t counter = made.Counter("GPU 0 (NVIDIA H100): memory used", "bytes");
  made.Sample(counter, 0, used / 2);
  made.Sample(counter, 400, used);
  made.Sample(counter, 600, used / 2);
  made.Sample(made.Counter("GPU 0 (NVIDIA H100): memory total", "bytes"), 0, total);
  return made;
}

}  // namespace

TEST_CASE("a23 finds memory that grows by more than its threshold in a hundred requests", "[a23]") {
  const GpuTrace made = Leaking(100, kMiB);
  const analyze::AnalysisReport report = made.Run("a23");
  const std::optional<analyze::FindingRow> finding = Found(report, "a23.leak");

  CheckFinding(finding, Severity::kMedium, 0.9, 0, 1);
  CHECK(Measured(report, "growth_a_request") == Approx(kMiB));
  CHECK(Measured(report, "most") == Approx((900 + 99) * static_cast<double>(kMiB)));
  CHECK(finding->value == Approx(100 / 949.5).epsilon(0.01));
  CHECK(IsEvidence(finding->evidence[0], 0, 900, 99'900));
  CheckEdge(made, "a23.leak", "leak_growth", Edge::kAbove);
  CheckEdge(made, "a23.leak", "leak_requests", Edge::kFrom, 100);
  CheckSeverities(made, "a23.leak", "leak_growth", 5);
  CHECK_FALSE(FoundWith(made, "a23.leak", "leak_p", 0).has_value());
}

TEST_CASE("a23 takes the least memory of every few requests that end together, in at most 128 groups", "[a23]") {
  const auto made = [](int count) {
    GpuTrace trace = Leaking(count, kMiB);
    // Every other request ends with 500 MiB of its own still given out.
    for (size_t i = 0; i < trace.trace.samples.value.size(); i += 2) trace.trace.samples.value[i] += 500.0 * kMiB;
    return trace;
  };

  CHECK(Measured(made(256).Run("a23"), "growth_a_request") == Approx(kMiB).epsilon(0.02));
  CHECK(Measured(made(254).Run("a23"), "growth_a_request") == Approx(kMiB).epsilon(0.02));
  CHECK(Found(made(254).Run("a23"), "a23.leak")->confidence > 0.89);
}

TEST_CASE("a23 does not count requests without an end, or that end after the window", "[a23]") {
  GpuTrace made = Leaking(25, kMiB);
  made.trace.requests[3].end_known = false;
  made.trace.requests[20].duration_ns = 100'000'000;

  CheckEdge(made, "a23.leak", "leak_requests", Edge::kFrom, 23);
}

TEST_CASE("a23 finds a device above a share of its memory, and when the most was in use", "[a23]") {
  const std::optional<analyze::FindingRow> finding = Found(Used(96, 100).Run("a23"), "a23.peak");

  CheckFinding(finding, Severity::kLow, 0.95, 0, 1);
  CHECK(IsEvidence(finding->evidence[0], 0, 400, 400));
  CHECK(Found(Used(97, 100).Run("a23"), "a23.peak")->severity == Severity::kMedium);
  CheckEdge(Used(96, 100), "a23.peak", "peak_share", Edge::kAbove);
}

TEST_CASE("a23 takes memory as in pieces if as much as wanted was cached or free", "[a23]") {
  const auto run = [](uint64_t wanted, uint64_t free_bytes = 30) {
    GpuTrace made(1000);
    made.Event(SiteKind::kInstant, "out of GPU memory", 500, 0,
               {{"bytes", wanted}, {"device", 0}, {"free_bytes", free_bytes}, {"reserved", 100}, {"allocated", 80}});
    return made.Run("a23");
  };

  const std::optional<analyze::FindingRow> pieces = Found(run(50), "a23.fragmentation"),
                                           none = Found(run(51), "a23.out_of_memory");
  CheckFinding(pieces, Severity::kHigh, 0.95, 0, 1);
  CHECK(pieces->value == Approx(1));
  CheckFinding(none, Severity::kHigh, 0.95, 0, 1);
  CHECK(none->value == Approx(51.0 / 50));
  CHECK(none->threshold.value == 1);
  CHECK(IsEvidence(none->evidence[0], 0, 500, 500));
  CHECK(Found(run(0), "a23.out_of_memory").has_value());
}

// ---- a24, a25

TEST_CASE("a24 finds time in the allocator after warm-up, from either of its thresholds on", "[a24]") {
  const GpuTrace made = Calling(20, 20, "cudaMalloc");
  const analyze::AnalysisReport report = made.Run("a24");

  CHECK(Measured(report, "allocations") == 17);
  CHECK(Measured(report, "in_allocator") == 850);
  CHECK(Measured(report, "in_allocator_while_gpus_worked") == 0);
  const std::optional<analyze::FindingRow> finding = Found(report, "a24.alloc_stall");
  CheckFinding(finding, Severity::kHigh, 0.9, 850, 5);
  CHECK(finding->value == Approx(0.0425));
  CHECK(finding->threshold.name == "stall_share");
  CheckEdge(made, "a24.alloc_stall", "stall_share", Edge::kFrom);
  CheckSeverities(made, "a24.alloc_stall", "stall_share");
  analyze::AnalyzeOptions by_time = With("a24.stall_share", 0.05);
  CheckEdge(made, "a24.alloc_stall", "stall", Edge::kFrom, 850'000, by_time);
  by_time.thresholds.push_back({"a24.stall", 850'000});
  CHECK(Found(made.Run("a24", by_time), "a24.alloc_stall")->threshold.name == "stall");
  CHECK(Found(made.Run("a24", by_time), "a24.alloc_stall")->value == 850'000);
}

TEST_CASE("a24 finds memory that goes back and forth from its number of pairs on", "[a24]") {
  GpuTrace made(20'000);
  for (int64_t i = 0; i < 20; ++i) {
    made.For(made.Request(1000 * i, 900));
    made.Launch("k", 1000 * i, 5, 1000 * i + 10, 300);
    made.Call("cudaFree", 1000 * i + 250, 50);  // while the kernel runs
    made.Call("cudaMalloc", 1000 * i + 400, 50);
  }
  const analyze::AnalysisReport report = made.Run("a24");

  CHECK(Measured(report, "frees") == 17);
  CHECK(Measured(report, "retries") == 0);
  CHECK(Measured(report, "in_allocator_while_gpus_worked") == 17 * 50);
  const std::optional<analyze::FindingRow> finding = Found(report, "a24.alloc_thrash");
  CheckFinding(finding, Severity::kHigh, 0.9, 1700, 5);
  CHECK(finding->value == 17);
  CheckEdge(made, "a24.alloc_thrash", "thrash_pairs", Edge::kFrom);
  // High from five times the share of a stall on.
  CHECK(FoundWith(made, "a24.alloc_thrash", "stall_share", 0.0169)->severity == Severity::kHigh);
  CHECK(FoundWith(made, "a24.alloc_thrash", "stall_share", 0.0171)->severity == Severity::kMedium);
}

TEST_CASE("a24 is sure of a retry, and counts those after warm-up", "[a24]") {
  GpuTrace made = Calling(5, 0, "");
  for (const int64_t at_us : {100, 4100, 4200}) {
    made.For(static_cast<uint32_t>(at_us / 1000));
    made.Event(SiteKind::kInstant, "cudaMalloc after cached memory was freed", at_us, 0);
  }

  const analyze::AnalysisReport report = made.Run("a24");

  CHECK(Measured(report, "retries") == 2);
  CheckFinding(Found(report, "a24.alloc_thrash"), Severity::kHigh, 0.95, 0, 2);
}

TEST_CASE("a25 finds the cost of first times from its threshold on", "[a25]") {
  GpuTrace made(10'000);
  made.trace.overheads.push_back({0, 300'000, made.trace.strings.Add("lazy function loading")});
  made.Call("cudaGraphInstantiateWithFlags", 1000, 400);
  made.Call("cudaStreamBeginCapture", 1500, 100);
  made.Call("nvrtcCompileProgram", 2000, 600);

  const analyze::AnalysisReport report = made.Run("a25");

  CHECK(Measured(report, "compiling") == 600);
  CheckFinding(Found(report, "a25.jit"), Severity::kLow, 0.95, 600, 1);
  CheckFinding(Found(report, "a25.lazy_load"), Severity::kLow, 1, 300, 0);
  CheckFinding(Found(report, "a25.graph_capture"), Severity::kLow, 0.95, 500, 2);
  for (const char* const code : {"a25.jit", "a25.lazy_load", "a25.graph_capture"}) {
    CheckEdge(made, code, "share", Edge::kFrom);
    CheckSeverities(made, code, "share", 5);
  }
}

TEST_CASE("a25 takes a first launch as slow from its threshold on, and counts one told by the driver once", "[a25]") {
  GpuTrace made(20'000);
  made.Launch("_Z4gemmv", 0, 2010, 2015, 20);
  for (int64_t i = 1; i < 10; ++i) made.Launch("_Z4gemmv", 5000 + 1000 * i, 10, 6000 + 1000 * i, 20);
  GpuTrace told = made;
  told.trace.overheads.push_back({100'000, 500'000, told.trace.strings.Add("lazy function loading")});

  CheckFinding(Found(made.Run("a25"), "a25.lazy_load"), Severity::kMedium, 0.6, 2000, 1);
  CHECK(FoundWith(made, "a25.lazy_load", "first_launch", 1'999'999).has_value());
  CHECK_FALSE(FoundWith(made, "a25.lazy_load", "first_launch", 2'010'001).has_value());
  const std::optional<analyze::FindingRow> once = Found(told.Run("a25"), "a25.lazy_load");
  CheckFinding(once, Severity::kMedium, 1, 2000, 1);
  CHECK(once->summary.find("1 time") != std::string::npos);
  CHECK(once->summary.find("2.00 ms") != std::string::npos);
}

// ---- a26, a27

namespace {

// Kernels of about 1 ms, 100 of them, one every 4 ms. The last ones run at a lower clock and as much longer. The
// clock was held by `reason` meanwhile.
struct Slower {
  int low = 50;
  double low_mhz = 1000;
  std::string reason = "SW thermal";
  double feels = 1;
  GpuTrace Make() const {
    GpuTrace made(400'000);
    const uint32_t clock = made.Counter("GPU 0 (NVIDIA H100): SM clock", "MHz"),
                   held = made.Counter("GPU 0 (NVIDIA H100): clocks held by " + reason, "");
    const int64_t from_us = (100 - low) * 4000;
    made.Sample(clock, 0, 2000);
    made.Sample(clock, from_us, low_mhz);
    made.Sample(held, 0, 0);
    made.Sample(held, from_us, 1);
    for (int64_t i = 0; i < 100; ++i) {
      const double factor = i < 100 - low ? 1 : std::pow(2000 / low_mhz, feels);
      made.Launch("gemm", 4000 * i, 5, 4000 * i + 10, static_cast<int64_t>(1000 * factor) + i % 3);
    }
    return made;
  }
};

}  // namespace

TEST_CASE("a26 finds a low clock from a share of the kernels' time on, high from a ratio of 1.2 on", "[a26]") {
  const GpuTrace made = Slower().Make();
  const analyze::AnalysisReport report = made.Run("a26");

  CHECK(Measured(report, "SM_clock") == Approx(1000));
  CHECK(Measured(report, "SM_clock_of_kernels") == 2000);
  CHECK(Measured(report, "low_share") == Approx(2.0 / 3).epsilon(0.01));
  const std::optional<analyze::FindingRow> finding = Found(report, "a26.throttled");
  REQUIRE(finding.has_value());
  CHECK(finding->confidence == Approx(0.9));
  CHECK(finding->evidence.size() == 5);
  CHECK(finding->threshold.name == "slope");
  CheckEdge(made, "a26.throttled", "low_share", Edge::kFrom, Measured(report, "low_share"));
  CHECK(Found(Slower{50, 2000 / 1.21}.Make().Run("a26"), "a26.throttled")->severity == Severity::kHigh);
  CHECK(Found(Slower{50, 2000 / 1.19}.Make().Run("a26"), "a26.throttled")->severity == Severity::kMedium);
}

TEST_CASE("a26 takes a clock as low from its drop on", "[a26]") {
  const GpuTrace made = Slower{50, 1800}.Make();

  CHECK(FoundWith(made, "a26.throttled", "drop", 0.0999).has_value());
  CHECK_FALSE(FoundWith(made, "a26.throttled", "drop", 0.1001).has_value());
}

TEST_CASE("a26 finds kernels that felt the clock surely by more than its slope", "[a26]") {
  const GpuTrace made = Slower().Make();

  CHECK(FoundWith(made, "a26.throttled", "slope", 0.98).has_value());
  CHECK_FALSE(FoundWith(made, "a26.throttled", "slope", 1.01).has_value());
}

TEST_CASE("a26 is less sure without a reason, and prefers a lack of power or cooling to others", "[a26]") {
  GpuTrace unknown = Slower().Make(), two = Slower{50, 1000, "application clocks"}.Make();
  for (double& value : unknown.trace.samples.value) value = value == 1 ? 0 : value;
  const uint32_t cap = two.Counter("GPU 0 (NVIDIA H100): clocks held by SW power cap", "");
  two.Sample(cap, 0, 0);
  two.Sample(cap, 300'000, 1);

  CHECK(Found(unknown.Run("a26"), "a26.clock_low")->confidence == Approx(0.7));
  const std::optional<analyze::FindingRow> finding = Found(two.Run("a26"), "a26.throttled");
  REQUIRE(finding.has_value());
  CHECK(finding->summary.find("SW power cap") != std::string::npos);
}

TEST_CASE("a26 claims nothing of kernels that did not run often at both clocks, and leaves communication out",
          "[a26]") {
  GpuTrace other = Slower().Make(), nccl = Slower().Make();
  for (uint32_t i = 50; i < 100; ++i) other.trace.gpu.name[i] = other.trace.strings.Add("other");
  for (uint32_t i = 0; i < 100; ++i) nccl.trace.gpu.name[i] = nccl.trace.strings.Add("ncclKernel_AllReduce");

  const std::optional<analyze::FindingRow> finding = Found(other.Run("a26"), "a26.throttled");
  CheckFinding(finding, Severity::kHigh, 0.4, 0, 5, true);
  CHECK(finding->value == Approx(0.5));
  CHECK(finding->threshold.name == "drop");
  CHECK(nccl.Run("a26").Find("a26", "low_share") == nullptr);
}

TEST_CASE("a26 is not sure what clocks cost that were held all the time", "[a26]") {
  GpuTrace made = Slower{50, 1000, "HW slowdown"}.Make();
  for (double& value : made.trace.samples.value) value = value > 1 ? 1000 : 1;
  GpuTrace most = made;
  most.trace.samples.value[2] = 0;  // until half of the time

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a26"), "a26.throttled");
  CheckFinding(finding, Severity::kLow, 0.3, 0, 0, true);
  CHECK(finding->value == Approx(1));
  CHECK(finding->threshold.name == "low_share");
  CHECK(most.Run("a26").analyzers[0].findings.empty());
}

namespace {

// A thread in a scope for 100 ms; it was on a CPU for `cpu_us` of these.
GpuTrace OnHost(int64_t cpu_us, int64_t voluntary, int64_t involuntary, int64_t major_faults, double stolen_ns = 0) {
  GpuTrace made(200'000);
  made.trace.threads[0].tid = 41;
  made.Event(SiteKind::kScope, "decode", 0, 100'000);
  const auto counter = [&](const std::string& name, double at_end) {
    const uint32_t row = made.Counter(name, "");
    made.Sample(row, 0, 0);
    made.Sample(row, 100'000, at_end);
  };
  counter(base::ThreadCounter(41, base::kOnCpu), static_cast<double>(cpu_us * 1000));
  counter(base::ThreadCounter(41, base::kVoluntary), static_cast<double>(voluntary));
  counter(base::ThreadCounter(41, base::kInvoluntary), static_cast<double>(involuntary));
  counter(base::ThreadCounter(41, base::kMajorFaults), static_cast<double>(major_faults));
  if (stolen_ns != 0) counter(base::HostCounter(base::kStolenTime), stolen_ns);
  return made;
}

}  // namespace

TEST_CASE("a27 finds each way of not running from its threshold on", "[a27]") {
  const struct {
    const char *code, *threshold;
    GpuTrace made;
  } ways[] = {{"a27.runqueue", "runqueue_share", OnHost(75'000, 0, 9, 0)},
              {"a27.pagefaults", "pagefault_share", OnHost(75'000, 5, 0, 9)},
              {"a27.blocked", "blocked_share", OnHost(75'000, 5, 0, 0)}};
  for (const auto& [code, threshold, made] : ways) {
    const std::optional<analyze::FindingRow> finding = Found(made.Run("a27"), code);
    CheckFinding(finding, Severity::kMedium, 0.9, 25'000, 1);
    CHECK(finding->value == Approx(0.25));
    CHECK(IsEvidence(finding->evidence[0], 0, 75'000, 100'000));
    CheckEdge(made, code, threshold, Edge::kFrom);
    CheckSeverities(made, code, threshold);
    // Drivers and libraries sleep in any server.
    const auto usual = Found(made.Run("a27", With("a27.unusual_sleep_share", 0.26)), code);
    CheckFinding(usual, code == std::string("a27.blocked") ? Severity::kInfo : Severity::kMedium, 0.9, 25'000, 1);
    if (code == std::string("a27.blocked")) CheckInformsBelow(made, code, "unusual_sleep_share", finding->value);
  }
}

TEST_CASE("a27 names threads without a name by their number, and measures what a hypervisor took", "[a27]") {
  const analyze::AnalysisReport report = OnHost(75'000, 0, 9, 0, 30'000'000).Run("a27");

  CHECK(Measured(report, "code", "thread #1") == 100'000);
  CHECK(Measured(report, "stolen", "all") == 30'000);
  CHECK(Found(report, "a27.runqueue")->summary.find("30.0 ms") != std::string::npos);
}

TEST_CASE("a16 does not know whether a request's work depends on that of a thread without one", "[a16]") {
  for (const bool is_waiter : {false, true}) {
    GpuTrace made = InLine(0);
    for (uint32_t call = 0; call < 20; ++call) {
      if ((call >= 10) == is_waiter) made.trace.calls.request[call] = kNone;
    }
    CheckFinding(Found(made.Run("a16"), kInLine), Severity::kLow, 0.4, 3000, 5, true);
  }
}

TEST_CASE("a20 counts waves of blocks of which one fits on a multiprocessor", "[a20]") {
  const auto has_tail = [](uint32_t blocks) {
    return Launched(blocks, 1024, 64).Run("a20").Find("a20", "tail") != nullptr;
  };

  CHECK(has_tail(133));
  CHECK_FALSE(has_tail(132));
  CHECK_FALSE(has_tail(264));
}

TEST_CASE("a23 counts a request that ends with the window", "[a23]") {
  GpuTrace made = Leaking(25, kMiB);
  made.trace.requests[24].duration_ns = 1'000'000;

  CheckEdge(made, "a23.leak", "leak_requests", Edge::kFrom, 25);
}

TEST_CASE("a23 measures the most of what allocators gave out and hold, and of what devices have in use", "[a23]") {
  GpuTrace made(1000);
  const struct {
    const char *name, *unit;
    double value;
  } counters[] = {{"LibTorch allocated", "bytes", 5},
                  {"LibTorch reserved", "bytes", 7},
                  {"GPU 0: memory used", "bytes", 11},
                  {"GPU 0: memory total", "bytes", 13},
                  {"allocated", "1", 17}};
  for (const auto& [name, unit, value] : counters) {
    const uint32_t row = made.Counter(name, unit);
    made.Sample(row, 0, value - 1);
    made.Sample(row, 500, value);
  }

  const analyze::AnalysisReport report = made.Run("a23");

  CHECK(CountOf(report, "most") == 3);
  CHECK(Measured(report, "most", "LibTorch allocated") == 5);
  CHECK(Measured(report, "most", "LibTorch reserved") == 7);
  CHECK(Measured(report, "most", "GPU 0: memory used") == 11);
}

TEST_CASE("a16 does not take a kernel of unknown shape as fitting beside another", "[a16]") {
  for (const size_t unknown : {size_t{0}, size_t{1}}) {
    GpuTrace made = InLine(0);
    for (size_t row = unknown; row < 20; row += 2) made.trace.gpu.shape[row] = kNone;
    CHECK(made.Run("a16").analyzers[0].findings.empty());
  }
}

TEST_CASE("a17 measures what each part of the path and no waiting at all would save", "[a17]") {
  const analyze::AnalysisReport report = Steps(200, 30).Run("a17");

  CHECK(Measured(report, "saved_without_launch") == 10 * 20);
  CHECK(Measured(report, "saved_without_return") == 10 * 10);
  CHECK(report.Find("a17", "saved_without_copies") == nullptr);  // there are none
  CHECK(report.Find("a17", "saved_without_end") == nullptr);     // that is nobody's
  CHECK(Measured(report, "saved_without_waits") > 0);
}

TEST_CASE("a20 shows only kernels that were launched so", "[a20]") {
  GpuTrace made(2000);
  IsGpu(&made, 132);
  for (int64_t i = 0; i < 6; ++i)
    made.Shape(made.Launch("k", 200 * i, 0, 200 * i, i < 3 ? 100 : 150), Shape(i < 3 ? 33 : 132 * 8, 256));

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a20"), "a20.small_grid");

  REQUIRE(finding.has_value());
  REQUIRE(finding->evidence.size() == 3);
  for (const analyze::EvidenceRow& row : finding->evidence) CHECK(row.first_row < 3);
}

TEST_CASE("a24 advises less in use only after retries", "[a24]") {
  GpuTrace made(20'000);
  for (int64_t i = 0; i < 20; ++i) {
    made.For(made.Request(1000 * i, 900));
    made.Call("cudaFree", 1000 * i + 250, 50);
    made.Call("cudaMalloc", 1000 * i + 400, 50);
  }
  const std::string without = Found(made.Run("a24"), "a24.alloc_thrash")->recommendation;
  made.Event(SiteKind::kInstant, "cudaMalloc after cached memory was freed", 19'800, 0);

  CHECK(Found(made.Run("a24"), "a24.alloc_thrash")->recommendation != without);
}

TEST_CASE("a26 takes the clock of a kernel's middle, from a sample on", "[a26]") {
  // Each of ten kernels has its middle at the change, or one ns before it.
  const auto clock = [](int64_t before_ns) {
    GpuTrace made(200'000);
    const uint32_t row = made.Counter("GPU 0 (NVIDIA H100): SM clock", "MHz");
    made.Sample(row, 0, 2000);
    made.Sample(row, 100'000, 1000);
    made.Launch("gemm", 99'000, 5, 99'500, 1000);
    made.trace.gpu.begin_ns[0] -= before_ns;
    return Measured(made.Run("a26"), "SM_clock_of_kernels");
  };

  CHECK(clock(0) == 1000);
  CHECK(clock(1) == 2000);
}

TEST_CASE("a27 measures nothing stolen or throttled if nothing was", "[a27]") {
  const analyze::AnalysisReport report = OnHost(75'000, 0, 9, 0).Run("a27");

  CHECK(report.Find("a27", "stolen") == nullptr);
  CHECK(report.Find("a27", "throttled") == nullptr);
}

}  // namespace pitot::test
