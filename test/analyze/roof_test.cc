// SPDX-License-Identifier: Apache-2.0
//
// How close layers and operators come to the peaks of their device, in the tables of pitot/analyze/top.h.
#include <catch2/catch.hpp>
#include <string>

#include "analyze/facts/operator_bytes.h"
#include "base/gpu_counters.h"
#include "pitot/analyze/top.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using analyze::TopBound;
using analyze::TopBy;
using analyze::TopEvidence;
using analyze::TopOptions;
using analyze::TopRoof;
using analyze::TopRow;
using analyze::TopTable;
using base::GpuCounter;
using model::GpuKind;
using model::kNone;
using model::Trace;

namespace {

constexpr int64_t kUs = 1000, kMs = 1'000'000;

TopTable Roofs(const Trace& trace, TopBy by, TopOptions options = {}) {
  options.by = by;
  options.finds_roofs = true;
  TopTable table;
  const Status status = FindTop(trace, options, &table);
  INFO(status.message());
  REQUIRE(status.ok());
  return table;
}
TopRow RowOf(const TopTable& table, const std::string& name) {
  for (const TopRow& row : table.rows) {
    if (row.name == name) return row;
  }
  FAIL("there is no row " + name);
  return {};
}
TopRoof RoofOf(const TopTable& table, const std::string& name) { return RowOf(table, name).roof; }

// An H100 and a thread in "forward".
struct Machine {
  Machine() {
    maker.trace.window_end_ns = 1000 * kMs;
    thread = maker.Thread("executor");
    maker.trace.devices.push_back({0, maker.String("NVIDIA H100 80GB HBM3"), 132, 2048, 32, 65536, 233472});
    maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
    forward = maker.Site(SiteKind::kScope, "forward");
    layer = maker.Site(SiteKind::kScope, "layer1");
    shaped = maker.Site(SiteKind::kOperator, "operator",
                        {{"", ArgType::kName}, {"flops", ArgType::kUint}, {"shapes", ArgType::kString}});
    maker.trace.sites[shaped].name_is_first_arg = true;
  }
  void Operator(const char* name, uint64_t flops, const char* shapes, int64_t begin_ns, int64_t ns) {
    maker.Event(thread, shaped, begin_ns, ns, {}, {maker.String(name), flops, maker.String(shapes)});
  }
  void Launch(int64_t call_ns, int64_t begin_ns, int64_t ns, const char* kernel = "sm90_gemm") {
    maker.Call(thread, "cudaLaunchKernel", call_ns, 1, {});
    maker.Gpu(0, GpuKind::kKernel, kernel, begin_ns, ns, maker.trace.calls.size() - 1);
  }
  void Span(const char* name, int64_t call_ns, int64_t begin_ns, int64_t ns) {
    maker.Call(thread, "CudaEventScope", call_ns, 1, {});
    maker.Gpu(0, GpuKind::kSpan, name, begin_ns, ns, maker.trace.calls.size() - 1);
  }
  // Samples of a counter `every_ns` apart.
  void Sample(GpuCounter counter, int64_t begin_ns, int64_t every_ns, const std::vector<double>& values) {
    const base::GpuCounterInfo& info = base::InfoOf(counter);
    maker.trace.counters.push_back({0, maker.String(info.name), maker.String(info.unit)});
    const auto row = static_cast<uint32_t>(maker.trace.counters.size() - 1);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0 && values[i] == values[i - 1]) continue;  // as the collector does
      maker.trace.samples.counter.push_back(row);
      maker.trace.samples.at_ns.push_back(begin_ns + static_cast<int64_t>(i) * every_ns);
      maker.trace.samples.value.push_back(values[i]);
    }
  }
  TraceMaker maker;
  uint32_t thread, forward, layer, shaped;
};

constexpr uint64_t kSquareFlops = uint64_t{2} * 4096 * 4096 * 4096;
constexpr char kSquare[] = "4096x4096 f16, 4096x4096 f16";

}  // namespace

