// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "fakes/string_sink.h"
#include "golden.h"
#include "model/depth_rows.h"
#include "model/kernel_name.h"
#include "pitot/model/trace.h"
#include "pitot/read/kineto.h"
#include "pitot/serialize/kineto.h"
#include "serialize/sample_trace.h"

namespace pitot::test {
namespace {

using fakes::StringSink;
using model::GpuKind;
using model::kNone;
using model::kOpen;
using model::Trace;
using nlohmann::json;

std::string Write(const Trace& trace) {
  StringSink sink;
  REQUIRE(MakeKinetoSerializer()->Serialize(trace, sink).ok());
  return sink.bytes;
}

Trace Reread(const Trace& trace, KinetoReport* report) {
  const std::string text = Write(trace);
  Trace read;
  REQUIRE(ParseKineto(text.data(), text.size(), &read, report).ok());
  CHECK(report->events_bad == 0);
  return read;
}

std::string Text(int64_t number) { return std::to_string(number); }

// The events of this category, in the file's order.
std::vector<json> EventsOf(const Trace& trace, const std::string& category) {
  std::vector<json> events;
  const json document = json::parse(Write(trace));
  for (const json& event : document["traceEvents"]) {
    if (event.value("cat", "") == category) events.push_back(event);
  }
  return events;
}

// What the format can say of a trace, in words.
using Rows = std::multiset<std::string>;

std::string StreamText(const Trace& trace, uint32_t stream) {
  const model::StreamRow& row = trace.streams[stream];
  return "GPU " + Text(row.device == kNone ? 0 : trace.devices[row.device].ordinal) + " context " + Text(row.context) +
         " stream " + Text(row.stream);
}
std::string CallText(const Trace& trace, uint32_t call) {
  const model::CallColumns& calls = trace.calls;
  const int64_t tid = calls.thread[call] == kNone ? 0 : trace.threads[calls.thread[call]].tid;
  return Text(tid) + " " + std::string(trace.strings[calls.name[call]]) + " " + Text(calls.begin_ns[call]) + " " +
         Text(trace.CallEnd(call) - calls.begin_ns[call]);
}

Rows ScopesOf(const Trace& trace) {
  Rows rows;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    const model::SiteRow& site = trace.sites[trace.events.site[event]];
    if (!model::IsScope(site.kind)) continue;
    std::string name(trace.EventName(event));
    if (const uint32_t args = trace.events.args[event]; site.kind == SiteKind::kWait && args != kNone) {
      const auto resource = static_cast<model::StringId>(trace.arg_values[args + 1]);
      if (resource != 0) name += ": " + std::string(trace.strings[resource]);
    }
    rows.insert(Text(trace.threads[trace.events.thread[event]].tid) + " " + (name.empty() ? "(unnamed)" : name) +
                (site.kind == SiteKind::kOperator ? " operator " : " ") + Text(trace.events.begin_ns[event]) + " " +
                Text(trace.EventEnd(event)));
  }
  return rows;
}
Rows CallsOf(const Trace& trace) {
  Rows rows;
  for (uint32_t call = 0; call < trace.calls.size(); ++call) rows.insert(CallText(trace, call));
  return rows;
}
Rows WorkOf(const Trace& trace) {
  const model::GpuColumns& gpu = trace.gpu;
  Rows rows;
  for (uint32_t row = 0; row < gpu.size(); ++row) {
    if (gpu.kind[row] > GpuKind::kMemset) continue;
    const std::string_view name = trace.strings[gpu.name[row]];
    std::string text = StreamText(trace, gpu.stream[row]) + " " + model::GpuKindName(gpu.kind[row]) + " ";
    if (gpu.kind[row] == GpuKind::kKernel) text += model::ReadKernelName(name).full;
    if (gpu.kind[row] == GpuKind::kMemcpy) text += name;
    text += " " + Text(gpu.begin_ns[row]) + " " + Text(gpu.duration_ns[row]) + " bytes " +
            Text(static_cast<int64_t>(gpu.bytes[row])) + " graph " + Text(gpu.graph[row]);
    if (gpu.graph[row] != 0) text += " node " + Text(gpu.node[row]);
    if (gpu.kind[row] == GpuKind::kKernel && gpu.shape[row] != kNone) {
      const model::KernelShape& shape = trace.shapes[gpu.shape[row]];
      for (const uint32_t axis : shape.grid) text += " " + Text(axis);
      for (const uint32_t axis : shape.block) text += " " + Text(axis);
      text += " registers " + Text(shape.registers_per_thread) + " shared " +
              Text(shape.static_shared_bytes + shape.dynamic_shared_bytes);
    }
    if (gpu.call[row] != kNone) text += " by " + CallText(trace, gpu.call[row]);
    rows.insert(text);
  }
  return rows;
}
std::map<int64_t, std::string> ThreadsOf(const Trace& trace) {
  std::map<int64_t, std::string> threads;
  for (const model::ThreadRow& thread : trace.threads) {
    if (thread.event_count != 0) threads[thread.tid] = trace.strings[thread.name];
  }
  return threads;
}

TEST_CASE("a trace reads back from Kineto's JSON, except for what the format cannot say", "[kineto]") {
  const Trace trace = SampleTrace();
  KinetoReport report;

  const Trace read = Reread(trace, &report);

  CHECK(ScopesOf(read) == ScopesOf(trace));
  CHECK(CallsOf(read) == CallsOf(trace));
  CHECK(WorkOf(read) == WorkOf(trace));
  CHECK(ThreadsOf(read) == ThreadsOf(trace));
  CHECK(read.pid == trace.pid);
  CHECK(read.strings[read.process_name] == "sample_server");
  CHECK(read.clock.realtime_ns - read.clock.monotonic_ns == trace.clock.realtime_ns - trace.clock.monotonic_ns);
  REQUIRE(read.devices.size() == 1);
  CHECK(read.strings[read.devices[0].name] == "NVIDIA H100 80GB HBM3");
  CHECK(read.devices[0].multiprocessors == 132);
  CHECK(read.devices[0].registers_per_multiprocessor == 65536);
  CHECK(read.AttributeOf("host") == "gpu-\xc3\xa9t\xc3\xa9");
  REQUIRE(read.overheads.size() == 2);
  CHECK(read.strings[read.overheads[0].name] == "module loading");
  CHECK(model::DepthsText(read.depths) == model::DepthsText(trace.depths));
  CHECK(model::DepthsText(read.operator_depths) == model::DepthsText(trace.operator_depths));
  CHECK(read.operator_depths.size() == 2);
}

TEST_CASE("an open scope that began before the window does not lengthen it in Kineto's JSON", "[kineto]") {
  constexpr int64_t kBeginNs = 6'000, kEndNs = 10'000;
  TraceMaker maker;
  maker.trace.window_begin_ns = kBeginNs;
  maker.trace.window_end_ns = kEndNs;
  const uint32_t thread = maker.Thread("worker"), site = maker.Site(SiteKind::kScope, "serve");
  maker.Event(thread, site, 1'000, kOpen);
  maker.Event(thread, site, 7'000, 1'000);
  const Trace trace = maker.Finish();
  KinetoReport report;

  const Trace read = Reread(trace, &report);

  CHECK(read.window_begin_ns == kBeginNs);
  CHECK(read.window_end_ns == kEndNs);
  CHECK(read.threads[0].history_begin_ns == kBeginNs);
  CHECK(read.events.begin_ns[0] == 1'000);
  CHECK(read.AttributeOf(model::kWindowBeginKey).empty());

  // A window that makes no sense is not taken.
  std::string text = Write(trace);
  const std::string key = "\"pitot_window_begin_ns\":";
  text.insert(text.find(key) + key.size(), "9");
  Trace wrong;
  REQUIRE(ParseKineto(text.data(), text.size(), &wrong, &report).ok());
  CHECK(wrong.window_begin_ns == 1'000);
  CHECK(wrong.window_end_ns == kEndNs);
}

TEST_CASE("random traces read back from Kineto's JSON", "[kineto]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const Trace trace = RandomTrace(seed, 20 + 10 * seed);
    KinetoReport report;

    const Trace read = Reread(trace, &report);

    CHECK(ScopesOf(read) == ScopesOf(trace));
    CHECK(CallsOf(read) == CallsOf(trace));
    // Random work may be impossible: the reader then sets it aside.
    const Rows written = WorkOf(trace), found = WorkOf(read);
    CHECK(found.size() + report.gpu_impossible + report.gpu_no_time == written.size());
    CHECK(std::includes(written.begin(), written.end(), found.begin(), found.end()));
  }
}

TEST_CASE("operators' tensors are written in the notation of PyTorch's profiler", "[kineto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  const uint32_t thread = maker.Thread("main");
  const uint32_t ours = maker.Site(SiteKind::kOperator, "aten::mm", {{"shapes", ArgType::kString}});
  const uint32_t theirs =
      maker.Site(SiteKind::kOperator, "aten::convolution",
                 {{"shapes", ArgType::kString}, {"types", ArgType::kString}, {"inputs", ArgType::kString}});
  maker.Event(thread, ours, 10, 5, {}, {maker.String("8x512 f16, 512 f32")});
  maker.Event(thread, theirs, 20, 5, {},
              {maker.String("[[1,3],[]]"), maker.String("[\"float\",\"\"]"), maker.String("[\"\",\"False\"]")});

  const std::vector<json> events = EventsOf(maker.Finish(), "cpu_op");

  REQUIRE(events.size() == 2);
  CHECK(events[0]["args"]["Input Dims"] == json::parse("[[8,512],[512]]"));
  CHECK(events[0]["args"]["Input type"] == json::parse(R"(["c10::Half","float"])"));
  CHECK(events[1]["args"]["Input Dims"] == json::parse("[[1,3],[]]"));
  CHECK(events[1]["args"]["Input type"] == json::parse(R"(["float",""])"));
  CHECK(events[1]["args"]["Concrete Inputs"] == json::parse(R"(["","False"])"));
}

TEST_CASE("an operator's list that is not JSON is a text", "[kineto]") {
  const std::string deep(70, '[');
  const std::map<std::string, bool> lists = {{"[]", true},
                                             {"[1, -2.5e+3, \"a]\\\"\\u00e9\", true, false, null, [[]]]", true},
                                             {"[0.5,0]", true},
                                             {"[1,]", false},
                                             {"[1", false},
                                             {"[1]]", false},
                                             {"[1][2]", false},
                                             {"[01]", false},
                                             {"[1.]", false},
                                             {"[-]", false},
                                             {"[1e]", false},
                                             {"[nan]", false},
                                             {"[\"\\x\"]", false},
                                             {"[\"\\u12]\"]", false},
                                             {"[\"]", false},
                                             {"[{}]", false},
                                             {deep + std::string(70, ']'), false}};
  for (const auto& [text, is_list] : lists) {
    CAPTURE(text);
    TraceMaker maker;
    maker.trace.window_end_ns = 100;
    const uint32_t site =
        maker.Site(SiteKind::kOperator, "aten::mm", {{"shapes", ArgType::kString}, {"types", ArgType::kString}});
    maker.Event(maker.Thread("main"), site, 10, 5, {}, {maker.String(text), maker.String(text)});

    const json args = EventsOf(maker.Finish(), "cpu_op").at(0)["args"];

    CHECK(args["Input Dims"] == (is_list ? json::parse(text) : json(text)));
    CHECK(args["Input type"] == (is_list ? json::parse(text) : json(text)));
  }
}

TEST_CASE("allocators of LibTorch become memory events, with what is reserved then", "[kineto]") {
  TraceMaker maker;
  Trace& trace = maker.trace;
  trace.window_end_ns = 100;
  maker.Event(maker.Thread("main"), maker.Site(SiteKind::kScope, "work"), 0, 100);
  trace.devices.push_back({0, maker.String("GPU"), 0, 0, 0, 0, 0, 0});
  trace.counters = {{0, maker.String("LibTorch allocated"), maker.String("bytes")},
                    {0, maker.String("LibTorch reserved"), maker.String("bytes")},
                    {kNone, maker.String("LibTorch CPU allocated"), maker.String("bytes")}};
  trace.samples = {{0, 0, 1, 2}, {10, 20, 15, 30}, {512, 2048, 4096, 64}};
  const Trace made = maker.Finish();

  const std::vector<json> events = EventsOf(made, "cpu_instant_event");
  KinetoReport report;
  const Trace read = Reread(made, &report);

  REQUIRE(events.size() == 3);
  CHECK(events[0]["name"] == "[memory]");
  CHECK(events[0]["args"].contains("Total Reserved") == false);
  CHECK(events[1]["args"]["Total Allocated"] == 2048);
  CHECK(events[1]["args"]["Total Reserved"] == 4096);
  CHECK(events[1]["args"]["Bytes"] == 1536);
  CHECK(events[2]["args"]["Device Type"] == 0);
  std::map<std::string, double> last;
  for (uint32_t i = 0; i < read.samples.size(); ++i)
    last[std::string(read.strings[read.counters[read.samples.counter[i]].name])] = read.samples.value[i];
  CHECK(last == std::map<std::string, double>{
                    {"LibTorch CPU allocated", 64}, {"LibTorch allocated", 2048}, {"LibTorch reserved", 4096}});
}

TEST_CASE("calls and work refer to the scope around the call, and arrows lead from one to the other", "[kineto]") {
  const Trace trace = SampleTrace();

  const std::vector<json> calls = EventsOf(trace, "cuda_runtime"), kernels = EventsOf(trace, "kernel"),
                          arrows = EventsOf(trace, "ac2g");

  CHECK(calls[2]["args"]["waits for"] == "stream 7 (context 1)");
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0]["name"] == "gemm(float*)");
  CHECK(kernels[0]["args"]["correlation"] == calls[1]["args"]["correlation"]);
  CHECK(kernels[0]["args"]["External id"] == calls[1]["args"]["External id"]);
  CHECK(kernels[0]["args"]["grid"] == json::parse("[98,2,1]"));
  REQUIRE(arrows.size() == 4);  // of a copy and a kernel
  CHECK(arrows[1]["ph"] == "s");
  CHECK(arrows[1]["ts"] == calls[1]["ts"]);
  CHECK(arrows[3]["ph"] == "f");
  CHECK(arrows[3]["id"] == arrows[1]["id"]);
  CHECK(arrows[3]["ts"] == kernels[0]["ts"]);
}

TEST_CASE("work that overlaps on a stream has a row of its own in viewers", "[kineto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  maker.trace.streams.push_back({kNone, 1, 7, 0, 0, 0});
  maker.Gpu(0, GpuKind::kKernel, "first", 10, 20, kNone);
  maker.Gpu(0, GpuKind::kKernel, "second", 20, 20, kNone);
  maker.Gpu(0, GpuKind::kKernel, "third", 30, 5, kNone);

  const std::vector<json> kernels = EventsOf(maker.Finish(), "kernel");

  REQUIRE(kernels.size() == 3);
  CHECK(kernels[0]["tid"] == 7);
  CHECK(kernels[1]["tid"] != 7);
  CHECK(kernels[2]["tid"] == 7);
  for (const json& kernel : kernels) CHECK(kernel["args"]["stream"] == 7);
}

TEST_CASE("a span of CUDA events has a row of its own, and no arrow", "[kineto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  maker.trace.streams.push_back({kNone, 1, 7, 0, 0, 0});
  maker.Call(maker.Thread("main"), "CudaEventScope", 5, 1);
  maker.Gpu(0, GpuKind::kSpan, "layer", 10, 50, 0);
  const Trace trace = maker.Finish();

  CHECK(EventsOf(trace, "ac2g").empty());
  REQUIRE(EventsOf(trace, "gpu_user_annotation").size() == 1);
  CHECK(EventsOf(trace, "gpu_user_annotation")[0]["tid"] != 7);
}

TEST_CASE("any number is valid JSON", "[kineto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  const uint32_t site = maker.Site(SiteKind::kScope, "\"\\", {{"a\"b", ArgType::kDouble}});
  const uint32_t thread = maker.Thread("main");
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e300, -0.0}) {
    model::ArgValue bits;
    memcpy(&bits, &value, sizeof bits);
    maker.Event(thread, site, 10, 5, {}, {bits});
  }

  const std::vector<json> events = EventsOf(maker.Finish(), "user_annotation");

  REQUIRE(events.size() == 5);
  CHECK(events[0]["name"] == "\"\\");
  CHECK(events[0]["args"]["a\"b"] == "NaN");
  CHECK(events[1]["args"]["a\"b"] == "Infinity");
  CHECK(events[3]["args"]["a\"b"] == 1e300);
}

