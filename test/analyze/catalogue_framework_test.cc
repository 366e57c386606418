// SPDX-License-Identifier: Apache-2.0
//
// Analyzers of frameworks, allocators and first calls: each on a fault and on a harmless trace that looks like it.
#include <catch2/catch.hpp>
#include <string>

#include "analyze/gpu_trace.h"

namespace pitot::test {

using model::GpuKind;
using model::kNone;

namespace {

constexpr const char *kToPageable = "DtoH, device to pageable", *kToPinned = "DtoH, device to pinned";

// A copy of `bytes` to the host every 100 us, each followed by a wait if `waits`.
GpuTrace Readbacks(uint64_t bytes, bool waits, int count = 40, const char* name = kToPinned) {
  GpuTrace made(10000);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t call = made.Call("cudaMemcpyAsync", 100 * i, 5);
    if (waits) made.Call("cudaStreamSynchronize", 100 * i + 5, 20);
    made.Gpu(GpuKind::kMemcpy, name, 100 * i + 10, 2, call, bytes);
  }
  return made;
}

// `count` requests of 900 us, one a ms; each makes `calls`, 50 us long, after its launch.
GpuTrace Requests(int count, const std::vector<std::string>& calls, int64_t call_us = 50) {
  GpuTrace made(1000 * count);
  for (int64_t i = 0; i < count; ++i) {
    made.For(made.Request(1000 * i, 900));
    made.Launch("k", 1000 * i, 5, 1000 * i + 10, 300);
    int64_t at_us = 1000 * i + 400;
    for (const std::string& call : calls) made.Call(call, at_us, call_us), at_us += call_us;
  }
  return made;
}

}  // namespace

TEST_CASE("a22 finds single values that are read back again and again", "[a22]") {
  const analyze::AnalysisReport report = Readbacks(4, true).Run("a22");

  CHECK(Measured(report, "readbacks") == 40);
  CHECK(Measured(report, "in_readbacks") == 40 * 25);
  const std::optional<analyze::FindingRow> finding = Found(report, "a22.scalar_readback");
  REQUIRE(finding.has_value());
  CHECK(finding->cost_ns == 40 * 25000);
  CHECK(finding->value == Approx(0.1));
  CHECK(finding->evidence.size() == 5);
  // To pageable memory the copy itself waits.
  CHECK(Measured(Readbacks(4, false, 40, kToPageable).Run("a22"), "in_readbacks") == 40 * 5);
}