TEST_CASE("a layer's rate is that of its operators, over the time of the kernels they launched", "[roof]") {
  Machine made;
  made.maker.Event(made.thread, made.forward, 0, 900 * kUs);
  made.Operator("aten::mm", kSquareFlops, kSquare, 100 * kUs, 50 * kUs);
  made.Launch(110 * kUs, 1000 * kUs, 180 * kUs);
  made.Launch(500 * kUs, 2000 * kUs, 700 * kUs, "custom");  // of no operator
  const TopTable table = Roofs(made.maker.Finish(), TopBy::kLayer);

  // 137 Gflop in 180 us are 763 Tflop/s, of 989.
  const TopRoof roof = RoofOf(table, "forward");
  CHECK(roof.gpu_ns == 880 * kUs);
  CHECK(roof.flop_per_s == Approx(763.5e12).epsilon(0.001));
  CHECK(roof.compute_share == Approx(0.772).epsilon(0.01));
  CHECK(roof.compute_from == TopEvidence::kOperators);
  CHECK(std::string(roof.precision) == "f16");
  CHECK(roof.bytes_per_s == Approx(3 * 2 * 4096.0 * 4096 / 180e-6));
  CHECK(roof.bytes_from == TopEvidence::kOperators);
  CHECK(roof.flop_per_byte == Approx(4096 / 3.0));
  CHECK(roof.bound == TopBound::kCompute);
  CHECK(roof.tensor_share < 0);
  REQUIRE(table.devices.size() == 1);
  CHECK(table.devices[0].bytes_per_s == 3350e9);
}

TEST_CASE("an operator has the kernels of its children, and its own roof", "[roof]") {
  Machine made;
  made.Operator("aten::mm", uint64_t{2} * 4096 * 4096, "1x4096 f16, 4096x4096 f16", 100 * kUs, 50 * kUs);
  made.Operator("aten::child", 0, "", 110 * kUs, 10 * kUs);
  made.Launch(112 * kUs, 1000 * kUs, 12 * kUs);
  const TopTable table = Roofs(made.maker.Finish(), TopBy::kOperator);

  const TopRoof roof = RoofOf(table, "aten::mm");
  CHECK(RowOf(table, "aten::mm").self_gpu_ns == 0);
  CHECK(roof.gpu_ns == 12 * kUs);
  CHECK(roof.memory_share == Approx(0.835).epsilon(0.01));
  CHECK(roof.bound == TopBound::kMemory);
  CHECK(roof.BoundShare() == roof.memory_share);
}

TEST_CASE("operators without kernels, and kernels of graphs, give a layer no rate", "[roof]") {
  Machine made;
  made.maker.Event(made.thread, made.forward, 0, 900 * kUs);
  made.Operator("aten::mm", kSquareFlops, kSquare, 100 * kUs, 50 * kUs);
  made.Launch(110 * kUs, 1000 * kUs, 180 * kUs);
  SECTION("of the CPU") { made.maker.trace.calls.begin_ns[0] = 300 * kUs; }
  SECTION("of a graph") { made.maker.trace.gpu.graph[0] = 5; }
  const TopRoof roof = Roofs(made.maker.Finish(), TopBy::kLayer).rows.front().roof;

  CHECK(roof.flop_per_s == TopRoof::kUnknown);
  CHECK(roof.compute_share == TopRoof::kUnknown);
  CHECK(roof.bytes_per_s == TopRoof::kUnknown);
  CHECK(roof.bound == TopBound::kUnknown);
}

TEST_CASE("sizes and types of PyTorch's profiler give the operations of a product", "[roof]") {
  Machine made;
  const uint32_t mm =
      made.maker.Site(SiteKind::kOperator, "aten::mm", {{"shapes", ArgType::kString}, {"types", ArgType::kString}});
  made.maker.Event(
      made.thread, mm, 100 * kUs, 50 * kUs, {},
      {made.maker.String("[[256,131072],[131072,512]]"), made.maker.String("[\"c10::BFloat16\",\"c10::BFloat16\"]")});
  made.Launch(110 * kUs, 1000 * kUs, 1060 * kUs);

  const TopRoof roof = RoofOf(Roofs(made.maker.Finish(), TopBy::kOperator), "aten::mm");
  CHECK(roof.flop_per_s == Approx(32.4e12).epsilon(0.01));
  CHECK(std::string(roof.precision) == "f16");
  CHECK(roof.flop_per_byte == Approx(170).epsilon(0.01));
  CHECK(roof.BoundShare() == Approx(0.057).epsilon(0.02));
}

TEST_CASE("lists of tensors and unknown types end what sizes say", "[roof]") {
  using facts::FlopsOf;
  using facts::ReadJsonShapes;
  CHECK(FlopsOf("aten::bmm", ReadJsonShapes("[[2,3,5],[2,5,7]]", "[\"float\",\"float\"]"), "") == 2 * 2 * 3 * 5 * 7);
  CHECK(FlopsOf("aten::addmm", ReadJsonShapes("[[7],[3,5],[5,7],[]]", "[]"), "") == 2 * 3 * 5 * 7);
  CHECK(ReadJsonShapes("[[3,5],[5,7]]", "[\"float\",\"Scalar\"]")[0].type == "f32");
  CHECK(ReadJsonShapes("[[3,5],[5,7]]", "[\"float\",\"Scalar\"]")[1].type == "");
  CHECK(ReadJsonShapes("[[[3,5],[5,7]],[1]]", "[]").empty());
  CHECK(ReadJsonShapes("[[3,5", "[]").empty());
  CHECK(FlopsOf("aten::mm", ReadJsonShapes("[[3,5]]", "[]"), "") == 0);
  CHECK(FlopsOf("aten::relu", ReadJsonShapes("[[3,5],[5,7]]", "[]"), "") == 0);
}