TEST_CASE("a request's size that is not finite is a text", "[kineto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  const uint32_t request = maker.Request(1, "/v1", 10, 5);
  maker.trace.requests[request].sizes = {{maker.String("ratio"), std::nan("")}, {maker.String("limit"), HUGE_VAL}};

  const std::vector<json> events = EventsOf(maker.Finish(), "request");

  REQUIRE(events.size() == 2);
  CHECK(events[0]["args"]["ratio"] == "NaN");
  CHECK(events[0]["args"]["limit"] == "Infinity");
}

TEST_CASE("threads of two processes with the same tid have rows of their own", "[kineto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  for (const char* const name : {"rank 0", "rank 1"})
    maker.Event(maker.Thread(name), maker.Site(SiteKind::kScope, "work"), 10, 50);
  maker.trace.threads[0].tid = maker.trace.threads[1].tid = 7;
  KinetoReport report;

  const Trace read = Reread(maker.Finish(), &report);

  REQUIRE(read.threads.size() == 2);
  CHECK(read.threads[0].tid == 7);
  CHECK(read.strings[read.threads[0].name] == "rank 0");
  CHECK(read.strings[read.threads[1].name] == "rank 1");
}

TEST_CASE("a trace without a date has none after it was written and read", "[kineto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  maker.Event(maker.Thread("main"), maker.Site(SiteKind::kScope, "work"), 10, 50);
  const Trace trace = maker.Finish();
  KinetoReport report;

  const Trace read = Reread(trace, &report);

  CHECK(read.clock.realtime_ns == 0);
  CHECK(ScopesOf(read) == ScopesOf(trace));
}

