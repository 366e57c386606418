// SPDX-License-Identifier: Apache-2.0
//
// `pitot roofline` and the roofs of `pitot top`: of layers timed by CUDA events while counters were sampled, and of
// layers with recorded operators.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/gpu_counters.h"
#include "cli/folder.h"
#include "golden.h"
#include "serialize/sample_trace.h"

namespace {

using cli_test::Dump;
using cli_test::Folder;
using cli_test::Result;
using nlohmann::json;
using pitot::ArgType;
using pitot::Depth;
using pitot::SiteKind;
using pitot::base::GpuCounter;
using pitot::model::GpuKind;
using pitot::model::kNone;
using pitot::model::Trace;
using pitot::test::Context;
using pitot::test::TraceMaker;

constexpr int64_t kUs = 1000, kMs = 1'000'000, kBegin = 1'000 * kMs;

struct Server {
  Server() {
    Trace& trace = maker.trace;
    trace.window_begin_ns = kBegin;
    trace.window_end_ns = kBegin + 1'000 * kMs;
    trace.clock = {trace.window_end_ns, 1795228277123456789, trace.window_end_ns, true, 2.1, 40};
    trace.pid = 4242;
    trace.process_name = maker.String("model_server");
    executor = maker.Thread("executor");
    trace.devices.push_back({0, maker.String("NVIDIA H100 80GB HBM3")});
    trace.streams.push_back({0, 1, 7, 0, 0, 0});
    forward = maker.Site(SiteKind::kScope, "forward");
  }
  void Sample(GpuCounter counter, const std::vector<double>& values) {
    const pitot::base::GpuCounterInfo& info = pitot::base::InfoOf(counter);
    Trace& trace = maker.trace;
    trace.counters.push_back({0, maker.String(info.name), maker.String(info.unit)});
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0 && values[i] == values[i - 1]) continue;
      trace.samples.counter.push_back(static_cast<uint32_t>(trace.counters.size() - 1));
      trace.samples.at_ns.push_back(kBegin + static_cast<int64_t>(i) * 4 * kMs);
      trace.samples.value.push_back(values[i]);
    }
  }
  TraceMaker maker;
  uint32_t executor, forward;
};

// Ten batches of 100 ms: an encoder of 48 ms that computes, a head of 24 ms that reads weights, a norm of 2 ms.
Trace SampledLayers() {
  Server server;
  const uint32_t encoder = server.maker.Site(SiteKind::kScope, "encoder"),
                 head = server.maker.Site(SiteKind::kScope, "head"), norm = server.maker.Site(SiteKind::kScope, "norm");
  std::vector<double> tensor, dram, sm;
  const auto span = [&](uint32_t site, const char* name, int64_t at_ns, int64_t ns, Context context) {
    server.maker.Event(server.executor, site, at_ns, 1 * kMs, context);
    server.maker.Call(server.executor, "CudaEventScope", at_ns + 10 * kUs, 1 * kUs, context);
    server.maker.Gpu(0, GpuKind::kSpan, name, at_ns + 100 * kUs - 100 * kUs, ns, server.maker.trace.calls.size() - 1);
  };
  for (int64_t i = 0; i < 10; ++i) {
    const int64_t at_ns = kBegin + i * 100 * kMs;
    const Context context = {
        kNone, server.maker.Batch(100 + static_cast<uint64_t>(i), "gpu-0", server.executor, at_ns, 90 * kMs)};
    server.maker.Event(server.executor, server.forward, at_ns, 80 * kMs, context);
    span(encoder, "encoder", at_ns, 48 * kMs, context);
    span(head, "head", at_ns + 48 * kMs, 24 * kMs, context);
    span(norm, "norm", at_ns + 72 * kMs, 2 * kMs, context);
    for (int64_t k = 0; k < 25; ++k) {
      tensor.push_back(k < 12 ? 62 + static_cast<double>(k % 3) : k < 18 ? 9 : 0);
      dram.push_back(k < 12 ? 31 : k < 18 ? 84 + static_cast<double>(k % 2) : 0);
      sm.push_back(k < 18 ? 95 : 0);
    }
  }
  server.Sample(GpuCounter::kSmActive, sm);
  server.Sample(GpuCounter::kTensorActive, tensor);
  server.Sample(GpuCounter::kDramBandwidth, dram);
  server.Sample(GpuCounter::kSampled, {1});
  return server.maker.Finish();
}

