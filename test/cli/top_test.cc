// SPDX-License-Identifier: Apache-2.0
//
// `pitot top` on the dump of a small network: a forward of two layers run by operators, one replayed as a CUDA graph.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

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
using pitot::model::GpuKind;
using pitot::model::kNone;
using pitot::model::Trace;
using pitot::test::Context;

constexpr int64_t kUs = 1000, kBegin = 1'000'000 * kUs;

class Network {
 public:
  Network() {
    Trace& trace = maker_.trace;
    trace.window_begin_ns = kBegin;
    trace.window_end_ns = kBegin + 20'000 * kUs;
    trace.clock = {trace.window_end_ns, 1795228277123456789, trace.window_end_ns, true, 2.1, 40};
    trace.pid = 4242;
    executor_ = maker_.Thread("executor");
    http_ = maker_.Thread("http-1");
    trace.devices.push_back({0, maker_.String("NVIDIA H100 80GB HBM3"), 132, 2048, 32, 65536, 233472});
    trace.streams.push_back({0, 1, 7, 0, 0, 0});
    trace.shapes.push_back({{392, 1, 1}, {256, 1, 1}, 0, 0, 0, 64});
    trace.shapes.push_back({{64, 2, 1}, {16, 16, 1}, 0, 49152, 0, 168});
    trace.depths.push_back({kBegin, kBegin + 15'000 * kUs, Depth::kOps});
    trace.depths.push_back({kBegin + 15'000 * kUs, kBegin + 20'000 * kUs, Depth::kScopes});
    trace.operator_depths = trace.depths;
    operator_ = maker_.Site(SiteKind::kOperator, "operator", {{"", ArgType::kName}, {"shapes", ArgType::kString}});
    trace.sites[operator_].name_is_first_arg = true;
    forward_ = maker_.Site(SiteKind::kScope, "forward");
    layers_[0] = maker_.Site(SiteKind::kScope, "layer1");
    layers_[1] = maker_.Site(SiteKind::kScope, "layer2");
    decode_ = maker_.Site(SiteKind::kScope, "decode");
  }
  Trace Make() {
    const uint32_t first = maker_.Request(0x8f0c, "/classify", kBegin + 100 * kUs, 9'000 * kUs);
    const uint32_t second = maker_.Request(0x8f0d, "/classify", kBegin + 150 * kUs, 9'000 * kUs);
    const uint32_t batch = maker_.Batch(0x77, "resnet50", executor_, kBegin + 1'000 * kUs, 8'000 * kUs);
    maker_.Member(batch, first, kBegin + 1'000 * kUs);
    maker_.Member(batch, second, kBegin + 1'000 * kUs);
    maker_.Event(http_, decode_, kBegin + 200 * kUs, 700 * kUs, {first});
    Forward(1'000, {kNone, batch});
    Replay(12'000);
    maker_.trace.losses.push_back(
        {http_, pitot::model::LossReason::kOverwritten, kBegin, kBegin + 50 * kUs, 1203, 40960});
    return maker_.Finish();
  }

 private:
  void Operator(const char* name, const char* shapes, int64_t at_us, int64_t us, Context context) {
    maker_.Event(executor_, operator_, kBegin + at_us * kUs, us * kUs, context,
                 {maker_.String(name), maker_.String(shapes)});
  }
  void Launch(const char* kernel, uint32_t shape, int64_t at_us, int64_t begin_us, int64_t ns, Context context,
              const char* path = "") {
    maker_.Call(executor_, *path == 0 ? "cudaLaunchKernel" : "cudaGraphLaunch", kBegin + at_us * kUs, 5 * kUs, context);
    maker_.Gpu(0, GpuKind::kKernel, kernel, kBegin + begin_us * kUs, ns, maker_.trace.calls.size() - 1, shape);
    maker_.trace.gpu.scope_path.back() = maker_.String(path);
  }
  void Forward(int64_t us, Context context) {
    maker_.Event(executor_, forward_, kBegin + us * kUs, 2'000 * kUs, context);
    maker_.Call(executor_, "cudaMemcpyAsync", kBegin + (us + 10) * kUs, 20 * kUs, context);
    maker_.Gpu(0, GpuKind::kMemcpy, "HtoD, pageable to device", kBegin + (us + 30) * kUs, 98'765,
               maker_.trace.calls.size() - 1, kNone, 602112);
    for (int64_t layer = 0; layer < 2; ++layer) {
      const int64_t at_us = us + 100 + 700 * layer, gpu_us = us + 300 + 3'000 * layer;
      maker_.Event(executor_, layers_[layer], kBegin + at_us * kUs, 600 * kUs, context);
      const char* const shapes = layer == 0 ? "8x3x224x224 f32, 64x3x7x7 f32" : "8x64x56x56 f32, 64x64x3x3 f32";
      Operator("aten::conv2d", shapes, at_us + 20, 300, context);
      Operator("aten::convolution", shapes, at_us + 30, 280, context);
      Operator("aten::cudnn_convolution", shapes, at_us + 50, 240, context);
      Launch("sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage3_cudnn", 1,
             at_us + 60, gpu_us, 2'345'678, context);
      Operator("aten::relu_", "8x64x112x112 f32", at_us + 400, 100, context);
      Launch(
          "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_21clamp_min_kernel_cudaEvE_St5arrayIPcLm2EEEEviT0_"
          "T1_",
          0, at_us + 410, gpu_us + 2'400, 51'200, context);
      Launch("triton_poi_fused_add_relu_3", 0, at_us + 550, gpu_us + 2'500, 12'345, context);
    }
    maker_.Call(executor_, "cudaStreamSynchronize", kBegin + (us + 1'500) * kUs, 450 * kUs, context, 0);
  }
  void Replay(int64_t us) {
    Launch("_Z9attentionPf", 1, us, us + 50, 400'000, {},
           "forward / layer2 / aten::scaled_dot_product_attention / aten::_scaled_dot_product_flash_attention");
  }

  pitot::test::TraceMaker maker_;
  uint32_t executor_, http_, operator_, forward_, decode_, layers_[2];
};

void CheckColumns(const std::string& text) {
  CHECK(!text.empty());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 120);
}

// Ignores line breaks.
bool Contains(std::string text, const std::string& part) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("top ranks operators, kernels, layers, scopes, calls and requests by time", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Network().Make()));

  for (const std::string by : {"op", "kernel", "layer", "scope", "call", "request"}) {
    INFO(by);
    const Result result = folder.Run("top dump.pitot --by " + by);
    CHECK(result.exit_code == 0);
    CHECK(result.err == "");
    CheckColumns(result.out);
    CheckGolden("cli_top_" + by + ".txt", result.out);
  }
}

TEST_CASE("top names the ranks that are too close to call", "[cli]") {
  const auto dump_of = [](int64_t even_us) {
    pitot::test::TraceMaker maker;
    maker.trace.window_begin_ns = kBegin;
    maker.trace.window_end_ns = kBegin + 100'000 * kUs;
    const uint32_t thread = maker.Thread("executor");
    const uint32_t dear = maker.Site(SiteKind::kOperator, "aten::dear"),
                   even = maker.Site(SiteKind::kOperator, "aten::even"),
                   odd = maker.Site(SiteKind::kOperator, "aten::odd");
    for (uint32_t i = 0; i < 80; ++i) {
      const int64_t at_ns = kBegin + 1000 * kUs * i;
      const Context context = {maker.Request(1 + i, "/classify", at_ns, 900 * kUs), kNone};
      maker.Event(thread, dear, at_ns, 400 * kUs, context);
      maker.Event(thread, even, at_ns + 400 * kUs, (i % 2 == 0 ? even_us : 90) * kUs, context);
      maker.Event(thread, odd, at_ns + 600 * kUs, (i % 2 == 0 ? 90 : 100) * kUs, context);
    }
    return Dump(maker.Finish());
  };
  const Folder folder;
  folder.Write("alike.pitot", dump_of(100));
  folder.Write("apart.pitot", dump_of(190));

  CHECK(Contains(folder.Run("top alike.pitot").out,
                 "order: ranks 2-3 are too close to call (95 %, by resamples of 80 requests,"));
  CHECK(Contains(folder.Run("top apart.pitot").out, "order: ranks 1-3 are sure (95 %"));
  CHECK_FALSE(Contains(folder.Run("top alike.pitot --sort calls").out, "order:"));
  const json document = json::parse(folder.Run("top alike.pitot --json").out);
  CHECK(document["resampled"] == 80);
  CHECK(document["rows"][0]["above_next"] == 1);
  CHECK((document["rows"][1]["above_next"] > 0.2 && document["rows"][1]["above_next"] < 0.8));
  CHECK(document["rows"][2]["above_next"].is_null());
}

TEST_CASE("top tells shapes apart on request", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Network().Make()));

  const Result by_op = folder.Run("top dump.pitot --group-by-shape"),
               by_kernel = folder.Run("top dump.pitot --by kernel --group-by-shape");

  CheckColumns(by_op.out);
  CheckColumns(by_kernel.out);
  CheckGolden("cli_top_shapes.txt", by_op.out + "\n" + by_kernel.out);
}

TEST_CASE("top has a help text", "[cli]") {
  const Result result = Folder().Run("top --help");
  CHECK(result.exit_code == 0);
  CheckGolden("cli_top_help.txt", result.out);
}

TEST_CASE("top prints JSON in whole ns that add up", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Network().Make()));

  const Result result = folder.Run("top dump.pitot --json --limit 0");

  REQUIRE(result.exit_code == 0);
  const json document = json::parse(result.out);
  CHECK(document["by"] == "op");
  CHECK(document["window_ns"] == 20'000'000);
  CHECK(document["coverage"] == 0.75);
  CHECK((document["operators"]["coverage"] == 0.75 && document["operators"]["batches"] == 1));
  CHECK(document["operators"]["recorded_batches"] == 1);
  CHECK(document["damaged"] == false);
  CHECK(document["losses"]["events"] == 1);
  CHECK(document["losses"]["known_events"] == 1203);
  CHECK(document["totals"]["rows"] == document["rows"].size());
  int64_t cpu_ns = 0, gpu_ns = 0, busy_ns = 0, exposed_ns = 0;
  for (const json& row : document["rows"]) {
    cpu_ns += row["self_cpu_ns"].get<int64_t>(), gpu_ns += row["self_gpu_ns"].get<int64_t>();
    busy_ns += row["gpu_busy_ns"].get<int64_t>(), exposed_ns += row["gpu_exposed_ns"].get<int64_t>();
  }
  CHECK(document["totals"]["self_cpu_ns"] == cpu_ns);
  CHECK(cpu_ns == 800'000);
  CHECK(document["totals"]["self_gpu_ns"] == gpu_ns);
  CHECK(gpu_ns == 98'765 + 2 * (2'345'678 + 51'200 + 12'345) + 400'000);
  CHECK(document["totals"]["gpu_busy_ns"] == busy_ns);
  CHECK(document["totals"]["gpu_exposed_ns"] == exposed_ns);
  const json& row = document["rows"][0];
  CHECK(row["name"] == "aten::cudnn_convolution");
  CHECK(row["shape"].is_null());
  CHECK((row["calls"] == 2 && row["cut_calls"] == 0 && row["gpu_records"] == 2));
  CHECK((row["cpu_total_ns"] == 480'000 && row["cpu_avg_ns"] == 240'000 && row["cpu_p99_ns"] == 240'000));
  CHECK(document["totals"]["gpu_exposed_ns"] == 3'968'446);
  CHECK((row["gpu_busy_ns"] == 4'691'356 && row["gpu_exposed_ns"] == 3'441'356));
  CHECK((row["gpu_total_ns"] == 4'691'356 && row["gpu_p50_ns"] == 2'345'678));
}

TEST_CASE("top by call has the number of calls, their total, mean and maximum, and their share", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Network().Make()));

  const json document = json::parse(folder.Run("top dump.pitot --by call --json").out);
  const json one = json::parse(folder.Run("top dump.pitot --by call --json --request 8f0c").out);

  CHECK(document["by"] == "call");
  CHECK(document["rows"][0]["name"] == "cudaStreamSynchronize");  // by CPU time, although others caused GPU time
  int64_t cpu_ns = 0, gpu_ns = 0;
  for (const json& row : document["rows"]) {
    cpu_ns += row["self_cpu_ns"].get<int64_t>(), gpu_ns += row["self_gpu_ns"].get<int64_t>();
    if (row["name"] != "cudaLaunchKernel") continue;
    CHECK((row["calls"] == 6 && row["cpu_total_ns"] == 30'000));
    CHECK((row["cpu_avg_ns"] == 5'000 && row["cpu_max_ns"] == 5'000));
  }
  CHECK(document["totals"]["self_cpu_ns"] == cpu_ns);
  CHECK(document["totals"]["self_gpu_ns"] == gpu_ns);
  CHECK(one["totals"]["self_cpu_ns"] < cpu_ns);  // without the graph's launch, which was not for this request
  CHECK(folder.Run("top dump.pitot --by call --group-by-shape").exit_code == 2);
}

TEST_CASE("top of one request counts the work for it and for its batches", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Network().Make()));

  const Result result = folder.Run("top dump.pitot --by scope --request 8f0c");
  const json one = json::parse(folder.Run("top dump.pitot --by request --request 8f0c --json").out);

  CHECK(result.exit_code == 0);
  CHECK(Contains(result.out, "decode"));
  CHECK_FALSE(Contains(result.out, "flash_attention"));
  CHECK(Contains(result.out, "its batches are shared with 1 other request"));
  REQUIRE(one["rows"].size() == 1);
  CHECK(one["rows"][0]["request"] == "0000000000008f0c");
  CHECK(one["rows"][0]["self_wait_ns"].is_null());  // requests have no thread of their own
  CHECK(folder.Run("top dump.pitot --by scope --request 0x0000000000008F0C").out == result.out);
  CHECK(folder.Run("top dump.pitot --by scope --request 0000000000008f0c").out == result.out);
  CHECK(folder.Run("top dump.pitot --by scope --request 0000000000008f0").exit_code == 2);  // 8f0c or 8f0d
  const Result none = folder.Run("top dump.pitot --request 1234");
  CHECK(none.exit_code == 1);
  CHECK(Contains(none.err, "there is no request 1234 in dump.pitot"));
  CHECK(Contains(none.err, "`pitot requests --limit 0` lists all"));
  CHECK(folder.Run("top dump.pitot --request r2").exit_code == 1);
}

TEST_CASE("top shows 20 rows, or all of them in JSON, unless --limit is given", "[cli]") {
  pitot::test::TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  const uint32_t thread = maker.Thread("worker");
  for (int i = 0; i < 25; ++i)
    maker.Event(thread, maker.Site(pitot::SiteKind::kScope, "scope " + std::to_string(i)), 10 * i, 5);
  const Folder folder;
  folder.Write("dump.pitot", Dump(maker.Finish()));

  const json all = json::parse(folder.Run("top dump.pitot --by scope --json").out);
  CHECK(all["rows"].size() == 25);
  CHECK(json::parse(folder.Run("top dump.pitot --by scope --json --limit 3").out)["rows"].size() == 3);
  const std::string text = folder.Run("top dump.pitot --by scope").out;
  size_t shown = 0;
  for (const json& row : all["rows"]) shown += Contains(text, row["name"].get<std::string>() + " ");
  CHECK(shown == 20);
}

TEST_CASE("top tells operators that were not recorded, for a request or at all, from operators that did not run",
          "[cli]") {
  pitot::test::TraceMaker maker;
  Trace& trace = maker.trace;
  trace.window_begin_ns = kBegin;
  trace.window_end_ns = kBegin + 1'000 * kUs;
  trace.operator_depths = {{kBegin, kBegin + 400 * kUs, Depth::kScopes},
                           {kBegin + 400 * kUs, kBegin + 1'000 * kUs, Depth::kOps}};
  const uint32_t thread = maker.Thread("executor"), forward = maker.Site(SiteKind::kScope, "forward");
  const uint32_t early = maker.Request(0x8f0c, "/a", kBegin, 300 * kUs);
  maker.Request(0x8f0d, "/a", kBegin + 300 * kUs, 400 * kUs);
  maker.Event(thread, forward, kBegin + 100 * kUs, 100 * kUs, {early});
  const Folder folder;
  folder.Write("dump.pitot", Dump(maker.Finish()));

  const Result none = folder.Run("top dump.pitot --request 8f0c"), part = folder.Run("top dump.pitot --request 8f0d"),
               all = folder.Run("top dump.pitot");

  CHECK((none.exit_code == 1 && part.exit_code == 1 && all.exit_code == 1));
  CHECK(Contains(none.err, "operators were not recorded in the time of request 8f0c"));
  CHECK(Contains(part.err, "operators were recorded in only 75.0 % of the time of request 8f0d"));
  CHECK(Contains(all.err, "operators were recorded in only 60.0 % of the window"));
  CHECK(Contains(folder.Run("top dump.pitot --by scope --request 8f0c").out,
                 "note: operators were recorded in 0.0 % of the request's time"));
}

TEST_CASE("top counts by scope, and says so, if there are no operators and no GPU work", "[cli]") {
  const Folder folder;
  folder.Write("plain.pitot", Dump());
  pitot::test::TraceMaker maker;
  maker.trace.window_end_ns = 1'000 * kUs;
  folder.Write("empty.pitot", Dump(maker.Finish()));

  const Result unasked = folder.Run("top plain.pitot"), asked = folder.Run("top plain.pitot --by scope"),
               empty = folder.Run("top empty.pitot"), program = folder.Run("top plain.pitot --json");

  CHECK(unasked.exit_code == 0);
  CHECK(unasked.err ==
        "pitot: there are no operators and no GPU work in plain.pitot: the rows are scopes (--by scope)\n");
  CHECK(unasked.out == asked.out);
  CHECK(asked.err.empty());
  CHECK(empty.exit_code == 1);
  CHECK(Contains(empty.err, "there are no operators and no GPU work in empty.pitot: LibTorch's collector"));
  CHECK(program.exit_code == 1);
  CHECK(json::parse(program.out)["by"] == "op");
}

TEST_CASE("top suggests only rows that the trace has", "[cli]") {
  const Folder folder;
  pitot::test::TraceMaker maker;
  maker.trace.window_end_ns = 1'000 * kUs;
  maker.Request(7, "/r", 10 * kUs, 5 * kUs);
  folder.Write("requests.pitot", Dump(maker.Finish()));
  folder.Write("scopes.pitot", Dump());

  const Result requests = folder.Run("top requests.pitot"), scopes = folder.Run("top scopes.pitot --by op");

  CHECK(requests.exit_code == 1);
  CHECK_FALSE(Contains(requests.err, "--by scope"));
  CHECK(Contains(requests.err, "`--by request` counts its requests."));
  CHECK(Contains(scopes.err, "`--by scope` counts its scopes."));
}

TEST_CASE("top suggests other options if GPUs worked without any operator", "[cli]") {
  pitot::test::TraceMaker maker;
  maker.trace.window_begin_ns = kBegin;
  maker.trace.window_end_ns = kBegin + 1'000 * kUs;
  maker.trace.devices.push_back({});
  maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
  maker.Call(maker.Thread("executor"), "cudaLaunchKernel", kBegin + 10 * kUs, 5 * kUs, {});
  maker.Gpu(0, GpuKind::kKernel, "gemm", kBegin + 20 * kUs, 100 * kUs, 0);
  const Folder folder;
  folder.Write("dump.pitot", Dump(maker.Finish()));

  const char* const hint = "`--by kernel`, `--by scope` and `--by request` show the time without them";
  CHECK(Contains(folder.Run("top dump.pitot").out, hint));
  CHECK_FALSE(Contains(folder.Run("top dump.pitot --by kernel").out, hint));
}

TEST_CASE("top sorts by a column's name in the table or in JSON", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Network().Make()));
  const auto first = [&](const std::string& arguments) {
    const Result result = folder.Run("top dump.pitot --json --limit 1 " + arguments);
    return result.exit_code == 0 ? json::parse(result.out)["rows"][0]["name"].get<std::string>() : result.err;
  };

  CHECK(first("--sort cpu_total") == "aten::conv2d");
  CHECK(first("--sort 'CPU total'") == "aten::conv2d");
  CHECK(first("--sort 'Host total'") == "aten::conv2d");
  CHECK(first("--sort 'CPU time avg'") == "aten::conv2d");
  CHECK(first("--sort 'Self CUDA'") == "aten::cudnn_convolution");
  CHECK(first("--sort name") == "(compiled: fused_add_relu)");
  CHECK(Contains(first("--sort colour"), "--sort"));
  CHECK(folder.Run("top dump.pitot --sort colour").exit_code == 2);
}

TEST_CASE("top can sort by every column of a table and every field of time", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Network().Make()));
  for (const char* const column :
       {"Self host %", "Self host",     "Host total %", "Host total",  "Host time avg", "Self CUDA", "Self CUDA %",
        "CUDA total",  "CUDA time avg", "# of Calls",   "Host p50",    "Host p99",      "CUDA p50",  "CUDA p99",
        "CUDA busy",   "CUDA exposed",  "GPU records",  "Total FLOPs", "Name",          "gpu_p99",   "cpu_p50",
        "gpu_records", "flops",         "Self waiting", "self_wait",   "Host max",      "cpu_max",   "Self CPU"}) {
    INFO(column);
    CHECK(folder.Run("top dump.pitot --sort '" + std::string(column) + "'").exit_code == 0);
  }
}

TEST_CASE("waits and percentiles of GPU time have columns if the names keep enough room", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Network().Make()));
  const auto line_of = [](const std::string& text, const std::string& name) {
    const size_t at = text.find("\n" + name + " ") + 1;
    return text.substr(at, text.find('\n', at) - at);
  };

  const std::string wide = folder.Run("top dump.pitot --by scope --width 160").out,
                    narrow = folder.Run("top dump.pitot --by scope").out;
  CHECK(Contains(wide, " waiting "));
  CHECK(Contains(line_of(wide, "forward"), " 800us   470us "));
  CHECK(Contains(line_of(wide, "aten::conv2d"), " 2.35ms 2.35ms "));
  CHECK_FALSE(Contains(narrow, " waiting  "));
  CHECK(Contains(narrow, "Self host time total: 2.70ms, 470us of it waiting"));
  CHECK_FALSE(Contains(folder.Run("top dump.pitot --width 160").out, "waiting"));  // no operator waits
}

TEST_CASE("floating point operations have three digits at any size", "[cli]") {
  pitot::test::TraceMaker maker;
  maker.trace.window_begin_ns = kBegin;
  maker.trace.window_end_ns = kBegin + 1'000 * kUs;
  const uint32_t thread = maker.Thread("executor");
  const uint32_t site = maker.Site(SiteKind::kOperator, "operator",
                                   {{"", ArgType::kName}, {"flops", ArgType::kUint}, {"shapes", ArgType::kString}});
  maker.trace.sites[site].name_is_first_arg = true;
  int64_t at_us = 0;
  for (const uint64_t flops : {uint64_t{70}, uint64_t{5'120}, uint64_t{3'670'000}, uint64_t{999'800'000'000}})
    maker.Event(thread, site, kBegin + ++at_us * 10 * kUs, kUs, {},
                {maker.String(("of " + std::to_string(flops)).c_str()), flops, maker.String("3x5 f32")});
  const Folder folder;
  folder.Write("dump.pitot", Dump(maker.Finish()));

  const std::string text = folder.Run("top dump.pitot --group-by-shape --width 160").out;

  for (const char* const flops : {" 70.0 ", " 5.12K ", " 3.67M ", " 1.00T "}) CHECK(Contains(text, flops));
}

TEST_CASE("instantiations of a template are told apart at any width and limit", "[cli]") {
  pitot::test::TraceMaker maker;
  Trace& trace = maker.trace;
  trace.window_begin_ns = kBegin;
  trace.window_end_ns = kBegin + 1'000 * kUs;
  trace.devices.push_back({0, maker.String("NVIDIA H100 80GB HBM3"), 132, 2048, 32, 65536, 233472});
  trace.streams.push_back({0, 1, 7, 0, 0, 0});
  const std::string before =
                        "void at::native::(anonymous namespace)::vectorized_elementwise_kernel_with_a_long_name<4, ",
                    after = ", std::array<char*, 2ul> >(int, float, std::array<char*, 2ul>)";
  for (int i = 0; i < 2; ++i)
    maker.Gpu(0, GpuKind::kKernel,
              before + (i == 0 ? "at::native::AddFunctor<float>" : "at::native::FillFunctor<float>") + after,
              kBegin + (1 + i) * 100 * kUs, (9 - i) * kUs, kNone);
  const Folder folder;
  folder.Write("dump.pitot", Dump(maker.Finish()));

  const std::string both = folder.Run("top dump.pitot --by kernel").out,
                    one = folder.Run("top dump.pitot --by kernel --limit 1").out,
                    whole = folder.Run("top dump.pitot --by kernel --width 0").out;

  for (const std::string& text : {both, whole}) {
    CHECK(Contains(text, "<AddFunctor>"));
    CHECK(Contains(text, "<FillFunctor>"));
  }
  CheckColumns(both);
  CHECK(Contains(one, "<AddFunctor>"));
  CHECK(Contains(whole, "vectorized_elementwise_kernel_with_a_long_name<AddFunctor>"));
}

TEST_CASE("top has no GPU time of requests that were not recorded, and says so", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(incident::MakeGpuTrace()));  // recorded from 500 ms on

