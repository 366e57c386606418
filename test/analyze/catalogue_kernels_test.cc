// SPDX-License-Identifier: Apache-2.0
//
// Analyzers of kernels, by shapes and launches: each on a fault and on a harmless trace that looks like it.
#include <catch2/catch.hpp>
#include <string>

#include "analyze/facts/operator_bytes.h"
#include "analyze/facts/peaks.h"
#include "analyze/gpu_trace.h"

namespace pitot::test {

using model::GpuKind;
using model::kNone;

namespace {

void IsH100(GpuTrace* made) {
  model::DeviceRow& device = made->trace.devices[0];
  device.name = made->trace.strings.Add("NVIDIA H100 80GB HBM3");
  device.multiprocessors = 132;
  device.threads_per_multiprocessor = 2048;
  device.blocks_per_multiprocessor = 32;
  device.registers_per_multiprocessor = 65536;
  device.shared_bytes_per_multiprocessor = 233472;
}

// Ten launches of 100 us.
analyze::AnalysisReport Launched(uint32_t blocks, uint32_t threads, uint32_t registers = 32, bool beside = false,
                                 const std::string& name = "_Z4gemmv", uint32_t threads_per_warp = 0) {
  GpuTrace made(2000);
  IsH100(&made);
  made.trace.devices[0].threads_per_warp = threads_per_warp;
  model::KernelShape shape;
  shape.grid[0] = blocks;
  shape.block[0] = threads;
  shape.grid[1] = shape.grid[2] = shape.block[1] = shape.block[2] = 1;
  shape.registers_per_thread = registers;
  for (int64_t i = 0; i < 10; ++i) made.Shape(made.Gpu(GpuKind::kKernel, name, 100 * i, 100, kNone), shape);
  if (beside) {
    made.UseStream(13);
    made.Gpu(GpuKind::kKernel, "_Z5otherv", 0, 1000, kNone);
  }
  return made.Run("a20");
}

// An operator of `flops` and shapes, with a kernel of `us`; next to 100 us of something else.
analyze::AnalysisReport Operator(const std::string& op, uint64_t flops, const std::string& shapes, int64_t us,
                                 double megahertz = 0, const std::string& device = "NVIDIA H100 80GB HBM3") {
  GpuTrace made(10000);
  IsH100(&made);
  made.trace.devices[0].name = made.trace.strings.Add(device);
  if (megahertz > 0) made.Sample(made.Counter("GPU 0 (NVIDIA H100 80GB HBM3): SM clock", "MHz"), 0, megahertz);
  made.Event(SiteKind::kOperator, op, 0, 50, {{"flops", flops}}, shapes);
  made.Launch("sm90_xmma_gemm", 10, 5, 100, us);
  made.Gpu(GpuKind::kKernel, "other", 5000, 100, kNone);
  return made.Run("a18");
}

constexpr uint64_t kFlops = uint64_t{2} * 4096 * 4096 * 4096;
const std::string kSquare = "4096x4096 f16, 4096x4096 f16";

}  // namespace

TEST_CASE("a02 names the largest costs, and how sure their order is", "[a02]") {
  const auto report_of = [](int64_t requests) {
    GpuTrace made(1000 * requests);
    for (int64_t i = 0; i < requests; ++i) {
      made.For(made.Request(1000 * i, 900));
      made.Launch("_Z4gemmv", 1000 * i, 5, 1000 * i + 10, 400);
      made.Launch("_Z4evenv", 1000 * i + 5, 5, 1000 * i + 410, i % 2 == 0 ? 90 : 101);
      made.Launch("_Z3oddv", 1000 * i + 10, 5, 1000 * i + 520, i % 2 == 0 ? 100 : 90);
    }
    return made.Run("a02");
  };

  const analyze::AnalysisReport report = report_of(100);
  CHECK(Measured(report, "self_gpu", "gemm()") == 100 * 400);
  CHECK(Measured(report, "above_next", "gemm()") == 1);
  CHECK(Measured(report, "others_gpu", "kernels") == 100 * 95);  // enough is covered
  const std::optional<analyze::FindingRow> kernels = Found(report, "a02.kernels");
  REQUIRE(kernels.has_value());
  CHECK(kernels->summary.find("gemm (40.0 ms, 67") != std::string::npos);
  CHECK(kernels->summary.find("ranks 2 and 3 are too close to call") != std::string::npos);
  CHECK((kernels->confidence > 0.3 && kernels->confidence < 0.9));
  CHECK_FALSE(Found(report, "a02.operators").has_value());  // there are none
  const std::optional<analyze::FindingRow> few = Found(report_of(5), "a02.kernels");
  REQUIRE(few.has_value());
  CHECK(few->confidence == Approx(0.5));
  CHECK(few->summary.find("unknown") != std::string::npos);
}

TEST_CASE("a02 names no kernels if none is dear", "[a02]") {
  GpuTrace made(10000);
  for (int64_t i = 0; i < 40; ++i) made.Gpu(GpuKind::kKernel, "k" + std::to_string(i), 20 * i, 10, kNone);
  CHECK_FALSE(Found(made.Run("a02"), "a02.kernels").has_value());
}

TEST_CASE("a20 finds blocks without whole warps, but not those with whole ones", "[a20]") {
  const std::optional<analyze::FindingRow> finding = Found(Launched(132 * 64, 33), "a20.partial_warps");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(1 - 33.0 / 64));
  CHECK(finding->summary.find("gemm") != std::string::npos);
  CHECK_FALSE(Found(Launched(132 * 64, 64), "a20.partial_warps").has_value());
}