// Blocks of a transformer with recorded operators and kernels.
Trace ShapedLayers() {
  Server server;
  TraceMaker& maker = server.maker;
  pitot::model::DeviceRow& device = maker.trace.devices[0];
  device.multiprocessors = 132;
  device.threads_per_multiprocessor = 2048, device.blocks_per_multiprocessor = 32;
  device.registers_per_multiprocessor = 65536, device.shared_bytes_per_multiprocessor = 233472;
  maker.trace.shapes.push_back({{132, 1, 1}, {384, 1, 1}, 0, 200 << 10, 0, 168});
  maker.trace.shapes.push_back({{4096, 1, 1}, {256, 1, 1}, 0, 0, 0, 64});
  const uint32_t shaped = maker.Site(SiteKind::kOperator, "operator",
                                     {{"", ArgType::kName}, {"flops", ArgType::kUint}, {"shapes", ArgType::kString}});
  maker.trace.sites[shaped].name_is_first_arg = true;
  maker.trace.depths.push_back({kBegin, kBegin + 1'000 * kMs, Depth::kKernels});
  maker.trace.operator_depths = maker.trace.depths;
  int64_t host_ns = kBegin + 1 * kMs, gpu_ns = kBegin + 2 * kMs;
  const auto run = [&](const char* name, uint64_t flops, const char* shapes, const char* kernel, uint32_t shape,
                       int64_t ns) {
    maker.Event(server.executor, shaped, host_ns, 20 * kUs, {}, {maker.String(name), flops, maker.String(shapes)});
    maker.Call(server.executor, "cudaLaunchKernel", host_ns + 5 * kUs, 5 * kUs, {});
    maker.Gpu(0, GpuKind::kKernel, kernel, gpu_ns, ns, maker.trace.calls.size() - 1, shape);
    host_ns += 25 * kUs, gpu_ns += ns + 1 * kUs;
  };
  const auto layer = [&](const char* name, const auto& body) {
    const int64_t begin_ns = host_ns;
    host_ns += 5 * kUs;
    body();
    host_ns += 5 * kUs;
    maker.Event(server.executor, maker.Site(SiteKind::kScope, name), begin_ns, host_ns - begin_ns);
  };
  layer("forward", [&] {
    layer("attention", [&] {
      run("aten::mm", 2 * uint64_t{8192} * 4096 * 12288, "8192x4096 bf16, 4096x12288 bf16", "sm90_gemm_qkv", 0,
          1'240 * kUs);
      run("aten::softmax", 0, "32x8192x8192 bf16", "_Z7softmaxIfEvPT_", 1, 700 * kUs);
    });
    layer("mlp", [&] {
      run("aten::mm", 2 * uint64_t{8192} * 4096 * 16384, "8192x4096 bf16, 4096x16384 bf16", "sm90_gemm_mlp", 0,
          1'600 * kUs);
    });
    layer("head", [&] {
      run("aten::addmm", 2 * uint64_t{8} * 4096 * 128256, "128256 bf16, 8x4096 bf16, 4096x128256 bf16",
          "sm90_gemv_head", 0, 390 * kUs);
    });
    layer("score", [&] {
      run("aten::mm", 2 * uint64_t{64} * 1024 * 1024, "64x1024 f32, 1024x1024 f32", "sgemm_64x64", 1, 40 * kUs);
    });
    layer("sample", [&] { run("aten::sort", 0, "8x128256 f32", "_Z4sortPf", 1, 150 * kUs); });
  });
  return maker.Finish();
}

const json* RowOf(const json& document, const std::string& name) {
  for (const json& row : document["rows"]) {
    if (row["name"] == name) return &row;
  }
  FAIL("there is no row " + name);
  return nullptr;
}

}  // namespace

TEST_CASE("roofline shows which roof binds each layer, by counters or by operators", "[cli]") {
  const Folder folder;
  folder.Write("sampled.pitot", Dump(SampledLayers()));
  folder.Write("shaped.pitot", Dump(ShapedLayers()));

  std::string text;
  for (const char* const arguments : {"sampled.pitot", "shaped.pitot", "shaped.pitot --by op"}) {
    const Result result = folder.Run("roofline " + std::string(arguments));
    CHECK(result.exit_code == 0);
    CHECK(result.err == "");
    text += result.out + "\n";
  }
  CheckGolden("cli_roofline.txt", text);
}

TEST_CASE("roofline writes a page with both pictures", "[cli]") {
  const Folder folder;
  folder.Write("sampled.pitot", Dump(SampledLayers()));
  folder.Write("shaped.pitot", Dump(ShapedLayers()));

  const Result shaped = folder.Run("roofline shaped.pitot -o roofline.html");
  CHECK(shaped.exit_code == 0);
  CHECK(shaped.out == "");
  const std::string page = GoldenText(folder / "roofline.html");
  CHECK(page.find("<circle class=\"dot compute\"") != std::string::npos);
  CHECK(page.find("http") == page.find("http-equiv"));  // needs no network
  CHECK(page.find("<script") == std::string::npos);
  CheckGolden("roofline.html", page);

  REQUIRE(folder.Run("roofline sampled.pitot -o roofline.html").exit_code == 0);
  const std::string counted = GoldenText(folder / "roofline.html");
  CHECK(counted.find("<circle") == std::string::npos);
  CHECK(counted.find("There is no roofline") != std::string::npos);
  CHECK(counted.find("Share of each roof") != std::string::npos);
  CHECK(counted.find("<rect class=\"memory\"") != std::string::npos);
}

TEST_CASE("roofline prints JSON in which an unmeasured value is null", "[cli]") {
  const Folder folder;
  folder.Write("sampled.pitot", Dump(SampledLayers()));

  const json document = json::parse(folder.Run("roofline sampled.pitot --json").out);

  CHECK(document["by"] == "layer");
  CHECK(document["devices"][0]["bytes_per_s"] == 3350e9);
  CHECK(document["ncu"].is_null());
  const json& head = (*RowOf(document, "forward / head"))["roof"];
  CHECK(head["bound"] == "memory");
  CHECK(head["bytes_from"] == "counters");
  CHECK(head["compute_from"] == "counters");
  CHECK(head["flop_per_s"].is_null());
  CHECK(head["samples"] == 60);
  CHECK(head["has_spans"] == true);
  const json& norm = (*RowOf(document, "forward / norm"))["roof"];
  CHECK(norm["gpu_ns"] == 20 * kMs);
  for (const char* const key : {"tensor_share", "memory_share", "compute_share", "bytes_per_s", "bound", "bound_share"})
    CHECK(norm[key].is_null());
}

TEST_CASE("measured peaks replace those of the data sheet", "[cli]") {
  const Folder folder;
  folder.Write("shaped.pitot", Dump(ShapedLayers()));

  const json document =
      json::parse(folder.Run("roofline shaped.pitot --json --peak-flops 700 --peak-bandwidth 3000").out);

  CHECK(document["devices"][0]["peaks_given"] == true);
  CHECK(document["devices"][0]["bytes_per_s"] == 3e12);
  CHECK((*RowOf(document, "forward / mlp"))["roof"]["peak_flop_per_s"].get<double>() == Approx(7e14));
  CHECK(folder.Run("roofline shaped.pitot --peak-flops -1").exit_code == 2);
}

TEST_CASE("top by layer has the roofs and the time by CUDA events", "[cli]") {
  const Folder folder;
  folder.Write("sampled.pitot", Dump(SampledLayers()));
  folder.Write("shaped.pitot", Dump(ShapedLayers()));

  const Result sampled = folder.Run("top --by layer sampled.pitot"), shaped = folder.Run("top --by layer shaped.pitot");
  std::istringstream lines(sampled.out + shaped.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 120);
  CheckGolden("cli_top_roofs.txt", sampled.out + "\n" + shaped.out);
  const json document = json::parse(folder.Run("top --by layer sampled.pitot --json").out);
  CHECK(document["rows"][0]["name"] == "forward / encoder");
  CHECK(document["rows"][0]["span_ns"] == 480 * kMs);
  CHECK(document["rows"][0]["roof"]["bound"] == "compute");
  CHECK((*RowOf(document, "forward"))["roof"].is_null());
}

TEST_CASE("top by kernel has the theoretical occupancy and its limit", "[cli]") {
  const Folder folder;
  folder.Write("shaped.pitot", Dump(ShapedLayers()));

  const json document = json::parse(folder.Run("top --by kernel shaped.pitot --json").out);

  CHECK((*RowOf(document, "sm90_gemm_mlp"))["occupancy_percent"] == 18.75);
  CHECK((*RowOf(document, "sm90_gemm_mlp"))["occupancy_limit"] == "registers");
  CHECK((*RowOf(document, "sort(float*)"))["occupancy_limit"] == "registers");
}

TEST_CASE("roofline reads a trace of PyTorch's profiler with sizes and types of inputs", "[cli]") {
  const Folder folder;
  folder.Write("trace.json", R"({"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 100, "dur": 26,
 "args": {"Input Dims": [[256, 131072], [131072, 512]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 110, "dur": 6,
 "args": {"correlation": 1}},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 130, "dur": 1060,
 "args": {"device": 0, "context": 1, "stream": 7, "correlation": 1}}]})");

  const json document = json::parse(folder.Run("roofline --json trace.json").out);

  CHECK(document["by"] == "op");
  const json& roof = (*RowOf(document, "aten::mm"))["roof"];
  CHECK(roof["flop_per_s"].get<double>() == Approx(32.4e12).epsilon(0.01));
  CHECK(roof["precision"] == "f16");
  CHECK(roof["bound"] == "memory");
}

TEST_CASE("roofline of a dump without GPU work says what records it", "[cli]") {
  const Folder folder;
  Server server;
  server.maker.Event(server.executor, server.forward, kBegin, kMs);
  folder.Write("dump.pitot", Dump(server.maker.Finish()));

  const Result result = folder.Run("roofline dump.pitot");

  CHECK(result.exit_code == 1);
  CHECK(result.out == "");
  CHECK(result.err.find("pitot::gpu::Enable") != std::string::npos);
}