TEST_CASE("a22 bills a readback for its own time, and not for the kernels that it waited for", "[a22]") {
  const auto run = [](int64_t kernel_us) {
    GpuTrace made(20'000);
    for (int64_t i = 0; i < 20; ++i) {
      made.Launch("k", 1000 * i, 5, 1000 * i + 10, kernel_us);
      made.Gpu(GpuKind::kMemcpy, kToPageable, 1000 * i + kernel_us + 12, 2,
               made.Call("cudaMemcpyAsync", 1000 * i + 6, kernel_us + 24), 4);
    }
    return *Found(made.Run("a22"), "a22.scalar_readback");
  };
  const analyze::FindingRow busy = run(900), idle = run(1);
  CHECK(busy.value == Approx(20 * 924.0 / 20'000));
  CHECK(busy.cost_ns == 20 * 20'000);
  CHECK(busy.severity == Severity::kLow);
  CHECK(idle.value == Approx(20 * 25.0 / 20'000));
  CHECK(idle.cost_ns == 20 * 20'000);
}

TEST_CASE("a22 ignores readbacks that are large, few, or not waited for", "[a22]") {
  CHECK(Readbacks(4096, true).Run("a22").analyzers[0].findings.empty());
  CHECK(Readbacks(4, false).Run("a22").analyzers[0].findings.empty());
  CHECK(Readbacks(4, true, 9).Run("a22").analyzers[0].findings.empty());
}

TEST_CASE("a22 finds requests that give device memory back, but not a single one", "[a22]") {
  const std::optional<analyze::FindingRow> finding = Found(Requests(10, {"cudaFree"}).Run("a22"), "a22.empty_cache");
  REQUIRE(finding.has_value());
  CHECK(finding->value == 1);
  CHECK(finding->cost_ns == 10 * 50000);

  GpuTrace once = Requests(10, {});
  once.Call("cudaFree", 9500, 50);
  CHECK(once.Run("a22").analyzers[0].findings.empty());
  CHECK(Requests(10, {"cudaFreeAsync"}).Run("a22").analyzers[0].findings.empty());
}

TEST_CASE("a22 finds softmax on the CPU in a program with a GPU, but not on the GPU", "[a22]") {
  GpuTrace on_host(1000), on_gpu(1000), without_gpu(1000);
  for (GpuTrace* const made : {&on_host, &on_gpu, &without_gpu}) {
    made->Event(SiteKind::kOperator, "aten::softmax", 500, 100);
    made->Event(SiteKind::kOperator, "aten::_softmax", 510, 80);
  }
  on_host.Launch("gemm", 100, 5, 110, 300);
  on_gpu.Launch("softmax_warp_forward", 520, 5, 530, 300);

  const std::optional<analyze::FindingRow> finding = Found(on_host.Run("a22"), "a22.host_softmax");
  REQUIRE(finding.has_value());
  CHECK(finding->cost_ns == 100000);  // once, not for each of the two
  CHECK(on_gpu.Run("a22").analyzers[0].findings.empty());
  CHECK(without_gpu.Run("a22").analyzers[0].findings.empty());
}

TEST_CASE("a22 finds tensors made on the CPU to be copied, but not loaded ones", "[a22]") {
  GpuTrace made(10000), loaded(10000);
  for (int64_t i = 0; i < 20; ++i) {
    for (GpuTrace* const one : {&made, &loaded}) {
      one->Event(SiteKind::kOperator, one == &made ? "aten::zeros" : "aten::stack", 200 * i, 20);
      one->Event(SiteKind::kOperator, "aten::to", 200 * i + 30, 50);
      one->Gpu(GpuKind::kMemcpy, "HtoD, pageable to device", 200 * i + 50, 10,
               one->Call("cudaMemcpyAsync", 200 * i + 40, 30), 1 << 20);
    }
  }

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a22"), "a22.extra_copy");
  REQUIRE(finding.has_value());
  CHECK(finding->cost_ns == 20 * 80000);
  CHECK_FALSE(Found(loaded.Run("a22"), "a22.extra_copy").has_value());
}

TEST_CASE("a22 finds products of halves whose sizes miss the tensor cores", "[a22]") {
  const auto product = [](const std::string& shapes) {
    GpuTrace made(1000);
    made.Event(SiteKind::kOperator, "aten::mm", 0, 20, {}, shapes);
    made.Launch("gemm", 5, 5, 20, 500);
    return Found(made.Run("a22"), "a22.unaligned_product").has_value();
  };

  CHECK(product("64x100 f16, 100x64 f16"));
  CHECK(product("64x63 bf16, 63x64 bf16"));
  CHECK_FALSE(product("64x128 f16, 128x64 f16"));
  CHECK_FALSE(product("64x100 f32, 100x64 f32"));
  CHECK_FALSE(product("63 f16, 64x128 f16, 128x64 f16"));  // a bias
  CHECK_FALSE(product(""));
}

TEST_CASE("a22 finds autograd in requests, but not outside of them", "[a22]") {
  GpuTrace serving(1000), training(1000), inference(1000);
  for (GpuTrace* const made : {&serving, &training, &inference}) {
    if (made != &training) made->For(made->Request(0, 900));
    made->Event(SiteKind::kOperator, "aten::linear", 100, 50, {{"sequence", made == &inference ? UINT64_MAX : 7}});
    made->Launch("k", 110, 5, 120, 500);
  }

  CHECK(Found(serving.Run("a22"), "a22.autograd_on").has_value());
  CHECK(training.Run("a22").analyzers[0].findings.empty());
  CHECK(inference.Run("a22").analyzers[0].findings.empty());
}

TEST_CASE("a24 finds memory that goes back and forth, and an allocator that holds up requests", "[a24]") {
  const analyze::AnalysisReport thrash = Requests(20, {"cudaMalloc", "cudaFree"}).Run("a24");
  CHECK(Measured(thrash, "allocations") == 17);  // of three warm-up requests, none
  CHECK(Measured(thrash, "in_allocator") == 17 * 100);
  const std::optional<analyze::FindingRow> finding = Found(thrash, "a24.alloc_thrash");
  REQUIRE(finding.has_value());
  CHECK(finding->cost_ns == 17 * 100000);
  CHECK(finding->confidence == Approx(0.9));

  const analyze::AnalysisReport stall = Requests(20, {"cudaMalloc"}).Run("a24");
  CHECK(Found(stall, "a24.alloc_stall").has_value());
  CHECK_FALSE(Found(stall, "a24.alloc_thrash").has_value());
}

TEST_CASE("a24 ignores warm-up and short calls, and is less sure if the warm-up is unknown", "[a24]") {
  GpuTrace warm = Requests(3, {"cudaMalloc", "cudaFree"});
  for (int64_t i = 3; i < 20; ++i) warm.Request(1000 * i, 900);
  warm.trace.window_end_ns = 20'000'000;
  CHECK(warm.Run("a24").analyzers[0].findings.empty());
  CHECK(Requests(20, {"cudaMalloc"}, 5).Run("a24").analyzers[0].findings.empty());

  GpuTrace unknown(1000);
  unknown.Launch("k", 0, 5, 10, 100);
  unknown.Call("cudaMalloc", 200, 300);
  const std::optional<analyze::FindingRow> finding = Found(unknown.Run("a24"), "a24.alloc_stall");
  REQUIRE(finding.has_value());
  CHECK(finding->confidence == Approx(0.5));
}

TEST_CASE("a24 does not take memory freed at the end for back and forth", "[a24]") {
  GpuTrace made = Requests(20, {"cudaMalloc"});
  made.For(kNone);
  for (int64_t i = 0; i < 20; ++i) made.Call("cudaFree", 19500 + 10 * i, 10);

  const analyze::AnalysisReport report = made.Run("a24");

  CHECK(Found(report, "a24.alloc_stall").has_value());
  CHECK_FALSE(Found(report, "a24.alloc_thrash").has_value());
}

TEST_CASE("a24 reports an allocator that had to empty its cache", "[a24]") {
  GpuTrace made = Requests(5, {});
  made.For(4);
  made.Event(SiteKind::kInstant, "cudaMalloc after cached memory was freed", 4100, 0, {{"bytes", 1 << 20}});

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a24"), "a24.alloc_thrash");

  REQUIRE(finding.has_value());
  CHECK(finding->severity == Severity::kHigh);
  CHECK(finding->recommendation.find("Use less") == 0);
}

namespace {

// Launches of a kernel: the first takes `first_us`, and each later one `later_us`.
GpuTrace FirstLaunch(int64_t first_us, int64_t later_us, int64_t slow_one_us = 0) {
  GpuTrace made(20000);
  made.Launch("_Z4gemmv", 0, first_us, first_us + 5, 20);
  for (int64_t i = 1; i < 10; ++i)
    made.Launch("_Z4gemmv", 5000 + 1000 * i, i == 5 && slow_one_us != 0 ? slow_one_us : later_us, 6000 + 1000 * i, 20);
  return made;
}

}  // namespace

TEST_CASE("a25 tells loading of kernels' code from compiling", "[a25]") {
  GpuTrace loaded = FirstLaunch(2000, 10), compiled = FirstLaunch(2000, 10);
  const char* const said = GENERATE("driver compiler", "compiling PTX", "Driver Compiler");
  compiled.trace.overheads.push_back({100'000, 1'500'000, compiled.trace.strings.Add(said)});

  const std::optional<analyze::FindingRow> lazy = Found(loaded.Run("a25"), "a25.lazy_load");
  REQUIRE(lazy.has_value());
  CHECK(lazy->cost_ns == 1'990'000);
  CHECK(lazy->confidence == Approx(0.6));
  CHECK(lazy->summary.find("gemm") != std::string::npos);
  CHECK(lazy->evidence.at(0).first_row == 0);
  const analyze::AnalysisReport report = compiled.Run("a25");
  const std::optional<analyze::FindingRow> jit = Found(report, "a25.jit");
  REQUIRE(jit.has_value());
  CHECK(jit->cost_ns == 1'990'000);
  CHECK(jit->confidence == Approx(1));
  CHECK_FALSE(Found(report, "a25.lazy_load").has_value());
}

TEST_CASE("a25 believes the driver's own records, and calls with telling names", "[a25]") {
  GpuTrace made(10000);
  // As pitot::cupti and PyTorch's profiler name them.
  const char* const said =
      GENERATE("lazy function loading", "Lazy Function Loading", "Runtime Triggered Module Loading", "module loading");
  made.trace.overheads.push_back({0, 300'000, made.trace.strings.Add(said)});
  made.Call("cudaGraphInstantiateWithFlags", 1000, 400);
  made.Call("cuLibraryGetKernel", 2000, 50);

  const analyze::AnalysisReport report = made.Run("a25");

  CHECK(Measured(report, "loading") == 350);
  CHECK(Measured(report, "graphs") == 400);
  REQUIRE(Found(report, "a25.lazy_load").has_value());
  CHECK(Found(report, "a25.lazy_load")->confidence == Approx(1));
  CHECK(Found(report, "a25.graph_capture").has_value());
  CHECK(Found(report, "a25.graph_capture")->confidence == Approx(0.95));
}

TEST_CASE("a25 ignores a first launch that is short, as long as others, or the only one", "[a25]") {
  CHECK(FirstLaunch(150, 10).Run("a25").analyzers[0].findings.empty());
  CHECK(FirstLaunch(800, 10, 900).Run("a25").analyzers[0].findings.empty());
  GpuTrace once(10000);
  once.Launch("_Z4gemmv", 0, 2000, 2010, 20);
  CHECK(once.Run("a25").analyzers[0].findings.empty());
}

}  // namespace pitot::test