TEST_CASE("a20 counts AMD's wavefronts of 64 threads", "[a20]") {
  const auto partial_warps = [](uint32_t threads, uint32_t threads_per_warp) {
    return Found(Launched(132 * 64, threads, 32, false, "_Z4gemmv", threads_per_warp), "a20.partial_warps");
  };
  const std::optional<analyze::FindingRow> finding = partial_warps(32, 64);
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(0.5));
  CHECK_FALSE(partial_warps(64, 64).has_value());
  CHECK_FALSE(partial_warps(32, 32).has_value());
}

TEST_CASE("a20 finds grids that leave multiprocessors empty, unless other kernels run next to them", "[a20]") {
  const std::optional<analyze::FindingRow> finding = Found(Launched(33, 256), "a20.small_grid");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(0.75));
  CHECK(finding->cost_ns == 750000);
  CHECK_FALSE(Found(Launched(132, 256), "a20.small_grid").has_value());
  CHECK(Launched(33, 256, 32, true).analyzers[0].findings.empty());
  CHECK(Launched(33, 256, 32, false, "ncclKernel_AllReduce").analyzers[0].findings.empty());
}

TEST_CASE("a20 costs at most how much shorter the window would be: the host or another device may take as long",
          "[a20]") {
  // Steps of 100 us of a kernel that could take a quarter of that; then the thread computes for `host_us`. A thread
  // that does not wait for the kernel hides it.
  const auto run = [](bool waits, int64_t host_us, int64_t other_us = 0) {
    const int64_t step_us = waits ? 100 + host_us : std::max<int64_t>(100, host_us);
    GpuTrace made(10 * step_us);
    IsH100(&made);
    model::KernelShape shape;
    shape.grid[0] = 33;
    shape.block[0] = 256;
    shape.grid[1] = shape.grid[2] = shape.block[1] = shape.block[2] = 1;
    for (int64_t i = 0; i < 10; ++i) {
      const uint32_t call = made.Call("cudaLaunchKernel", i * step_us, 0);
      if (waits) made.Call("cudaDeviceSynchronize", i * step_us, 100);
      made.Shape(made.Gpu(GpuKind::kKernel, "_Z4gemmv", i * step_us, 100, call), shape);
    }
    if (!waits) made.Call("cudaGetDevice", 10 * step_us - 5, 5);
    if (other_us != 0) {
      made.trace.devices.push_back(made.trace.devices[0]);
      made.trace.devices[1].ordinal = 1;
      made.UseStream(13, 1);
      made.Gpu(GpuKind::kKernel, "_Z5otherv", 0, other_us, kNone);
    }
    return Found(made.Run("a20"), "a20.small_grid");
  };
  const std::optional<analyze::FindingRow> waited_for = run(true, 50), hidden = run(false, 400),
                                           other = run(true, 0, 800);
  REQUIRE((waited_for && hidden && other));
  CHECK(waited_for->cost_ns == 10 * 75'000);
  CHECK(waited_for->severity == Severity::kHigh);
  CHECK(hidden->cost_ns == 0);
  CHECK(hidden->value == Approx(0.75));        // of the time at work, all the same
  CHECK(hidden->severity == Severity::kInfo);  // nothing is to be gained
  CHECK(hidden->summary.find("cost up to 750 us") != std::string::npos);
  CHECK(other->cost_ns == 200'000);
}

TEST_CASE("a20 finds a last wave that leaves the device empty, of few waves and not of many", "[a20]") {
  // 8 blocks of 256 threads fit on a multiprocessor: 1,056 are a wave.
  const std::optional<analyze::FindingRow> finding = Found(Launched(1056 + 1, 256), "a20.tail");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx((2 - 1057.0 / 1056) / 2));
  CHECK_FALSE(Found(Launched(2 * 1056, 256), "a20.tail").has_value());
  CHECK_FALSE(Found(Launched(20 * 1056 + 1, 256), "a20.tail").has_value());
}

TEST_CASE("a20 reports few warps due to registers, without a cost", "[a20]") {
  const std::optional<analyze::FindingRow> finding = Found(Launched(10560, 256, 255), "a20.low_occupancy");
  REQUIRE(finding.has_value());
  CHECK(finding->severity == Severity::kInfo);
  CHECK(finding->cost_ns == 0);
  CHECK_FALSE(Found(Launched(10560, 256, 32), "a20.low_occupancy").has_value());
}

TEST_CASE("the least bytes of an operator follow from its shapes", "[a18]") {
  const auto bytes = [](const char* op, const char* shapes, double flops = 0) {
    return facts::LeastBytes(op, facts::ReadShapes(shapes), flops);
  };
  CHECK(bytes("aten::mm", "3x5 f16, 5x7 f16") == 2 * (15 + 35 + 21));
  CHECK(bytes("aten::addmm", "7 f32, 3x5 f32, 5x7 f32") == 4 * (7 + 15 + 35 + 21));
  CHECK(bytes("aten::bmm", "2x3x5 f32, 2x5x7 f32") == 4 * 2 * (15 + 35 + 21));
  CHECK(bytes("aten::convolution", "2x3x8x8 f32, 4x3x3x3 f32", 2.0 * 2 * 4 * 27 * 36) == 4 * (384 + 108 + 2 * 4 * 36));
  CHECK(bytes("aten::_scaled_dot_product_flash_attention", "1x8x16x64 f16, 1x8x32x64 f16, 1x8x32x64 f16") ==
        2 * (8192 + 16384 + 16384 + 8192));
  CHECK(bytes("aten::mm", "3x5 f16") == 0);
  CHECK(bytes("aten::mm", "3x5 complex64, 5x7 complex64") == 0);
  CHECK(bytes("aten::mm", "symbolic, 5x7 f16") == 0);
  CHECK(bytes("aten::relu", "3x5 f16") == 0);
  CHECK(bytes("aten::mm", "[[3,5],[5,7]]") == 0);
}

TEST_CASE("a device is known by its own name, not by one with the same beginning", "[a18]") {
  using facts::PeaksOf;
  using facts::Precision;
  CHECK(PeaksOf("NVIDIA H100 80GB HBM3", Precision::kF16).flops_per_clock * 132 * 1830e6 ==
        Approx(989e12).epsilon(0.01));
  CHECK(PeaksOf("NVIDIA A100-SXM4-80GB", Precision::kTf32).flops_per_clock * 108 * 1410e6 ==
        Approx(156e12).epsilon(0.01));
  CHECK(PeaksOf("Tesla V100-SXM2-16GB", Precision::kF32).flops_per_clock * 80 * 1530e6 ==
        Approx(15.7e12).epsilon(0.01));
  CHECK(PeaksOf("NVIDIA B200", Precision::kF16).flops_per_clock * 148 * 1850e6 == Approx(2250e12).epsilon(0.01));
  CHECK(PeaksOf("AMD Instinct MI300X", Precision::kF8).flops_per_clock * 304 * 2100e6 == Approx(2615e12).epsilon(0.01));
  CHECK(PeaksOf("NVIDIA GB200", Precision::kF16).bytes_per_ns == 0);
  CHECK(PeaksOf("NVIDIA H100 PCIe", Precision::kF16).bytes_per_ns == 2000);
  CHECK(PeaksOf("NVIDIA A10", Precision::kF16).bytes_per_ns == 600);
  CHECK(PeaksOf("NVIDIA A10G", Precision::kF16).bytes_per_ns == 0);
  CHECK(PeaksOf("NVIDIA L40", Precision::kF16).bytes_per_ns == 0);
  CHECK(PeaksOf("NVIDIA H100 80GB HBM3", Precision::kUnknown).bytes_per_ns == 0);
}

TEST_CASE("a18 tells operators bound by computing from those bound by memory", "[a18]") {
  // 137 Gflop in 180 us are 763 Tflop/s, of 989.
  const analyze::AnalysisReport compute = Operator("aten::mm", kFlops, kSquare, 180);
  CHECK(Measured(compute, "compute_bound") == 180);
  CHECK(Measured(compute, "efficiency") == Approx(0.772).epsilon(0.01));
  CHECK(Found(compute, "a18.compute_bound").has_value());

  // A matrix and a vector: 33.6 MB in 12 us are 2,800 of 3,350 bytes/ns.
  const analyze::AnalysisReport memory =
      Operator("aten::mm", uint64_t{2} * 4096 * 4096, "1x4096 f16, 4096x4096 f16", 12);
  CHECK(Measured(memory, "memory_bound") == 12);
  REQUIRE(Found(memory, "a18.memory_bound").has_value());
  CHECK(Found(memory, "a18.memory_bound")->value == Approx(0.835).epsilon(0.01));
}

TEST_CASE("a18 finds an operator far from both bounds, and its possible saving", "[a18]") {
  const std::optional<analyze::FindingRow> finding =
      Found(Operator("aten::mm", kFlops, kSquare, 1800), "a18.low_efficiency");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(0.0772).epsilon(0.01));
  CHECK(static_cast<double>(finding->cost_ns) == Approx(1800e3 * (1 - 0.0772)).epsilon(0.01));
  // The same at an eighth of the clock is as good as it can be.
  const analyze::AnalysisReport slow = Operator("aten::mm", kFlops, kSquare, 1800, 1830.0 / 8);
  CHECK_FALSE(Found(slow, "a18.low_efficiency").has_value());
}