TEST_CASE("measured peaks take the place of the data sheet's", "[roof]") {
  Machine made;
  made.maker.trace.devices[0].name = made.maker.String("Some Other GPU");
  made.maker.Event(made.thread, made.forward, 0, 900 * kUs);
  made.Operator("aten::mm", kSquareFlops, kSquare, 100 * kUs, 50 * kUs);
  made.Launch(110 * kUs, 1000 * kUs, 180 * kUs);
  const Trace trace = made.maker.Finish();

  CHECK(RoofOf(Roofs(trace, TopBy::kLayer), "forward").compute_share == TopRoof::kUnknown);
  CHECK(RoofOf(Roofs(trace, TopBy::kLayer), "forward").flop_per_s > 0);
  TopOptions options;
  options.peak_flop_per_s = 800e12;
  options.peak_bytes_per_s = 3000e9;
  const TopRoof roof = RoofOf(Roofs(trace, TopBy::kLayer, options), "forward");
  CHECK(roof.compute_share == Approx(763.5 / 800).epsilon(0.001));
  CHECK(roof.bound == TopBound::kCompute);
}

TEST_CASE("counters give a layer timed by CUDA events its shares of both roofs", "[roof]") {
  Machine made;
  made.maker.Event(made.thread, made.forward, 0, 100 * kMs);
  made.Span("forward", 1 * kMs, 10 * kMs, 30 * kMs);
  // Samples at 10, 14, ... ms: seven lie in the span, the eighth reaches over its end.
  made.Sample(GpuCounter::kSampled, 0, 1, {1});
  made.Sample(GpuCounter::kTensorActive, 2 * kMs, 4 * kMs, {0, 0, 20, 20, 20, 20, 20, 20, 20, 90, 0, 0});
  made.Sample(GpuCounter::kDramBandwidth, 2 * kMs, 4 * kMs, {0, 0, 60, 60, 60, 60, 60, 60, 74, 90, 0, 0});
  made.maker.trace.attributes.push_back({made.maker.String("counters.0.interval_us"), made.maker.String("4000")});
  const Trace trace = made.maker.Finish();
  const TopTable table = Roofs(trace, TopBy::kLayer);

  const TopRow row = RowOf(table, "forward");
  CHECK((row.spans == 1 && row.span_ns == 30 * kMs && row.self_gpu_ns == 0));
  CHECK((row.roof.gpu_ns == 30 * kMs && row.roof.has_spans));
  CHECK(row.roof.samples == 7);
  CHECK(row.roof.tensor_share == Approx(0.2));
  CHECK(row.roof.memory_share == Approx(0.62));
  CHECK(row.roof.bytes_per_s == Approx(0.62 * 3350e9));
  CHECK((row.roof.compute_from == TopEvidence::kCounters && row.roof.bytes_from == TopEvidence::kCounters));
  CHECK(row.roof.bound == TopBound::kMemory);
  CHECK(row.roof.flop_per_s == TopRoof::kUnknown);
  CHECK(row.roof.flop_per_byte == TopRoof::kUnknown);
  // A measured peak changes the share, not what was measured.
  TopOptions options;
  options.peak_bytes_per_s = 3000e9;
  const TopRow measured = RowOf(Roofs(trace, TopBy::kLayer, options), "forward");
  CHECK(measured.roof.bytes_per_s == Approx(0.62 * 3350e9));
  CHECK(measured.roof.memory_share == Approx(0.62 * 3350 / 3000));
  CHECK(row.roof.sm_share == TopRoof::kUnknown);
}