  const std::string text = folder.Run("top dump.pitot --by request --sort name --limit 0").out;
  const json all = json::parse(folder.Run("top dump.pitot --by request --json").out);

  CHECK(text.find("; -: not recorded") != std::string::npos);
  for (const json& row : all["rows"]) {
    if (row["request"] == "0000000000000100")
      for (const char* const key :
           {"gpu_records", "self_gpu_ns", "gpu_total_ns", "gpu_avg_ns", "gpu_busy_ns", "gpu_exposed_ns"})
        CHECK(row[key].is_null());
    if (row["request"] == "0000000000008f0c") CHECK(row["self_gpu_ns"].get<int64_t>() > 0);
  }
}

TEST_CASE("top refuses wrong arguments and files", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump(Network().Make()));
  folder.Write("garbage", std::string(10000, 'x'));
  folder.Write("plain.pitot", Dump());
  const std::string whole = Dump(Network().Make());
  folder.Write("cut.pitot", whole.substr(0, whole.size() - 10));

  CHECK(folder.Run("top").exit_code == 2);
  CHECK(folder.Run("top dump.pitot --by colour").exit_code == 2);
  CHECK(folder.Run("top dump.pitot --by layer --group-by-shape").exit_code == 2);
  CHECK(folder.Run("top none.pitot").exit_code == 3);
  CHECK(folder.Run("top cut.pitot").exit_code == 4);
  CHECK(Contains(folder.Run("top cut.pitot").out, "the dump is damaged"));
  CHECK(folder.Run("top garbage").exit_code == 5);
  const Result plain = folder.Run("top plain.pitot --by op");
  CHECK(plain.exit_code == 1);
  CHECK(Contains(plain.err,
                 "there are no operators and no GPU work in plain.pitot: LibTorch's collector records operators"));
  const Result kernels = folder.Run("top plain.pitot --by kernel");
  CHECK(kernels.exit_code == 1);
  CHECK(Contains(kernels.err, "CUPTI's collector records kernels at depth kernels (docs/guide/kernels.md)"));
  CHECK(folder.Run("top plain.pitot --by scope").exit_code == 0);
}