TEST_CASE("a18 does not guess peaks, bytes or operations", "[a18]") {
  const std::optional<analyze::FindingRow> finding =
      Found(Operator("aten::mm", kFlops, kSquare, 1800, 0, "Some Other GPU"), "a18.unknown");
  REQUIRE(finding.has_value());
  CHECK(finding->is_undetermined);
  CHECK(Found(Operator("aten::mm", kFlops, "4096x4096 f16", 1800), "a18.unknown").has_value());
  CHECK(Operator("aten::relu", 0, kSquare, 1800).analyzers[0].findings.empty());
}

namespace {

// An operator of PyTorch's profiler, ten times, with a kernel of `us` each.
std::vector<analyze::FindingRow> Profiled(const std::string& op, const std::string& sizes, const std::string& type,
                                          int64_t us, const std::string& inputs = "") {
  GpuTrace made(20'000);
  IsH100(&made);
  std::string types = "[";
  for (const char c : sizes) types += c == '[' ? "\"" + type + "\"," : "";
  types.back() = ']';
  for (int64_t i = 0; i < 10; ++i) {
    const uint32_t event = made.Event(SiteKind::kOperator, op, 1000 * i, 50);
    model::SiteRow& site = made.trace.sites[made.trace.events.site[event]];
    made.trace.events.args[event] = static_cast<uint32_t>(made.trace.arg_values.size());
    for (const auto& [name, text] : {std::pair{"shapes", sizes}, {"types", types}, {"inputs", inputs}}) {
      site.arg_names.push_back(made.trace.strings.Add(name));
      site.arg_types.push_back(ArgType::kString);
      made.trace.arg_values.push_back(made.trace.strings.Add(text));
    }
    made.Launch("kernel", 1000 * i + 10, 5, 1000 * i + 20, us);
  }
  return made.Run("a18").analyzers[0].findings;
}
std::string ReasonOf(const std::vector<analyze::FindingRow>& findings) {
  if (findings.empty()) return "no finding";
  const std::string& summary = findings[0].summary;
  const size_t at = summary.find("): ");
  return findings[0].code + (at == std::string::npos ? "" : ": " + summary.substr(at + 3));
}

}  // namespace

TEST_CASE("a18 finds a product far from its roofline in a trace of PyTorch's profiler, and says why", "[a18]") {
  const std::vector<analyze::FindingRow> findings =
      Profiled("aten::mm", "[[256,131072],[131072,512]]", "c10::BFloat16", 1060);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == "a18.low_efficiency");
  CHECK(findings[0].value == Approx(0.0567).epsilon(0.01));
  CHECK(findings[0].summary.find("10 calls at 6 % of the limit set by memory (32.4 Tflop/s, 170 flop/byte)") == 0);
  CHECK(ReasonOf(findings) ==
        "a18.low_efficiency: its output of 256 x 512 is about 8 tiles of 128 x 128, for 132 multiprocessors");
  CHECK(findings[0].recommendation.find("split-K") != std::string::npos);
}