TEST_CASE("functions of Python stay functions of Python, also those that are built in", "[kineto]") {
  const std::string text =
      R"([{"ph":"X","cat":"python_function","name":"<built-in function len>","pid":1,"tid":1,"ts":5,"dur":2},)"
      R"({"ph":"X","cat":"python_function","name":"a/b.py(12): step","pid":1,"tid":1,"ts":4,"dur":5},)"
      R"({"ph":"X","cat":"user_annotation","name":"work","pid":1,"tid":1,"ts":3,"dur":9}])";
  Trace trace;
  KinetoReport report;
  REQUIRE(ParseKineto(text.data(), text.size(), &trace, &report).ok());

  CHECK(EventsOf(trace, "python_function").size() == 2);
  CHECK(EventsOf(trace, "user_annotation").size() == 1);
}

TEST_CASE("calls have the category of their API", "[kineto]") {
  const std::map<std::string, std::string> categories = {{"cudaLaunchKernel", "cuda_runtime"},
                                                         {"cuLaunchKernel", "cuda_driver"},
                                                         {"hipLaunchKernel", "hip_runtime"},
                                                         {"urEnqueueKernelLaunch", "xpu_runtime"},
                                                         {"zeCommandListAppendLaunchKernel", "xpu_driver"}};
  for (const auto& [call, category] : categories) {
    CAPTURE(call);
    TraceMaker maker;
    maker.trace.window_end_ns = 100;
    maker.Call(maker.Thread("main"), call, 5, 1);

    CHECK(EventsOf(maker.Finish(), category).size() == 1);
  }
}

