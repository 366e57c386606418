// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/xspace.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fakes/string_sink.h"
#include "golden.h"
#include "pitot/model/trace.h"
#include "serialize/proto/xplane.pb.h"
#include "serialize/sample_trace.h"

namespace pitot::test {
namespace {

using fakes::StringSink;
using model::Trace;
using tensorflow::profiler::XEvent;
using tensorflow::profiler::XLine;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;

XSpace Write(const Trace& trace) {
  StringSink sink;
  REQUIRE(MakeXSpaceSerializer()->Serialize(trace, sink).ok());
  XSpace space;
  REQUIRE(space.ParseFromString(sink.bytes));
  return space;
}

struct Found {
  int64_t begin_ns, duration_ns;
  std::string name;
  std::map<std::string, std::string> stats;
};
std::vector<Found> EventsOf(const XPlane& plane, const XLine& line) {
  std::vector<Found> events;
  const auto name_of = [&](uint64_t id) { return plane.stat_metadata().at(static_cast<int64_t>(id)).name(); };
  for (const XEvent& event : line.events()) {
    REQUIRE(event.offset_ps() % 1000 == 0);
    Found found = {line.timestamp_ns() + event.offset_ps() / 1000,
                   event.duration_ps() / 1000,
                   plane.event_metadata().at(event.metadata_id()).name(),
                   {}};
    for (const auto& stat : event.stats()) {
      found.stats[name_of(static_cast<uint64_t>(stat.metadata_id()))] =
          stat.value_case() == tensorflow::profiler::XStat::kRefValue ? name_of(stat.ref_value())
                                                                      : std::to_string(stat.uint64_value());
    }
    events.push_back(found);
  }
  return events;
}

constexpr int64_t kMs = 1'000'000, kBase = 1700000000000 * kMs - 1100 * kMs;

TEST_CASE("an XSpace has a plane for the host and one for each GPU, with a line for each thread and stream",
          "[xspace]") {
  const XSpace space = Write(SampleTrace());

  REQUIRE(space.planes_size() == 2);
  CHECK(space.planes(0).name() == "/host:CPU");
  CHECK(space.planes(1).name() == "/device:GPU:0");
  std::vector<std::string> lines;
  for (const XPlane& plane : space.planes()) {
    for (const XLine& line : plane.lines()) lines.push_back(line.name());
  }
  CHECK(lines ==
        std::vector<std::string>{"http 0", "executor", "requests", "requests", "queues", "Stream #7", "Stream #14"});
  CHECK(space.hostnames(0) == "gpu-\xc3\xa9t\xc3\xa9");
}

TEST_CASE("a kernel in an XSpace has its launch, its call, and the scope around that", "[xspace]") {
  const XSpace space = Write(SampleTrace());

  std::vector<Found> work = EventsOf(space.planes(1), space.planes(1).lines(0));
  const std::vector<Found> host = EventsOf(space.planes(0), space.planes(0).lines(1));

  REQUIRE(work.size() == 3);
  CHECK(work[1].name == "gemm(float*)");
  CHECK(work[1].begin_ns == kBase + 1020 * kMs);
  CHECK(work[1].duration_ns == 3 * kMs);
  CHECK(work[1].stats["kernel_details"] ==
        "regs:96 static_shared:1024 dynamic_shared:49152 grid:98,2,1 block:256,1,1 occ_pct:25");
  CHECK(work[1].stats["tf_op"] == "conv1");
  CHECK(work[0].stats["memcpy_details"] == "size:602112");
  bool has_call = false;
  for (const Found& event : host) {
    const auto id = event.stats.find("correlation_id");
    has_call |=
        event.name == "cudaLaunchKernel" && id != event.stats.end() && id->second == work[1].stats["correlation_id"];
  }
  CHECK(has_call);
}

TEST_CASE("a batch in an XSpace is the root of a group, around what its thread did in it", "[xspace]") {
  const XSpace space = Write(SampleTrace());

  std::vector<Found> host = EventsOf(space.planes(0), space.planes(0).lines(1));

  REQUIRE(host[0].name == "resnet50");
  CHECK(host[0].stats["_r"] == "1");
  CHECK(host[0].stats["members"] == "2");
  for (size_t i = 1; i < host.size(); ++i) CHECK(host[i].begin_ns >= host[i - 1].begin_ns);
}

TEST_CASE("every event of a random trace is in its XSpace", "[xspace]") {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    INFO("seed " << seed);
    const Trace trace = RandomTrace(seed, 20 + 10 * seed);
    size_t expected = trace.batches.size() + trace.requests.size() + trace.handoffs.size() + trace.calls.size();
    size_t found = 0;
    for (uint32_t event = 0; event < trace.events.size(); ++event)
      expected += model::IsScope(trace.sites[trace.events.site[event]].kind);
    for (const model::GpuKind kind : trace.gpu.kind) expected += kind != model::GpuKind::kSpan;

    const XSpace space = Write(trace);

    for (const XPlane& plane : space.planes()) {
      for (const XLine& line : plane.lines()) {
        found += EventsOf(plane, line).size();
        for (const XEvent& event : line.events()) CHECK(event.offset_ps() >= 0);
      }
    }
    CHECK(found == expected);
  }
}

TEST_CASE("lines of threads with the same tid have different ids in an XSpace", "[xspace]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  for (const char* const name : {"rank 0", "rank 1", "rank 2"})
    maker.Event(maker.Thread(name), maker.Site(SiteKind::kScope, "work"), 10, 50);
  const int64_t tids[] = {7, 7, 1};
  for (uint32_t row = 0; row < 3; ++row) maker.trace.threads[row].tid = tids[row];

  const XSpace space = Write(maker.Finish());

  REQUIRE(space.planes(0).lines_size() == 3);
  CHECK(space.planes(0).lines(0).id() == 7);
  CHECK(space.planes(0).lines(1).id() == 2);
  CHECK(space.planes(0).lines(2).id() == 1);
}

TEST_CASE("lines of threads without a number and of requests have different ids in an XSpace", "[xspace]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  for (const char* const name : {"main", "worker"})
    maker.Event(maker.Thread(name), maker.Site(SiteKind::kScope, "work"), 10, 50);
  maker.trace.threads[0].tid = -2;  // as readers number texts
  maker.trace.threads[1].tid = 0;
  maker.Request(1, "/a", 10, 50);
  maker.Request(2, "/b", 20, 50);
  maker.Call(model::kNone, "cudaLaunchKernel", 5, 1);
  maker.trace.streams = {{model::kNone, 0, 7, 0, 0, 0}, {model::kNone, 0, 7, 0, 0, 0}};
  for (uint32_t stream = 0; stream < 2; ++stream)
    maker.Gpu(stream, model::GpuKind::kKernel, "gemm", 10, 5, model::kNone);

  const XSpace space = Write(maker.Finish());

  REQUIRE(space.planes_size() == 2);
  const int expected[] = {5, 2};
  for (int plane = 0; plane < 2; ++plane) {
    std::set<int64_t> ids;
    for (const XLine& line : space.planes(plane).lines()) ids.insert(line.id());
    CHECK(space.planes(plane).lines_size() == expected[plane]);
    CHECK(ids.size() == static_cast<size_t>(expected[plane]));
  }
}

TEST_CASE("a TPU is a TPU in an XSpace, and its lines keep their names", "[xspace]") {
  TraceMaker maker;
  maker.trace.devices.push_back({0, maker.String("TPU:0"), 0, 0, 0, 0, 0, 0});
  maker.trace.streams.push_back({0, 0, 0, maker.String("XLA Ops"), 0, 0});
  maker.Gpu(0, model::GpuKind::kKernel, "fusion.2", 10, 5, model::kNone);

  const XSpace space = Write(maker.Finish());

  CHECK(space.planes(1).name() == "/device:TPU:0");
  CHECK(space.planes(1).lines(0).name() == "XLA Ops");
}

// The stats of planes of devices that are texts.
std::vector<std::string> VendorsOf(const XSpace& space) {
  std::vector<std::string> vendors;
  for (int i = 1; i < space.planes_size(); ++i) {
    const XPlane& plane = space.planes(i);
    for (const auto& stat : plane.stats()) {
      if (plane.stat_metadata().at(stat.metadata_id()).name() == "device_vendor") vendors.push_back(stat.str_value());
    }
  }
  return vendors;
}

TEST_CASE("an XSpace names the vendor of devices by their names or calls", "[xspace]") {
  const std::map<std::string, std::vector<std::string>> vendors = {
      {"cuLaunchKernel", {"Nvidia"}}, {"hipLaunchKernel", {"AMD"}}, {"zeCommandListAppend", {}}};
  for (const auto& [call, expected] : vendors) {
    CAPTURE(call);
    TraceMaker maker;
    maker.trace.streams.push_back({model::kNone, 1, 7, 0, 0, 0});
    maker.Call(maker.Thread("main"), call, 5, 1);
    maker.Gpu(0, model::GpuKind::kKernel, "gemm", 10, 5, 0);

    CHECK(VendorsOf(Write(maker.Finish())) == expected);
  }
  TraceMaker maker;
  maker.trace.devices.push_back({0, maker.String("NVIDIA H100"), 0, 0, 0, 0, 0, 0});
  CHECK(VendorsOf(Write(maker.Finish())) == std::vector<std::string>{"Nvidia"});
}

TEST_CASE("streams without a device have a plane of their own in an XSpace", "[xspace]") {
  TraceMaker maker;
  maker.trace.devices.push_back({0, maker.String("GPU"), 0, 0, 0, 0, 0, 0});
  maker.trace.streams = {{0, 1, 7, 0, 0, 0}, {0, 2, 7, 0, 0, 0}, {model::kNone, 1, 7, 0, 0, 0}};
  for (uint32_t stream = 0; stream < 3; ++stream)
    maker.Gpu(stream, model::GpuKind::kKernel, "gemm", 10, 5, model::kNone);

  const XSpace space = Write(maker.Finish());

  REQUIRE(space.planes_size() == 3);
  CHECK(space.planes(1).id() != space.planes(2).id());
  CHECK(space.planes(1).name() != space.planes(2).name());
  REQUIRE(space.planes(1).lines_size() == 2);
  CHECK(space.planes(1).lines(0).id() != space.planes(1).lines(1).id());
}

TEST_CASE("the XSpace of the sample matches the approved file", "[xspace][golden]") {
  google::protobuf::TextFormat::Printer printer;
  std::string text;
  REQUIRE(printer.PrintToString(Write(SampleTrace()), &text));
  CheckGolden("sample.xplane.pb.txt", text);
}

TEST_CASE("an XSpace that cannot be written returns an error", "[xspace]") {
  StringSink sink(10);
  CHECK(MakeXSpaceSerializer()->Serialize(SampleTrace(), sink).code() == StatusCode::kIoError);
}

}  // namespace
}  // namespace pitot::test