TEST_CASE("a18 names the size that keeps an operator from its roofline", "[a18]") {
  const auto reason = [](const char* op, const char* sizes, int64_t us, const char* type = "c10::BFloat16",
                         const char* inputs = "") { return ReasonOf(Profiled(op, sizes, type, us, inputs)); };
  // 137 Gflop take 139 us at best.
  CHECK(reason("aten::mm", "[[4096,4100],[4100,4096]]", 400) == "a18.shape: its depth of 4100 is not a multiple of 8");
  CHECK(reason("aten::addmm", "[[4097],[4096,4096],[4096,4097]]", 400) ==
        "a18.shape: its number of columns of 4097 is not a multiple of 8");
  CHECK(reason("aten::mm", "[[4096,4100],[4100,4096]]", 900, "float").find("is not a multiple") == std::string::npos);
  CHECK(reason("aten::mm", "[[1536,4096],[4096,1536]]", 50) ==
        "a18.shape: its output of 1536 x 1536 is about 144 tiles of 128 x 128: 1.09 rounds on 132 multiprocessors, the "
        "last mostly empty");
  CHECK(reason("aten::mm", "[[4,4096],[4096,4096]]", 100) ==
        "a18.low_efficiency: it is tall and skinny: 4 x 4096, with a depth of 4096");
  CHECK(reason("aten::_grouped_mm", "[[256,4096],[64,4096,2048]]", 900) ==
        "a18.shape: each of its 64 products has about 4 rows");
  CHECK(reason("aten::_scaled_dot_product_flash_attention", "[[8,32,2048,80],[8,32,2048,80],[8,32,2048,80]]", 900) ==
        "a18.shape: its head dimension of 80 is padded to 96");
  CHECK(reason("aten::_scaled_dot_product_flash_attention", "[[1,8,1,128],[1,8,65536,128],[1,8,65536,128]]", 400) ==
        "a18.shape: it has about 8 blocks of queries and heads, for 132 multiprocessors");
  constexpr const char* kPadded = R"(["","","","[1,1]","[1,1]","[1,1]","False","[0,0]","512"])";
  CHECK(reason("aten::convolution", "[[32,512,56,56],[512,1,3,3]]", 900, "c10::Half", kPadded) ==
        "a18.low_efficiency: it is depthwise: each of its 512 filters reads one channel");
}