TEST_CASE("the host is not the process of a GPU", "[kineto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  maker.trace.pid = 0;
  maker.trace.devices.push_back({0, maker.String("GPU"), 0, 0, 0, 0, 0, 0});
  maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
  maker.Event(maker.Thread("main"), maker.Site(SiteKind::kScope, "work"), 10, 50);
  maker.Gpu(0, GpuKind::kKernel, "gemm", 20, 5, kNone);
  const Trace trace = maker.Finish();

  CHECK(EventsOf(trace, "kernel").at(0)["pid"] == 0);
  CHECK(EventsOf(trace, "user_annotation").at(0)["pid"] != 0);
}

TEST_CASE("Kineto's JSON of the sample matches the approved file", "[kineto][golden]") {
  CheckGolden("sample.pt.trace.json", Write(SampleTrace()));
}

TEST_CASE("Kineto's JSON that cannot be written returns an error", "[kineto]") {
  StringSink sink(10);
  CHECK(MakeKinetoSerializer()->Serialize(SampleTrace(), sink).code() == StatusCode::kIoError);
}

}  // namespace

TEST_CASE("launches count as without work only where GPUs were recorded", "[kineto]") {
  const auto launches = [](pitot::Depth depth) {
    TraceMaker maker;
    maker.trace.window_end_ns = 10'000;
    maker.trace.depths = {{0, 10'000, depth}};
    const uint32_t thread = maker.Thread("main");
    maker.Call(thread, "cudaLaunchKernel", 100, 10, {kNone, kNone});
    maker.Call(thread, "cudaLaunchKernel", 300, 10, {kNone, kNone});
    // A file of an older version, which does not list losses.
    std::string text = Write(maker.Finish());
    for (const char* const key : {"pitot_losses", "pitot_gpu_losses"}) text.at(text.find(key)) = 'P';
    KinetoReport report;
    Trace read;
    REQUIRE(ParseKineto(text.data(), text.size(), &read, &report).ok());
    return report.launches_without_work;
  };

  CHECK(launches(pitot::Depth::kScopes) == 0);
  CHECK(launches(pitot::Depth::kKernels) == 2);
}

TEST_CASE("no loss is made of launches in a file that lists its losses", "[kineto]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 10'000;
  maker.trace.depths = {{0, 10'000, pitot::Depth::kKernels}};
  const uint32_t thread = maker.Thread("main");
  maker.Call(thread, "cudaLaunchKernel", 100, 10, {kNone, kNone});
  maker.Call(thread, "cudaLaunchKernel", 300, 10, {kNone, kNone});
  KinetoReport report;

  const Trace read = Reread(maker.Finish(), &report);

  CHECK(report.launches_without_work == 0);
  CHECK(read.gpu_losses.empty());
}

}  // namespace pitot::test
