// SPDX-License-Identifier: Apache-2.0
//
// Where findings of the catalogue begin and end: thresholds, severities and confidences of the analyzers of GPUs
// (a01 to a12), at their edges.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "analyze/catalogue_edges.h"

namespace pitot::test {

using model::GpuKind;
using model::kNone;

TEST_CASE("the catalogue's thresholds have the values that the reference names", "[analyze]") {
  std::map<std::string, double> thresholds;
  for (const std::unique_ptr<Analyzer>& analyzer : analyze::MakeCatalogue()) {
    const AnalyzerInfo info = analyzer->Info();
    for (uint32_t i = 0; i < info.threshold_count; ++i)
      thresholds[std::string(info.name) + "." + info.thresholds[i].name] = info.thresholds[i].value;
  }

  CHECK(thresholds == std::map<std::string, double>{
                          {"a02.covered", 0.8},
                          {"a02.dear_share", 0.3},
                          {"a02.most_rows", 10},
                          {"a02.sure", 0.95},
                          {"a03.efficiency_low", 0.5},
                          {"a03.utilisation_low", 0.5},
                          {"a04.idle_share", 0.15},
                          {"a04.kernel_wait", 30'000},
                          {"a04.launch_hole", 10'000'000},
                          {"a05.exposed_share", 0.05},
                          {"a05.exposed_share_high", 0.2},
                          {"a06.bandwidth", 25},
                          {"a06.copies_per_request", 5},
                          {"a06.copies_per_second", 100},
                          {"a06.exposed_share", 0.05},
                          {"a06.start", 10'000},
                          {"a07.blocked_share", 0.01},
                          {"a07.small_upload", 65'536},
                          {"a08.bound_share", 0.5},
                          {"a08.copies_to_kernels", 2},
                          {"a08.heavy_share", 0.3},
                          {"a09.stall_share", 0.05},
                          {"a10.launch_hole", 10'000'000},
                          {"a10.launch_share", 0.1},
                          {"a10.short_kernel", 10'000},
                          {"a10.short_share", 0.25},
                          {"a10.slow_call", 50'000},
                          {"a10.slow_launch", 100'000},
                          {"a11.empty_share", 0.5},
                          {"a11.full_length", 1000},
                          {"a11.full_share", 0.01},
                          {"a11.least_idle_share", 0.1},
                          {"a12.gap_share", 0.02},
                          {"a12.least_repeats", 5},
                          {"a12.longest_gap", 100'000},
                          {"a15.communication_share", 0.1},
                          {"a15.gain", 0.05},
                          {"a15.least_batches", 30},
                          {"a15.least_of_size", 5},
                          {"a15.serial", 0.5},
                          {"a16.handover", 20'000},
                          {"a16.waited_share", 0.05},
                          {"a17.launch_hole", 10'000'000},
                          {"a17.path_share", 0.3},
                          {"a17.saved_share", 0.05},
                          {"a17.unlinked_share", 0.01},
                          {"a18.efficiency_high", 0.6},
                          {"a18.efficiency_low", 0.15},
                          {"a18.op_share", 0.05},
                          {"a18.peak_bandwidth", 0},
                          {"a18.peak_flops", 0},
                          {"a20.cost_share", 0.05},
                          {"a20.low_occupancy_share", 0.5},
                          {"a20.occupancy_low", 0.8},
                          {"a20.tail", 0.2},
                          {"a22.autograd_share", 0.1},
                          {"a22.copied_share", 0.005},
                          {"a22.emptying_share", 0.5},
                          {"a22.host_share", 0.02},
                          {"a22.least", 10},
                          {"a22.least_requests", 5},
                          {"a22.readback_bytes", 8},
                          {"a22.readback_share", 0.01},
                          {"a22.unaligned_share", 0.05},
                          {"a23.leak_growth", 0.01},
                          {"a23.leak_p", 0.01},
                          {"a23.leak_requests", 20},
                          {"a23.peak_share", 0.9},
                          {"a24.stall", 10'000'000},
                          {"a24.stall_share", 0.01},
                          {"a24.thrash_pairs", 5},
                          {"a24.warm_up", 3},
                          {"a25.first_launch", 200'000},
                          {"a25.share", 0.01},
                          {"a26.drop", 0.05},
                          {"a26.low_share", 0.05},
                          {"a26.slope", 0.5},
                          {"a27.blocked_share", 0.1},
                          {"a27.pagefault_share", 0.1},
                          {"a27.runqueue_share", 0.1},
                          {"a27.unusual_sleep_share", 0.2},
                          {"a28.gpu_busy", 0.8},
                          {"a28.least_requests", 50},
                          {"a28.saturated", 0.8},
                          {"a29.gap_share", 0.05},
                          {"a29.least_tokens", 50},
                          {"a29.mixed_share", 0.05},
                          {"a29.preempted_share", 0.05},
                          {"a29.queue_share", 0.5},
                          {"a29.spike", 3},
                          {"a30.kernel_speedup", 2},
                          {"a30.least_requests", 20},
                          {"a30.least_saving", 0.01},
                          {"a30.target", 0},
                          {"a31.least_requests", 20},
                          {"a31.share", 0.5},
                          {"a31.speedup", 2},
                          {"a34.cpu_hour", 0},
                          {"a34.gpu_hour", 0},
                          {"a34.idle_share", 0.5},
                          {"a34.least_requests", 20},
                          {"a35.delta", 0.5},
                          {"a35.lambda", 20},
                          {"a35.least_change", 0.1},
                          {"a35.least_requests", 60},
                          {"a35.p", 0.01},
                          {"a36.excess_share", 0.02},
                          {"a36.fault_share", 0.1},
                          {"a36.least_steps", 20},
                          {"a36.warm_up", 10},
                          {"a36.z", 3.5},
                          {"a39.endless_share", 0.05},
                          {"a39.instant_share", 0.01},
                          {"a39.late", 200'000},
                          {"a39.least_launches", 100},
                          {"a39.overhead_share", 0.05},
                          {"a39.skew", 1000},
                          {"a39.unmatched_share", 0.01},
                          {"a41.least_requests", 60},
                          {"a41.main_share", 0.6},
                          {"a41.share", 0.3},
                          {"a41.tail_ratio", 1.5},
                          {"a42.latency_growth", 1.5},
                          {"a42.least_levels", 3},
                          {"a42.pace", 0.8},
                          {"a42.saturated", 0.8},
                          {"a42.share", 0.2},
                          {"a42.throughput_gain", 0.05},
                          {"a43.idle_share", 0.5},
                          {"a43.least_joules", 1},
                      });
}

// ---- a01, a02

TEST_CASE("a01 sums busy time, and measures time before the first and after the last work of each GPU", "[a01]") {
  GpuTrace made = CopyAndKernels();
  made.trace.devices.resize(2);
  made.trace.devices[1].ordinal = 1;
  made.UseStream(9, 1);
  made.Gpu(GpuKind::kKernel, "gemm", 300, 50, kNone);

  const analyze::AnalysisReport report = made.Run("a01");

  CHECK(Measured(report, "window", "GPU 0") == 1000);
  CHECK(Measured(report, "compute", "GPU 0") == 200);
  CHECK(Measured(report, "communication", "GPU 0") == 100);
  CHECK(Measured(report, "memcpy", "GPU 0") == 100);
  CHECK(Measured(report, "busy", "GPU 0") == 400);
  CHECK(Measured(report, "before_first", "GPU 0") == 100);
  CHECK(Measured(report, "after_last", "GPU 0") == 400);
  CHECK(Measured(report, "busy", "GPU 1") == 50);
  CHECK(Measured(report, "before_first", "GPU 1") == 300);
  CHECK(Measured(report, "after_last", "GPU 1") == 650);
}

TEST_CASE("a02 lists rows until four fifths of the time are covered, ten at most", "[a02]") {
  const auto run = [](int kernels) {
    GpuTrace made(1000);
    for (int i = 0; i < kernels; ++i) made.Gpu(GpuKind::kKernel, "k" + std::to_string(i), 20 * i, 10, kNone);
    return made.Run("a02");
  };

  const analyze::AnalysisReport five = run(5), twenty = run(20);

  CHECK(CountOf(five, "self_gpu", "k") == 4);
  CHECK(CountOf(five, "calls", "k") == 4);
  CHECK(CountOf(five, "gpu_exposed", "k") == 4);
  CHECK(Measured(five, "others_gpu", "kernels") == 10);
  CHECK(CountOf(twenty, "self_gpu", "k") == 10);
  CHECK(Measured(twenty, "others_gpu", "kernels") == 100);
}

TEST_CASE("a02 reports operators' own host time if no GPU worked, dear from three tenths on", "[a02]") {
  GpuTrace made(1000);
  const char* const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
  int64_t at_us = 0;
  for (const char* const name : names) made.Event(SiteKind::kOperator, name, at_us, 10), at_us += 20;

  const analyze::AnalysisReport report = made.Run("a02");

  CHECK(Measured(report, "self_cpu", "a") == 10);
  CHECK(CountOf(report, "gpu_exposed") == 0);
  CHECK(Measured(report, "others_cpu", "operators") == 20);
  const std::optional<analyze::FindingRow> finding = Found(report, "a02.operators");
  CheckFinding(finding, Severity::kInfo, 0.5, 0, 0);
  CHECK(finding->subject == "host time");
  CHECK(finding->value == Approx(0.3));
  CheckEdge(made, "a02.operators", "dear_share", Edge::kFrom);
}

// ---- a03, a04, a05

TEST_CASE("a03 weighs the occupancy of kernels by their time", "[a03]") {
  GpuTrace made(1000);
  IsGpu(&made);
  made.Shape(made.Gpu(GpuKind::kKernel, "k", 0, 300, kNone), Shape(100, 256));        // one block of 8 warps
  made.Shape(made.Gpu(GpuKind::kKernel, "k", 300, 100, kNone), Shape(100'000, 256));  // as many as fit
  made.Gpu(GpuKind::kKernel, "unknown", 400, 400, kNone);
  made.Gpu(GpuKind::kMemcpy, "HtoD", 800, 100, kNone);
  made.Gpu(GpuKind::kGraph, "graph", 900, 50, kNone);

  const analyze::AnalysisReport report = made.Run("a03");

  CHECK(Measured(report, "utilisation") == Approx(0.85));
  CHECK(Measured(report, "occupancy") == Approx((300 * 0.125 + 100 * 1) / 400));
  CHECK(Measured(report, "efficiency") == Approx(0.4));
}

TEST_CASE("a03 calls utilisation low below the threshold, and medium below half of it", "[a03]") {
  GpuTrace made(1000);
  made.Launch("k", 0, 5, 10, 250);

  CheckFinding(Found(made.Run("a03"), "a03.utilisation_low"), Severity::kLow, 0.95, 750, 0);
  CheckEdge(made, "a03.utilisation_low", "utilisation_low", Edge::kBelow);
  CHECK(FoundWith(made, "a03.utilisation_low", "utilisation_low", 0.499)->severity == Severity::kLow);
  CHECK(FoundWith(made, "a03.utilisation_low", "utilisation_low", 0.501)->severity == Severity::kMedium);
}

TEST_CASE("a03 calls efficiency low below a share of the utilisation", "[a03]") {
  GpuTrace made(1000);
  IsGpu(&made);
  made.Shape(made.Launch("k", 0, 0, 0, 1000), Shape(25, 256));

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a03"), "a03.efficiency_low");
  CheckFinding(finding, Severity::kLow, 0.95, 0, 0);
  CHECK(finding->value == Approx(0.25));
  CheckEdge(made, "a03.efficiency_low", "efficiency_low", Edge::kBelow);
}

TEST_CASE("a03 cuts kernels at the window", "[a03]") {
  GpuTrace made(1000);
  made.Launch("k", 0, 5, 100, 200);
  made.Launch("k", 210, 5, 300, 100);

  CHECK(Measured(made.Run("a03"), "utilisation") == Approx(0.3));
}

TEST_CASE("a04 counts gaps between operations of one GPU, whichever stream they are on", "[a04]") {
  GpuTrace made(1000);
  const uint32_t a = made.Call("cudaLaunchKernel", 0, 4), d = made.Call("cudaLaunchKernel", 5, 4),
                 b = made.Call("cudaLaunchKernel", 100, 5), e = made.Call("cudaLaunchKernel", 110, 5);
  made.Gpu(GpuKind::kKernel, "a", 10, 90, a);
  made.Gpu(GpuKind::kKernel, "b", 300, 100, b);     // 200 us after a
  made.Gpu(GpuKind::kKernel, "c", 450, 50, kNone);  // 25 us after e
  made.UseStream(9);
  made.Gpu(GpuKind::kKernel, "d", 50, 30, d);   // within a
  made.Gpu(GpuKind::kKernel, "e", 350, 75, e);  // beyond the end of b
  made.Gpu(GpuKind::kSpan, "span", 430, 10, kNone);

  const analyze::AnalysisReport report = made.Run("a04");

  CHECK(Measured(report, "gaps") == 2);
  CHECK(Measured(report, "idle") == 200 + 25);
  CHECK(Measured(report, "idle_launch") == 0);
  CHECK(Measured(report, "idle_dispatch") == 200);  // launched at the gap's begin
  CHECK(Measured(report, "idle_unknown") == 25);
  const std::optional<analyze::FindingRow> finding = Found(report, "a04.idle");
  CheckFinding(finding, Severity::kMedium, 0.8 * 0.9, 225, 2);  // of five operations one has no call
  CHECK(finding->value == Approx(225.0 / 490));
  CHECK(IsEvidence(finding->evidence[0], 1, 100, 300));
  CHECK(IsEvidence(finding->evidence[1], 2, 425, 450));
}

TEST_CASE("a04 finds more idle time than the threshold, and a launch that is a hole of more than half of it", "[a04]") {
  GpuTrace made(100'000);
  made.Launch("a", 0, 5, 10, 990);
  made.Launch("b", 1010, 5, 21'000, 79'000);  // 19,990 us from the call to the work

  CheckFinding(Found(made.Run("a04"), "a04.idle"), Severity::kLow, 0.3, 20'000, 1, true);
  CheckEdge(made, "a04.idle", "idle_share", Edge::kAbove);
  CheckSeverities(made, "a04.idle", "idle_share");
  const auto is_hole = [&](double ns) { return FoundWith(made, "a04.idle", "launch_hole", ns)->is_undetermined; };
  CHECK(is_hole(19'989'999));
  CHECK_FALSE(is_hole(19'990'000));

  // Two launches of 10 ms each: neither is more than half.
  GpuTrace two(100'000);
  two.Launch("a", 0, 5, 10, 990);
  two.Launch("b", 1001, 5, 12'000, 1'000);
  two.Launch("c", 13'001, 5, 24'000, 76'000);
  CheckFinding(Found(two.Run("a04"), "a04.idle"), Severity::kLow, 0.9, 22'000, 2);
}

TEST_CASE("a05 finds exposed loading from its threshold on, and calls it high from the second on", "[a05]") {
  GpuTrace made(1000);
  made.Event(SiteKind::kOperator, "enumerate(DataLoader)#_Single.__next__", 0, 200);
  made.Event(SiteKind::kOperator, "enumerate(DataLoader)#_Single.__next__", 500, 50);
  made.Launch("k", 600, 5, 610, 390);

  const analyze::AnalysisReport report = made.Run("a05");

  CHECK(Measured(report, "exposed_share") == Approx(0.25));
  CHECK(Measured(report, "input_bound") == 1);
  const std::optional<analyze::FindingRow> finding = Found(report, "a05.input_bound");
  CheckFinding(finding, Severity::kHigh, 0.9, 250, 2);
  CHECK(finding->threshold.name == "exposed_share_high");
  CHECK(finding->evidence[0].end_ns == 200'000);
  CheckEdge(made, "a05.input_bound", "exposed_share", Edge::kFrom);
  CHECK(FoundWith(made, "a05.input_bound", "exposed_share_high", 0.25)->severity == Severity::kHigh);
  const std::optional<analyze::FindingRow> medium =
      FoundWith(made, "a05.input_bound", "exposed_share_high", std::nextafter(0.25, 1));
  CheckFinding(medium, Severity::kMedium, 0.9, 250, 2);
  CHECK(medium->threshold.name == "exposed_share");
  CHECK(Measured(made.Run("a05",
                          [] {
                            analyze::AnalyzeOptions options;
                            options.thresholds = {{"a05.exposed_share", 0.26}};
                            return options;
                          }()),
                 "input_bound") == 0);
}

TEST_CASE("a05 is less sure without a GPU, and rounds the number of workers up", "[a05]") {
  GpuTrace made(1000);
  made.Event(SiteKind::kOperator, "enumerate(DataLoader)#_Single.__next__", 0, 501);

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a05"), "a05.input_bound");

  CheckFinding(finding, Severity::kHigh, 0.6, 501, 1);
  CHECK(finding->recommendation.find("3 workers") != std::string::npos);  // 501 / 499, and one more
}

// ---- a06, a07, a08

namespace {

constexpr uint64_t kMiB = 1 << 20;

void Copy(GpuTrace* made, const std::string& direction, int64_t begin_us, int64_t us, uint64_t bytes) {
  made->Gpu(GpuKind::kMemcpy, direction + (direction == "HtoD" ? ", pinned to device" : ", device to pinned"), begin_us,
            us, made->Call("cudaMemcpyAsync", begin_us - 5, 5), bytes);
}
double Knee(const GpuTrace& made, const std::string& direction = "HtoD") {
  return Measured(made.Run("a06"), "small_below", "GPU 0 " + direction);
}

// A hundred small copies in 10 ms, each of 2 us, and its call of 10 us before it.
GpuTrace SmallCopies(uint64_t bytes = 1024) {
  GpuTrace made(10'000);
  for (int64_t i = 0; i < 100; ++i) {
    const uint32_t call = made.Call("cudaMemcpyAsync", 100 * i, 10);
    made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", 100 * i + 10, 2, call, bytes);
  }
  return made;
}

}  // namespace

TEST_CASE("a06 takes the start of a copy from the fastest of 4 KiB or less, if it is above 10 us", "[a06]") {
  GpuTrace slow(1000), fast(1000);
  int64_t at_us = 10;
  for (const auto& [us, bytes] : {std::pair<int64_t, uint64_t>{30, 4096}, {20, 4096}, {40, 100}, {12, 4097}})
    Copy(&slow, "HtoD", at_us, us, bytes), at_us += 100;
  Copy(&fast, "HtoD", 10, 9, 64);

  CHECK(Knee(slow) == 20'000 * 25);
  CHECK(Knee(fast) == 10'000 * 25);
}

TEST_CASE("a06 takes the bandwidth from the fastest copy of 1 MiB or more", "[a06]") {
  GpuTrace made(1000), too_small(1000);
  int64_t at_us = 10;
  for (const auto& [us, bytes] : {std::pair<int64_t, uint64_t>{100, kMiB}, {64, kMiB}, {400, 2 * kMiB}, {10, kMiB - 1}})
    Copy(&made, "HtoD", at_us, us, bytes), at_us += us + 10;
  Copy(&too_small, "HtoD", 10, 10, kMiB - 1);

  CHECK(Knee(made) == Approx(10'000 * static_cast<double>(kMiB) / 64'000));
  CHECK(Knee(too_small) == 10'000 * 25);
}

TEST_CASE("a06 fits each direction by its own copies, and a copy of no time as one of 1 ns", "[a06]") {
  GpuTrace made(1000);
  Copy(&made, "HtoD", 10, 20, 4096);
  Copy(&made, "HtoD", 110, 64, kMiB);
  Copy(&made, "DtoH", 210, 15, 64);
  Copy(&made, "DtoH", 310, 0, kMiB);

  CHECK(Knee(made, "HtoD") == Approx(20'000 * static_cast<double>(kMiB) / 64'000));
  CHECK(Knee(made, "DtoH") == Approx(15'000 * static_cast<double>(kMiB)));
}

TEST_CASE("a06 counts copies below the knee as small, not those at it", "[a06]") {
  GpuTrace made(1000);
  Copy(&made, "HtoD", 10, 2, 249'999);
  Copy(&made, "HtoD", 30, 2, 250'000);
  Copy(&made, "HtoD", 50, 2, 250'001);

  const analyze::AnalysisReport report = made.Run("a06");

  CHECK(Measured(report, "copies") == 3);
  CHECK(Measured(report, "bytes") == 750'000);
  CHECK(Measured(report, "small_copies") == 1);
  CHECK(Measured(report, "small_copies_per_second") == Approx(1000));
}

TEST_CASE("a06 finds small copies from a rate and an exposed share on", "[a06]") {
  const GpuTrace made = SmallCopies();
  const std::optional<analyze::FindingRow> finding = Found(made.Run("a06"), "a06.small_copies");

  CheckFinding(finding, Severity::kMedium, 0.85, 1200, 5);
  CHECK(finding->value == Approx(0.12));
  CHECK(finding->summary.find("10000") != std::string::npos);    // a second
  CHECK(finding->summary.find("1,024 B") != std::string::npos);  // on average
  CHECK(finding->recommendation.find("one copy") != std::string::npos);
  // One start of 10 us, and the bytes at 25 a ns.
  CHECK(finding->recommendation.find("14 us") != std::string::npos);
  CheckEdge(made, "a06.small_copies", "exposed_share", Edge::kFrom);
  CheckEdge(made, "a06.small_copies", "copies_per_second", Edge::kFrom, 10'000);
  CheckSeverities(made, "a06.small_copies", "exposed_share");
}

TEST_CASE("a06 counts small copies as exposed only while the device does not compute", "[a06]") {
  GpuTrace made = SmallCopies();
  made.UseStream(13);
  made.Gpu(GpuKind::kKernel, "k", 0, 5'000, kNone);

  CHECK(Measured(made.Run("a06"), "small_copies_exposed") == 50 * 12);
}

TEST_CASE("a06 gathers no copies of different streams", "[a06]") {
  GpuTrace made(1000);
  for (int64_t i = 0; i < 3; ++i) Copy(&made, "HtoD", 10 + 20 * i, 2, 1024);
  made.UseStream(13);
  for (int64_t i = 0; i < 3; ++i) Copy(&made, "HtoD", 110 + 20 * i, 2, 1024);

  CHECK(Measured(made.Run("a06"), "small_copies_in_runs") == 2);
}

TEST_CASE("a06 takes no copy of unknown size for a small one", "[a06]") {
  GpuTrace made(1000);
  for (int64_t i = 0; i < 10; ++i) Copy(&made, "HtoD", 10 + 20 * i, 12, 0);

  const analyze::AnalysisReport report = made.Run("a06");

  CHECK_FALSE(Found(report, "a06.small_copies").has_value());
  CHECK(report.analyzers.at(0).measures.empty());
}

TEST_CASE("a06 ignores copies within a device", "[a06]") {
  GpuTrace made(1000);
  for (int64_t i = 0; i < 50; ++i)
    made.Gpu(GpuKind::kMemcpy, "DtoD, device to device", 20 * i + 5, 5, made.Call("cudaMemcpyAsync", 20 * i, 5), 64);

  CHECK(made.Run("a06").analyzers[0].measures.empty());
}

TEST_CASE("a07 finds blocked time from its threshold on, and is sure of it", "[a07]") {
  GpuTrace made(10'000);
  for (int64_t i = 0; i < 10; ++i) {
    const int64_t at_us = 1000 * i;
    made.Gpu(GpuKind::kMemcpy, "HtoD, pageable to device", at_us + 10, 90, made.Call("cudaMemcpyAsync", at_us, 100),
             kMiB);
    made.Gpu(GpuKind::kMemcpy, "DtoH, device to pinned", at_us + 210, 90, made.Call("cudaMemcpy", at_us + 200, 110),
             4096);
    made.Gpu(GpuKind::kMemset, "pinned", at_us + 410, 90, made.Call("cudaMemset", at_us + 400, 110), kMiB);
  }

  const analyze::AnalysisReport report = made.Run("a07");

  CHECK(Measured(report, "blocked_in_pageable_copies") == 1000);
  CHECK(Measured(report, "blocked_in_waiting_copies") == 1000);
  CHECK(Measured(report, "blocked_in_waiting_sets") == 1000);
  for (const char* const code : {"a07.pageable", "a07.waiting", "a07.waiting_set"}) {
    CheckFinding(Found(report, code), Severity::kMedium, 0.9, 1000, 5);
    CheckEdge(made, code, "blocked_share", Edge::kFrom);
    CheckSeverities(made, code, "blocked_share", 5);
  }
  CHECK(IsEvidence(Found(report, "a07.pageable")->evidence[0], 0, 0, 100));
  CHECK(IsEvidence(Found(report, "a07.waiting")->evidence[0], 1, 210, 310));
}

TEST_CASE("a07 does not count uploads of 64 KiB or less, which return at once", "[a07]") {
  const auto waiting = [](const char* name, uint64_t bytes) {
    GpuTrace made(1000);
    made.Gpu(GpuKind::kMemcpy, name, 10, 90, made.Call("cudaMemcpy", 0, 100), bytes);
    return Measured(made.Run("a07"), "waiting_copies");
  };

  CHECK(waiting("HtoD, pinned to device", 65'536) == 0);
  CHECK(waiting("HtoD, pinned to device", 65'537) == 1);
  CHECK(waiting("DtoH, device to pinned", 64) == 1);
  CHECK(waiting("DtoD, device to device", kMiB) == 0);
}

TEST_CASE("a07 counts a waiting copy's call from the copy's begin on, within the call", "[a07]") {
  GpuTrace made(1000);
  made.Gpu(GpuKind::kMemcpy, "DtoH, device to pinned", 90, 50, made.Call("cudaMemcpy", 100, 50), kMiB);
  made.Gpu(GpuKind::kMemcpy, "DtoH, device to pinned", 250, 50, made.Call("cudaMemcpy", 200, 40), kMiB);

  CHECK(Measured(made.Run("a07"), "blocked_in_waiting_copies") == 50);
}

TEST_CASE("a08 finds a device bound by copies from twice its computing on, and heavy copies from a share on", "[a08]") {
  GpuTrace made(1000);
  made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", 10, 300, made.Call("cudaMemcpyAsync", 0, 5), kMiB);
  made.Launch("k", 10, 5, 310, 100);

  const analyze::AnalysisReport report = made.Run("a08");

  CHECK(Measured(report, "transfers") == 300);
  CHECK(Measured(report, "exposed_transfers") == 300);
  CHECK(Measured(report, "computing") == 100);
  const std::optional<analyze::FindingRow> bound = Found(report, "a08.transfer_bound");
  CheckFinding(bound, Severity::kHigh, 0.9, 300, 1);
  CHECK(bound->value == Approx(0.75));
  CHECK(bound->recommendation.find("200 us") != std::string::npos);
  CheckEdge(made, "a08.transfer_bound", "bound_share", Edge::kFrom);
  CheckEdge(made, "a08.transfer_bound", "copies_to_kernels", Edge::kFrom, 3);
  const std::optional<analyze::FindingRow> heavy = FoundWith(made, "a08.transfer_heavy", "bound_share", 0.8);
  CheckFinding(heavy, Severity::kMedium, 0.9, 300, 1);
  analyze::AnalyzeOptions unbound;
  unbound.thresholds = {{"a08.bound_share", 0.8}};
  CheckEdge(made, "a08.transfer_heavy", "heavy_share", Edge::kFrom, 0.75, unbound);
}

TEST_CASE("a08 counts copies that neither computing nor communication hides", "[a08]") {
  GpuTrace made(1000);
  made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", 0, 500, kNone, kMiB);
  made.UseStream(13);
  made.Gpu(GpuKind::kKernel, "k", 100, 500, kNone);
  made.UseStream(14);
  made.Gpu(GpuKind::kKernel, "ncclKernel_AllReduce", 0, 50, kNone);

  const analyze::AnalysisReport report = made.Run("a08");

  CHECK(Measured(report, "exposed_transfers") == 50);
  CHECK(report.analyzers[0].findings.empty());
}

// ---- a09 to a12

TEST_CASE("a09 finds stalls from its threshold on, the longest first", "[a09]") {
  GpuTrace made(1000);
  made.Launch("a", 0, 5, 10, 90);
  made.Call("cudaStreamSynchronize", 20, 80);
  made.Launch("b", 150, 5, 160, 40);  // 60 us later
  made.Call("cudaStreamSynchronize", 170, 30);
  made.Launch("c", 210, 5, 220, 100);  // 20 us later
  made.Launch("d", 215, 5, 320, 100);

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a09"), "a09.sync_stalls");

  CheckFinding(finding, Severity::kLow, 0.8, 80, 2);
  CHECK(finding->value == Approx(0.08));
  CHECK(IsEvidence(finding->evidence[0], 1, 100, 160));
  CHECK(IsEvidence(finding->evidence[1], 3, 200, 220));
  CheckEdge(made, "a09.sync_stalls", "stall_share", Edge::kFrom);
  CheckSeverities(made, "a09.sync_stalls", "stall_share");
}

TEST_CASE("a09 counts idle time after a wait once, and only while no GPU works", "[a09]") {
  GpuTrace made(1000);
  made.Launch("a", 0, 5, 10, 90);
  made.Call("cudaStreamSynchronize", 20, 80);
  made.Launch("b", 300, 5, 310, 40);
  made.UseThread();
  made.Call("cudaStreamSynchronize", 30, 70);
  made.UseStream(13);
  made.Launch("another's", 100, 5, 140, 100);
  made.trace.calls.stream[1] = made.trace.calls.stream[3] = 0;

  // From 100 to 140 and from 240 on, 80 us in all: as long as the wait.
  CHECK(Measured(made.Run("a09"), "stalled") == 80);
}

TEST_CASE("layers timed by CUDA events do not say that a GPU was idle", "[a03][a04][a20]") {
  GpuTrace made(10'000);
  made.Gpu(GpuKind::kSpan, "forward", 100, 50, made.Call("CudaEventScope", 90, 1));
  for (const char* analyzer : {"a03", "a04", "a20"}) {
    INFO(analyzer);
    CHECK(made.Run(analyzer).analyzers[0].findings.empty());
  }
}

TEST_CASE("a10 counts slow calls, late kernels and kernels shorter than their calls", "[a10]") {
  GpuTrace made(10'000);
  made.Launch("call of 50 us", 0, 50, 60, 50);
  made.Launch("call of 51 us", 1000, 51, 1060, 40);
  made.Launch("shorter", 2000, 50, 2060, 49);
  made.Launch("100 us late", 3000, 5, 3105, 20);
  made.Launch("101 us late", 4000, 5, 4106, 20);
  made.Launch("early", 5000, 5, 5002, 20);
  made.Gpu(GpuKind::kSpan, "span", 6000, 1, made.Call("cudaEventRecord", 5990, 5));
  made.Gpu(GpuKind::kKernel, "without a call", 7000, 1, kNone);

  const analyze::AnalysisReport report = made.Run("a10");

  CHECK(Measured(report, "launches") == 6);
  CHECK(Measured(report, "slow_calls") == 1);
  CHECK(Measured(report, "slow_launches") == 1);
  CHECK(Measured(report, "shorter_than_call") == 1);
  CHECK(Measured(report, "mean_delay") == Approx((10 + 9 + 10 + 100 + 101 + 0) / 6.0));
  CHECK(Measured(report, "kernels") == 7);
}

TEST_CASE("a10 finds exposed launching above its threshold, and shows the first three short kernels", "[a10]") {
  GpuTrace made(1000);
  for (int64_t i = 0; i < 10; ++i) made.Launch("short", 20 * i, 15, 20 * i + 16, 4);
  for (int64_t i = 10; i < 40; ++i) made.Launch("long", 20 * i, 5, 20 * i + 6, 10);

  const analyze::AnalysisReport report = made.Run("a10");

  CHECK(Measured(report, "short_kernels") == 10);  // not those of 10 us
  const std::optional<analyze::FindingRow> finding = Found(report, "a10.launch_bound");
  CheckFinding(finding, Severity::kMedium, 0.7, 9 * 15 + 30 * 5, 3);  // not more than a quarter are short
  CHECK(finding->value == Approx(285.0 / 780));
  CHECK(IsEvidence(finding->evidence[0], 0, 16, 20));
  CHECK(IsEvidence(finding->evidence[2], 2, 56, 60));
  CheckEdge(made, "a10.launch_bound", "launch_share", Edge::kAbove);
  CheckSeverities(made, "a10.launch_bound", "launch_share");
  CHECK(FoundWith(made, "a10.launch_bound", "short_share", 0.249)->confidence == Approx(0.9));
}

TEST_CASE("a10 blames one call for most of the launching, if that is a long one", "[a10]") {
  GpuTrace made(100'000);
  made.Launch("first", 0, 5, 10, 20);
  made.Launch("loads a module", 40, 11'000, 11'050, 20);
  made.Launch("third", 11'100, 3'000, 14'110, 20);

  CheckFinding(Found(made.Run("a10"), "a10.launch_bound"), Severity::kLow, 0.3, 14'000, 0, true);
  const auto is_one = [&](double ns) {
    return FoundWith(made, "a10.launch_bound", "launch_hole", ns)->is_undetermined;
  };
  CHECK(is_one(10'999'999));
  CHECK_FALSE(is_one(11'000'000));
}

TEST_CASE("a11 measures a queue over its changes, over time, and when it was full", "[a11]") {
  GpuTrace made(1000);
  made.Launch("a", 0, 1, 100, 10);
  made.Launch("b", 50, 1, 150, 10);
  made.Launch("c", 300, 1, 400, 10);
  analyze::AnalyzeOptions options;
  options.thresholds = {{"a11.full_length", 2}};

  const analyze::AnalysisReport report = made.Run("a11", options);

  CHECK(Measured(report, "changes") == 6);
  CHECK(Measured(report, "most") == 2);
  CHECK(Measured(report, "mean_of_changes") == Approx((1 + 2 + 1 + 0 + 1 + 0) / 6.0));
  CHECK(Measured(report, "mean") == Approx((50 + 100 + 50 + 0 + 100) / 400.0));
  CHECK(Measured(report, "empty") == 150);
  CHECK(Measured(report, "full") == 50);
  const std::optional<analyze::FindingRow> full = Found(report, "a11.queue_full");
  CheckFinding(full, Severity::kInfo, 0.9, 50, 1);
  CHECK(IsEvidence(full->evidence[0], 0, 50, 100));
  CheckEdge(made, "a11.queue_full", "full_share", Edge::kAbove, 50.0 / 400, options);
}

TEST_CASE("a11 finds a queue that is empty for more than half of the time", "[a11]") {
  GpuTrace made(1000);
  for (int64_t i = 0; i < 4; ++i) made.Launch("k", 100 * i, 1, 100 * i + 20, 10);

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a11"), "a11.queue_empty");

  CheckFinding(finding, Severity::kInfo, 0.8, 210, 0);
  CHECK(finding->value == Approx(240.0 / 320));
  CheckEdge(made, "a11.queue_empty", "empty_share", Edge::kAbove);
  CheckEdge(made, "a11.queue_empty", "least_idle_share", Edge::kAbove, 210.0 / 320);
}

namespace {

// Once a ms, `times` times, three kernels of 10 us with gaps between them.
GpuTrace Sequence(int times, int64_t gap_us = 20) {
  GpuTrace made(20'000);
  for (int64_t i = 0; i < times; ++i) {
    for (int64_t k = 0; k < 3; ++k) {
      const int64_t at_us = 1000 * i + (10 + gap_us) * k;
      made.Launch(std::string(1, static_cast<char>('a' + k)), at_us, 0, at_us, 10);
    }
  }
  return made;
}

}  // namespace

TEST_CASE("a12 finds sequences that come often enough with enough time in their gaps", "[a12]") {
  const GpuTrace made = Sequence(20);
  const analyze::AnalysisReport report = made.Run("a12");
  const std::string subject = "GPU 0 stream 7: a, b, ... (3 kernels)";

  CHECK(Measured(report, "repeats", subject) == 20);
  CHECK(Measured(report, "kernels", subject) == 20 * 30);
  CHECK(Measured(report, "gaps", subject) == 20 * 40);
  const std::optional<analyze::FindingRow> finding = Found(report, "a12.repeated_sequence");
  CheckFinding(finding, Severity::kLow, 0.7, 800, 1);
  CHECK(finding->value == Approx(0.04));
  CHECK(IsEvidence(finding->evidence[0], 0, 0, 10));
  CHECK(finding->evidence[0].rows == 3);
  CheckEdge(made, "a12.repeated_sequence", "gap_share", Edge::kFrom);
  CheckEdge(made, "a12.repeated_sequence", "least_repeats", Edge::kFrom, 20);
  CHECK(CountOf(report, "repeats") == 3);  // ab, bc and abc
}

TEST_CASE("a12 ends a sequence at a gap longer than its threshold", "[a12]") {
  CHECK(Found(Sequence(20, 100).Run("a12"), "a12.repeated_sequence").has_value());
  CHECK(Sequence(20, 101).Run("a12").analyzers[0].findings.empty());
}

TEST_CASE("a12 counts occurrences of a sequence that do not overlap, and shows five sequences of a stream", "[a12]") {
  GpuTrace made(10'000);
  for (int64_t i = 0; i < 60; ++i) made.Gpu(GpuKind::kKernel, "a", 30 * i, 10, kNone);

  const analyze::AnalysisReport report = made.Run("a12");

  CHECK(Measured(report, "repeats", "GPU 0 stream 7: a, a, ... (3 kernels)") == 20);
  CHECK(Measured(report, "repeats", "GPU 0 stream 7: a, a, ... (8 kernels)") == 7);
  CHECK(Measured(report, "repeats", "GPU 0 stream 7: a, a, ... (12 kernels)") == 5);
  CHECK(CountOf(report, "repeats") == 5);
}

TEST_CASE("a05 takes a request as ready from its queue's entry on, by handoffs to a batch", "[a05]") {
  // Two requests at once; the batch of both begins after 40 ms, and one of them is queued after 10 ms.
  const auto held_up = [](uint32_t batch) {
    GpuTrace made(100'000);
    made.Request(0, 50'000);
    made.Request(0, 50'000);
    made.Batch("unet", 40'000, 10'000, 2);
    made.trace.members[1].request = 1;
    made.trace.handoffs.push_back({1, 0, 0, 0, 10'000'000, 20'000'000, batch});
    return Measured(made.Run("a05"), "loading", "requests");
  };

  CHECK(held_up(0) == 10'000);
  CHECK(held_up(kNone) == 40'000);
}

TEST_CASE("a06 counts small copies of requests, by request", "[a06]") {
  GpuTrace made(1000);
  const uint32_t first = made.Request(0, 900), second = made.Request(0, 900);
  for (const uint32_t request : {first, first, first, second, kNone}) {
    made.For(request);
    const int64_t at_us = 10 + 20 * static_cast<int64_t>(made.trace.gpu.size());
    Copy(&made, "HtoD", at_us, 2, 1024);
  }

  CHECK(Measured(made.Run("a06"), "small_copies_a_request") == 2);
}

TEST_CASE("a08 says what overlap leaves only if copies take longer than kernels", "[a08]") {
  const auto advice = [](int64_t copy_us, int64_t kernel_us) {
    GpuTrace made(1000);
    made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", 10, copy_us, made.Call("cudaMemcpyAsync", 0, 5), kMiB);
    made.Launch("k", 10, 5, 10 + copy_us, kernel_us);
    return Found(made.Run("a08"), "a08.transfer_heavy")->recommendation;
  };

  CHECK(advice(300, 300) == advice(300, 400));
  CHECK(advice(301, 300) != advice(300, 400));
}

TEST_CASE("a11 leaves out spans and work without a call, wherever they are", "[a11]") {
  GpuTrace made(1000);
  made.Gpu(GpuKind::kSpan, "span", 0, 1, made.Call("cudaEventRecord", 0, 1));
  made.Gpu(GpuKind::kKernel, "without a call", 10, 5, kNone);
  made.Launch("k", 20, 1, 100, 10);

  CHECK(Measured(made.Run("a11"), "changes") == 2);
}

}  // namespace pitot::test