TEST_CASE("a18 names the head dimension of FlashAttention, which has lengths before heads", "[a18]") {
  const auto reason = [](const char* sizes, int64_t us) {
    return ReasonOf(Profiled("flash_attn::_flash_attn_forward", sizes, "c10::BFloat16", us));
  };
  CHECK(reason("[[8,2048,32,80],[8,2048,32,80],[8,2048,32,80]]", 900) ==
        "a18.shape: its head dimension of 80 is padded to 96");
  CHECK(reason("[[1,1,8,128],[1,65536,8,128],[1,65536,8,128]]", 400) ==
        "a18.shape: it has about 8 blocks of queries and heads, for 132 multiprocessors");
  CHECK(reason("[[8,2048,32,128],[8,2048,32,128],[8,2048,32,128]]", 1100) == "no finding");
}

TEST_CASE("a18 names no size where the operator is near its roofline, or no size explains it", "[a18]") {
  const std::string square = "[[4096,4096],[4096,4096]]";
  CHECK(ReasonOf(Profiled("aten::mm", square, "c10::BFloat16", 180)) == "a18.compute_bound");
  CHECK(ReasonOf(Profiled("aten::mm", square, "c10::BFloat16", 400)) == "no finding");
  CHECK(ReasonOf(Profiled("aten::mm", square, "c10::BFloat16", 980)) == "a18.low_efficiency");
  // 8 rows are no misfit for a product that memory bounds: 33.6 MB in 12 us.
  CHECK(ReasonOf(Profiled("aten::mm", "[[1,4096],[4096,4096]]", "c10::BFloat16", 12)) == "a18.memory_bound");
}