TEST_CASE("top by layer without time on a GPU says so, and why", "[cli]") {
  const Folder folder;
  const auto notes = [&](const char* key, const char* value) {
    pitot::test::TraceMaker maker;
    maker.trace.window_begin_ns = kBegin;
    maker.trace.window_end_ns = kBegin + 1'000 * kUs;
    const uint32_t thread = maker.Thread("executor");
    maker.Event(thread, maker.Site(SiteKind::kScope, "forward"), kBegin, 500 * kUs);
    if (*key != '\0') maker.trace.attributes.push_back({maker.String(key), maker.String(value)});
    folder.Write("dump.pitot", Dump(maker.Finish()));
    return folder.Run("top dump.pitot --by layer").out;
  };
  CHECK(Contains(notes("counters.no_gpu", "this process has used no GPU"),
                 "no layer was timed on a GPU (this process has used no GPU); `pitot doctor`"));
  CHECK(Contains(notes("cuda_events.before_driver", "999"),
                 "no layer was timed on a GPU (the process had not loaded CUDA's driver); `pitot doctor`"));
  CHECK(Contains(notes("", ""), "no layer was timed on a GPU; `pitot doctor`"));

  folder.Write("dump.pitot", Dump(Network().Make()));
  CHECK_FALSE(Contains(folder.Run("top dump.pitot --by layer").out, "no layer was timed"));
}