TEST_CASE("a layer too short for two samples has no counter values", "[roof]") {
  Machine made;
  made.maker.Event(made.thread, made.forward, 0, 100 * kMs);
  made.Sample(GpuCounter::kSampled, 0, 1, {1});
  made.Sample(GpuCounter::kTensorActive, 0, 4 * kMs, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  made.Sample(GpuCounter::kDramBandwidth, 0, 4 * kMs, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  SECTION("one sample") { made.Span("forward", 1 * kMs, 4 * kMs, 5 * kMs); }
  SECTION("many calls, each shorter than a sample") {
    for (int64_t i = 0; i < 8; ++i) made.Span("forward", (1 + i) * kMs, 4 * i * kMs, 3 * kMs);
  }
  const TopRoof roof = RoofOf(Roofs(made.maker.Finish(), TopBy::kLayer), "forward");

  CHECK(roof.tensor_share == TopRoof::kUnknown);
  CHECK(roof.memory_share == TopRoof::kUnknown);
  CHECK(roof.bytes_per_s == TopRoof::kUnknown);
  CHECK(roof.samples == 0);
}

TEST_CASE("counters far below both roofs name none, and other units may be the bound", "[roof]") {
  Machine made;
  made.maker.Event(made.thread, made.forward, 0, 100 * kMs);
  made.Span("forward", 1 * kMs, 10 * kMs, 30 * kMs);
  made.Sample(GpuCounter::kSampled, 0, 1, {1});
  made.Sample(GpuCounter::kTensorActive, 2 * kMs, 4 * kMs, {0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0});
  made.Sample(GpuCounter::kDramBandwidth, 2 * kMs, 4 * kMs, {0, 0, 10, 10, 10, 10, 10, 10, 10, 10, 0, 0});
  made.maker.trace.attributes.push_back({made.maker.String("counters.0.interval_us"), made.maker.String("4000")});
  const TopRoof roof = RoofOf(Roofs(made.maker.Finish(), TopBy::kLayer), "forward");
  CHECK(roof.memory_share == Approx(0.1));
  CHECK(roof.bound == TopBound::kUnknown);
}

TEST_CASE("a counter without a sample gives no value", "[roof]") {
  Machine made;
  made.maker.Event(made.thread, made.forward, 0, 100 * kMs);
  made.Span("forward", 1 * kMs, 10 * kMs, 30 * kMs);
  made.Sample(GpuCounter::kSampled, 0, 1, {1});
  made.Sample(GpuCounter::kDramBandwidth, 0, 4 * kMs, {});
  made.maker.trace.attributes.push_back({made.maker.String("counters.0.interval_us"), made.maker.String("4000")});
  CHECK(RoofOf(Roofs(made.maker.Finish(), TopBy::kLayer), "forward").memory_share == TopRoof::kUnknown);
}

TEST_CASE("time that was not sampled gives no counter values", "[roof]") {
  Machine made;
  made.maker.Event(made.thread, made.forward, 0, 100 * kMs);
  made.Span("forward", 1 * kMs, 12 * kMs, 40 * kMs);
  made.Sample(GpuCounter::kSampled, 0, 12 * kMs, {1, 0});
  made.Sample(GpuCounter::kDramBandwidth, 0, 4 * kMs, {10, 20, 30});

  CHECK(RoofOf(Roofs(made.maker.Finish(), TopBy::kLayer), "forward").memory_share == TopRoof::kUnknown);
}

TEST_CASE("a span belongs to the open scope of its name, or to the next one that begins", "[roof]") {
  Machine made;
  made.maker.Event(made.thread, made.forward, 0, 90 * kMs);
  made.maker.Event(made.thread, made.layer, 20 * kMs, 10 * kMs);
  made.Span("forward", 1 * kMs, 2 * kMs, 3 * kMs);
  made.Span("layer1", 20 * kMs - 300, 21 * kMs, 5 * kMs);  // enqueued just before its scope
  made.Span("forward", 25 * kMs, 31 * kMs, 2 * kMs);       // in a scope that is not timed
  made.Span("by hand", 50 * kMs, 51 * kMs, 1 * kMs);
  made.maker.Gpu(0, GpuKind::kSpan, "forward", 60 * kMs, 7 * kMs, kNone);
  const TopTable table = Roofs(made.maker.Finish(), TopBy::kLayer);

  CHECK(RowOf(table, "forward").span_ns == 5 * kMs);
  CHECK(RowOf(table, "forward / layer1").span_ns == 5 * kMs);
  CHECK(RowOf(table, "forward / by hand").span_ns == 1 * kMs);
  CHECK(RowOf(table, "(launch unknown)").span_ns == 7 * kMs);
  CHECK(table.span_ns == 18 * kMs);
}

TEST_CASE("the span of a whole batch belongs to none of its layers", "[roof]") {
  Machine made;
  const uint32_t batch = made.maker.Batch(0x77, "resnet50", made.thread, 0, 90 * kMs);
  made.maker.Event(made.thread, made.forward, 0, 80 * kMs, {kNone, batch});
  made.Span("resnet50", 1 * kMs, 2 * kMs, 60 * kMs);
  made.maker.trace.calls.batch.back() = batch;

  CHECK(RowOf(Roofs(made.maker.Finish(), TopBy::kLayer), "(no layer timed)").span_ns == 60 * kMs);
}

}  // namespace pitot::test