TEST_CASE("operations follow from the sizes of tensors, and a convolution's also from its stride", "[a18]") {
  using facts::FlopsOf;
  const auto tensors = [](const char* sizes) { return facts::ReadJsonShapes(sizes, "[]"); };
  constexpr const char* kInputs = R"(["","","","[2,2]","[1,1]","[1,1]","False","[0,0]","1"])";
  CHECK(FlopsOf("aten::convolution", tensors("[[2,3,8,8],[4,3,3,3],[4]]"), kInputs) == 2.0 * 2 * 4 * 4 * 4 * 27);
  CHECK(FlopsOf("aten::convolution", tensors("[[2,3,8,8],[4,3,3,3],[4]]"), "") == 0);
  CHECK(FlopsOf("aten::convolution", tensors("[[2,3,8,8],[4,3,3,3],[4]]"),
                R"(["","","","[2,2]","[1,1]","[1,1]","True","[0,0]","1"])") == 0);
  CHECK(FlopsOf("aten::_scaled_dot_product_flash_attention", tensors("[[1,8,16,64],[1,2,32,64],[1,2,32,64]]"), "") ==
        2.0 * 8 * 16 * 32 * 128);
  CHECK(FlopsOf("aten::_grouped_mm", tensors("[[256,16],[4,16,32]]"), "") == 2.0 * 256 * 16 * 32);
  CHECK(FlopsOf("aten::conv2d", tensors("[[2,3,8,8],[4,3,3,3]]"), kInputs) == 0);  // aten::convolution is in it
}

}  // namespace pitot::test
