// SPDX-License-Identifier: Apache-2.0
#include "pitot/read/join.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/lacking.h"
#include "model/recorded.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "read/join_devices.h"
#include "serialize/sample_trace.h"

using pitot::JoinReport;
using pitot::JoinTraces;
using pitot::Status;
using pitot::StatusCode;
using pitot::TracePart;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::model::Trace;
using pitot::test::RandomTrace;
using pitot::test::SampleTrace;
using pitot::test::TraceMaker;

namespace {

constexpr int64_t kDateNs = 1'700'000'000'000'000'000;

// A trace with one request at a time of its own clock, which is at `origin_ns` of Unix time when it is 0.
Trace OneRequest(int64_t begin_ns, int64_t origin_ns, uint64_t id = 7) {
  TraceMaker maker;
  maker.trace.window_begin_ns = begin_ns;
  maker.trace.window_end_ns = begin_ns + 1000;
  maker.Request(id, "/r", begin_ns, 5);
  Trace trace = maker.Finish();
  trace.clock.monotonic_ns = begin_ns + 1000;
  trace.clock.realtime_ns = origin_ns + begin_ns + 1000;
  trace.clock.boottime_ns = 0;
  return trace;
}

Trace Joined(std::vector<TracePart> parts, JoinReport* report = nullptr) {
  Trace joined;
  const Status status = JoinTraces(&parts, &joined, report);
  INFO(status.message());
  REQUIRE(status.ok());
  REQUIRE(FindInconsistency(joined) == "");
  return joined;
}

// A trace with a kernel of 100 ns on the GPU that its process calls 0, and a counter of that GPU.
Trace OneKernel(int64_t begin_ns, const std::string& key, const std::string& value) {
  TraceMaker maker;
  maker.trace.window_begin_ns = 1;
  maker.trace.window_end_ns = 10'000;
  maker.trace.devices.push_back({0, maker.String("H200"), 132});
  maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
  maker.trace.counters.push_back({0, maker.String("SM active"), maker.String("%")});
  maker.Gpu(0, pitot::GpuKind::kKernel, "gemm", begin_ns, 100, kNone);
  maker.trace.attributes.push_back({maker.String(key), maker.String(value)});
  Trace trace = maker.Finish();
  trace.clock.monotonic_ns = 10'000;
  trace.clock.realtime_ns = kDateNs;
  trace.clock.boottime_ns = 0;
  return trace;
}

}  // namespace

TEST_CASE("a GPU of two processes is one device, and its busy time counts once", "[join]") {
  const Trace a = OneKernel(1'000, "gpu.0.uuid", "GPU-5c0f"), b = OneKernel(1'050, "gpu.0.uuid", "GPU-5c0f");
  JoinReport report;

  const Trace joined = Joined({{"a", a}, {"b", b}}, &report);

  CHECK(report.devices_without_uuid == 0);
  REQUIRE(joined.devices.size() == 1);
  CHECK(joined.strings[joined.devices[0].name] == "H200");
  CHECK(joined.devices[0].multiprocessors == 132);
  CHECK(DeviceBusy(joined, 0) == pitot::model::Intervals{{1'000, 1'150}});
  // Each process numbers its contexts from 1.
  REQUIRE(joined.streams.size() == 2);
  CHECK(joined.strings[joined.streams[0].name] == "a");
  CHECK(joined.strings[joined.streams[1].name] == "b");
  CHECK(joined.streams[0].context != joined.streams[1].context);
  CHECK(joined.strings[joined.counters[0].name] == "SM active");
  CHECK(joined.strings[joined.counters[1].name] == "b: SM active");
}

TEST_CASE("facts of a shared GPU that one process does not know come from the other", "[join]") {
  Trace a = OneKernel(1'000, "gpu.0.uuid", "GPU-5c0f");
  a.devices[0] = {};

  const Trace joined = Joined({{"a", a}, {"b", OneKernel(1'050, "gpu.0.uuid", "GPU-5c0f")}});

  REQUIRE(joined.devices.size() == 1);
  CHECK(joined.strings[joined.devices[0].name] == "H200");
  CHECK(joined.devices[0].multiprocessors == 132);
}

TEST_CASE("GPUs with the same number and name stay apart without a UUID, and with different ones", "[join]") {
  JoinReport report;
  const Trace unknown = OneKernel(1'000, "some", "attribute");
  CHECK(Joined({{"a", unknown}, {"b", unknown}}, &report).devices.size() == 2);
  CHECK(report.devices_without_uuid == 2);

  const Trace known = OneKernel(1'000, "gpu.0.uuid", "GPU-5c0f");
  const Trace joined =
      Joined({{"a", known}, {"b", OneKernel(1'000, "gpu.0.uuid", "GPU-60aa")}, {"c", unknown}}, &report);
  REQUIRE(joined.devices.size() == 3);
  CHECK(joined.devices[1].ordinal == 1);
  CHECK(joined.strings[joined.devices[1].name] == "b: H200");
  CHECK(joined.strings[joined.streams[1].name].empty());
  CHECK(joined.streams[1].context == 1);
  CHECK(report.devices_without_uuid == 1);

  Joined({{"a", unknown}, {"b", OneRequest(5'000, kDateNs)}}, &report);
  CHECK(report.devices_without_uuid == 0);
}

TEST_CASE("the only GPU of a machine has the UUID that NVML told", "[join]") {
  const std::string told = "NVIDIA H200, GPU-5c0f, PCI 00000000:01:00.0";
  Trace only = OneKernel(1'000, "nvml.0", told), uuid = OneKernel(2'000, "gpu.0.uuid", "GPU-5c0f");
  CHECK(Joined({{"a", only}, {"b", uuid}}).devices.size() == 1);

  Trace mig = only;
  mig.devices[0].name = mig.strings.Add("NVIDIA H200 MIG 1g.18gb");
  CHECK(Joined({{"a", mig}, {"b", uuid}}).devices.size() == 2);

  only.attributes.push_back({only.strings.Add("nvml.1"), only.strings.Add("NVIDIA H200, GPU-60aa")});
  CHECK(Joined({{"a", only}, {"b", uuid}}).devices.size() == 2);
}

TEST_CASE("the state of a machine's GPUs keeps its name once, and that of several machines says whose it is",
          "[join]") {
  const auto with_clock = [](const std::string& host) {
    TraceMaker maker;
    maker.trace.window_begin_ns = 1;
    maker.trace.window_end_ns = 10'000;
    maker.trace.attributes.push_back({maker.String("host"), maker.String(host)});
    maker.trace.counters.push_back({kNone, maker.String("GPU 0 (H200): SM clock"), maker.String("MHz")});
    maker.trace.counters.push_back({kNone, maker.String("load"), 0});
    Trace trace = maker.Finish();
    trace.clock.monotonic_ns = 10'000;
    trace.clock.realtime_ns = kDateNs;
    return trace;
  };
  const auto names = [](const Trace& trace) {
    std::vector<std::string> all;
    for (const auto& row : trace.counters) all.emplace_back(trace.strings[row.name]);
    return all;
  };

  const Trace one = Joined({{"a", with_clock("node1")}, {"b", with_clock("node1")}});
  const Trace two = Joined({{"a", with_clock("node1")}, {"b", with_clock("node2")}});

  CHECK(names(one) ==
        std::vector<std::string>{"GPU 0 (H200): SM clock", "a: load", "b: GPU 0 (H200): SM clock", "b: load"});
  CHECK(names(two) ==
        std::vector<std::string>{"a: GPU 0 (H200): SM clock", "a: load", "b: GPU 0 (H200): SM clock", "b: load"});
}

TEST_CASE("each of many devices gets a number of its own in a step or two", "[join]") {
  constexpr uint32_t kDevices = 60'000;
  pitot::read::FreeNumbers numbers;
  CHECK(numbers.Take(UINT32_MAX) == UINT32_MAX);
  CHECK(numbers.Take(UINT32_MAX) == 0);
  CHECK(numbers.Take(0) == 1);
  CHECK(numbers.Take(5) == 5);
  CHECK(numbers.Take(0) == 2);
  for (uint32_t i = 0; i < kDevices; ++i) numbers.Take(0);
  for (uint32_t i = 0; i < kDevices; ++i) numbers.Take(i);
  CHECK(numbers.Take(0) == 2 * kDevices + 4);
  CHECK(numbers.steps() <= 2 * (2 * kDevices + 10));
}

TEST_CASE("requests of one trace with the same id keep it", "[join]") {
  Trace a = OneRequest(5'000, kDateNs);
  a.requests.push_back(a.requests[0]);

  const Trace joined = Joined({{"a", a}, {"b", a}});

  REQUIRE(joined.requests.size() == 4);
  CHECK(joined.requests[0].id == 7);
  CHECK(joined.requests[1].id == 7);
  CHECK(joined.requests[2].id != 7);
  CHECK(joined.requests[3].id == joined.requests[2].id);
}

TEST_CASE("traces of two machines are joined by their dates", "[join]") {
  const Trace joined = Joined({{"a", OneRequest(5'000, kDateNs)}, {"b", OneRequest(900'000, kDateNs - 890'000, 8)}});

  REQUIRE(joined.requests.size() == 2);
  CHECK(joined.requests[0].id == 7);
  CHECK(joined.requests[0].begin_ns == 5'000);
  CHECK(joined.requests[1].begin_ns == 10'000);
  CHECK(joined.window_begin_ns == 5'000);
  CHECK(joined.window_end_ns == 11'000);
  CHECK(joined.clock.realtime_ns - joined.clock.monotonic_ns == kDateNs);
}

TEST_CASE("traces of one machine are joined by its monotonic clock, whatever was done to the date", "[join]") {
  Trace a = OneRequest(5'000, kDateNs), b = OneRequest(6'000, kDateNs + 400'000'000, 8);
  a.clock.boottime_ns = a.clock.monotonic_ns;
  b.clock.boottime_ns = b.clock.monotonic_ns;

  CHECK(Joined({{"a", a}, {"b", b}}).requests[1].begin_ns == 6'000);
  b.attributes.push_back({b.strings.Add("host"), b.strings.Add("another")});
  CHECK(Joined({{"a", a}, {"b", b}}).requests[1].begin_ns == 400'006'000);
}

TEST_CASE("a trace that began before the first one's clock moves all", "[join]") {
  const Trace joined = Joined({{"a", OneRequest(5'000, kDateNs)}, {"b", OneRequest(5'000, kDateNs - 50'000, 8)}});

  CHECK(joined.requests[0].id == 8);
  CHECK(joined.requests[0].begin_ns == 1);
  CHECK(joined.requests[1].begin_ns == 50'001);
}

TEST_CASE("a request's id that is taken is replaced, also where a firing names it", "[join]") {
  Trace second = OneRequest(6'000, kDateNs);
  second.firings.push_back({6'005, 7, second.strings.Add("late"), 0});

  const Trace joined = Joined({{"a", OneRequest(5'000, kDateNs)}, {"b", std::move(second)}});

  CHECK(joined.requests[0].id == 7);
  CHECK(joined.requests[1].id != 7);
  REQUIRE(joined.firings.size() == 1);
  CHECK(joined.firings[0].request_id == joined.requests[1].id);
  CHECK(joined.strings[joined.firings[0].cause] == "late");
}

TEST_CASE("every table of both traces is there, and threads say whose they are", "[join]") {
  const Trace a = SampleTrace();
  for (uint32_t seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    Trace b = RandomTrace(seed, 20 + 20 * seed);
    b.clock = a.clock;

    const Trace joined = Joined({{"rank0", a}, {"rank1", b}});

    CHECK(joined.requests.size() == a.requests.size() + b.requests.size());
    CHECK(joined.batches.size() == a.batches.size() + b.batches.size());
    CHECK(joined.members.size() == a.members.size() + b.members.size());
    CHECK(joined.handoffs.size() == a.handoffs.size() + b.handoffs.size());
    CHECK(joined.events.size() == a.events.size() + b.events.size());
    CHECK(joined.calls.size() == a.calls.size() + b.calls.size());
    CHECK(joined.gpu.size() == a.gpu.size() + b.gpu.size());
    CHECK(joined.samples.size() == a.samples.size() + b.samples.size());
    CHECK(joined.losses.size() == a.losses.size() + b.losses.size());
    REQUIRE(joined.threads.size() == a.threads.size() + b.threads.size());
    for (uint32_t i = 0; i < b.threads.size(); ++i) {
      const auto& thread = joined.threads[a.threads.size() + i];
      const std::string own(b.strings[b.threads[i].name]);
      CHECK(joined.strings[thread.name] == (own.empty() ? "rank1" : "rank1: " + own));
      for (uint32_t k = 0; k < thread.event_count; ++k)
        CHECK(joined.EventName(thread.first_event + k) == b.EventName(b.threads[i].first_event + k));
    }
    for (uint32_t i = 0; i < b.gpu.size(); ++i)
      CHECK(joined.strings[joined.gpu.name[a.gpu.size() + i]] == b.strings[b.gpu.name[i]]);
  }
}

TEST_CASE("rows that are open at the end of a part's window end there", "[join]") {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("main"), scope = maker.Site(pitot::SiteKind::kScope, "work");
  const uint32_t request = maker.Request(7, "/r", 2'000, kOpen);
  maker.trace.requests[request].end_known = false;
  maker.trace.requests[request].stages.push_back({maker.String("decode"), 2'500, kOpen});
  maker.Batch(1, "gpu", thread, 2'100, kOpen);
  maker.Event(thread, scope, 3'000, 0);
  maker.Event(thread, scope, 3'000, 0);
  maker.Call(thread, "cudaStreamSynchronize", 3'100, kOpen);
  maker.trace.asyncs.push_back({scope, request, thread, kNone, 2'200, kOpen});
  maker.trace.handoffs.push_back({request, maker.String("queue"), thread, kNone, 2'300, 0, kNone});
  maker.trace.window_begin_ns = 1'000;
  maker.trace.window_end_ns = 4'000;
  Trace early = maker.Finish();
  early.events.duration_ns = {10, kOpen};
  early.clock = {4'000, kDateNs + 4'000, 0};
  Trace late = early;
  late.clock.realtime_ns += 10'000;

  for (const bool is_first : {true, false}) {
    std::vector<TracePart> parts = {{"early", early}, {"late", late}};
    if (!is_first) std::swap(parts[0], parts[1]);
    const Trace joined = Joined(std::move(parts));
    INFO("the early one is the first: " << is_first);

    REQUIRE(joined.requests.size() == 2);
    CHECK(joined.requests[0].duration_ns == 2'000);
    CHECK_FALSE(joined.requests[0].end_known);
    CHECK(joined.requests[0].stages[0].duration_ns == 1'500);
    CHECK(joined.batches[0].duration_ns == 1'900);
    CHECK(joined.asyncs[0].duration_ns == 1'800);
    const uint32_t of_early = is_first ? 0 : 1, of_late = 1 - of_early;
    CHECK(joined.calls.duration_ns[of_early] == 900);
    const uint32_t first = joined.threads[of_early].first_event;
    CHECK(joined.events.duration_ns[first] == 1'000);
    CHECK(joined.events.duration_ns[first + 1] == 10);
    CHECK(joined.handoffs[0].take_ns == 0);
    // Nothing is recorded after the end of the late one's window.
    CHECK(joined.requests[1].duration_ns == kOpen);
    CHECK(joined.requests[1].stages[0].duration_ns == kOpen);
    CHECK(joined.batches[1].duration_ns == kOpen);
    CHECK(joined.asyncs[1].duration_ns == kOpen);
    CHECK(joined.calls.duration_ns[of_late] == kOpen);
  }
}

TEST_CASE("the joined trace lacks what the format of any part lacks", "[join]") {
  const auto lacking = [](const char* what) {
    Trace trace = OneRequest(5'000, kDateNs);
    trace.attributes.push_back({trace.strings.Add("not_recorded"), trace.strings.Add(what)});
    return trace;
  };
  const Trace whole = OneRequest(5'000, kDateNs);

  const Trace joined = Joined({{"a", whole}, {"b", lacking("queues; losses")}, {"c", lacking("batches; queues")}});

  CHECK(joined.AttributeOf("not_recorded") == "queues; losses; batches");
  CHECK(pitot::model::IsLacking(joined, "losses"));
  CHECK(joined.AttributeOf("b: not_recorded").empty());
  CHECK(Joined({{"a", whole}, {"b", whole}}).AttributeOf("not_recorded").empty());
}

TEST_CASE("GPU work of requests is unknown while another process recorded less", "[join]") {
  Trace deep = OneKernel(1'000, "some", "attribute"), shallow = OneRequest(5'000, kDateNs - 10'000);
  shallow.window_begin_ns = 4'000, shallow.window_end_ns = 6'000;
  shallow.clock = {6'000, kDateNs - 4'000, 0};
  deep.depths = {{1, 10'000, pitot::Depth::kKernels}};

  const Trace joined = Joined({{"deep", deep}, {"shallow", shallow}});

  CHECK(pitot::model::AreRequestsRecorded(joined) == std::vector<bool>{false});
  CHECK(pitot::model::DepthOf(joined, 5'999, 6'001) == pitot::Depth::kScopes);
  CHECK(pitot::model::DepthOf(joined, 6'000, 9'000) == pitot::Depth::kKernels);
  CHECK(pitot::model::DepthOf(joined, 1'000, 9'000) == pitot::Depth::kScopes);
  CHECK(pitot::model::DepthOf(joined, 9'000, 10'001) == pitot::Depth::kScopes);
  const pitot::model::CoverageIndex coverage(joined);
  CHECK_FALSE(coverage.Of(pitot::model::RequestIndex(joined), 0).is_known);
  // One of the processes recorded the GPU.
  CHECK(pitot::model::RecordedIn(joined, {1, 10'000}) == pitot::model::Intervals{{1, 10'000}});

  // Without requests, nothing is unknown of them.
  shallow.requests.clear();
  CHECK(pitot::model::DepthOf(Joined({{"deep", deep}, {"shallow", shallow}}), 1'000, 9'000) == pitot::Depth::kKernels);
  CHECK(Joined({{"a", OneRequest(5'000, kDateNs)}, {"b", OneRequest(5'000, kDateNs)}}).depths.empty());
}

TEST_CASE("operators of requests are unknown while another process may have recorded none", "[join]") {
  Trace deep = OneRequest(5'000, kDateNs, 7);
  deep.operator_depths = {{5'000, 6'000, pitot::Depth::kOps}};
  const auto coverage = [](const Trace& trace, uint32_t request) {
    return pitot::model::OperatorTimes(trace).Of(trace, pitot::model::RequestIndex(trace), request);
  };
  REQUIRE(coverage(deep, 0).is_known);

  const Trace joined = Joined({{"a", deep}, {"b", OneRequest(5'000, kDateNs, 8)}});

  CHECK(!coverage(joined, 0).is_known);
  CHECK(!coverage(joined, 1).is_known);
  const Trace alike = Joined({{"a", deep}, {"b", deep}});
  CHECK(coverage(alike, 0).is_known);
  CHECK(coverage(alike, 1).covered_ns == 5);
}

TEST_CASE("incidents of one process whose windows overlap are refused", "[join]") {
  Trace a = OneRequest(5'000, kDateNs);
  a.pid = 77;
  a.clock.boottime_ns = a.clock.monotonic_ns;
  Trace b = a, later = OneRequest(500'000, kDateNs);
  later.pid = 77;
  later.clock.boottime_ns = later.clock.monotonic_ns;
  Trace joined;

  std::vector<TracePart> parts = {{"a", a}, {"b", b}};
  const Status refused = JoinTraces(&parts, &joined);
  CHECK(refused.code() == StatusCode::kInvalidArgument);
  CHECK(std::string(refused.message()) == "a and b are of one process, and their windows overlap");

  CHECK(Joined({{"a", a}, {"later", later}}).requests.size() == 2);
  b.pid = 78;
  CHECK(Joined({{"a", a}, {"b", b}}).requests.size() == 2);
}

TEST_CASE("requests of another process are labelled with its name", "[join]") {
  const auto of = [](int64_t pid, const char* name) {
    Trace trace = OneRequest(5'000, kDateNs);
    trace.pid = pid;
    trace.process_name = trace.strings.Add(name);
    return trace;
  };
  const auto labels = [](const Trace& joined) {
    std::vector<std::string> texts;
    for (const auto& request : joined.requests) {
      texts.emplace_back();
      for (const auto& label : request.labels)
        texts.back() = std::string(joined.strings[label.key]) + "=" + std::string(joined.strings[label.value]);
    }
    return texts;
  };

  const Trace joined = Joined(
      {{"a", of(1, "gateway")}, {"b", of(2, "worker")}, {"c", of(3, "gateway")}, {"d", of(0, "")}, {"e", of(1, "x")}});

  CHECK(labels(joined) == std::vector<std::string>{"", "service.name=worker", "service.name=c", "service.name=d", ""});
}

TEST_CASE("a request keeps the service that its own file names", "[join]") {
  Trace spans = OneRequest(5'000, kDateNs);
  spans.pid = 2;
  spans.requests[0].labels.push_back({spans.strings.Add("service.name"), spans.strings.Add("payments")});

  const Trace joined = Joined({{"a", OneRequest(5'000, kDateNs)}, {"b", spans}});

  REQUIRE(joined.requests[1].labels.size() == 1);
  CHECK(joined.strings[joined.requests[1].labels[0].value] == "payments");
}

TEST_CASE("joining tells no depth that no part tells", "[join]") {
  TraceMaker maker;
  maker.trace.window_begin_ns = 5'000;
  maker.trace.window_end_ns = 6'000;
  maker.Call(maker.Thread("main"), "cudaLaunchKernel", 5'100, 10, {kNone, kNone});
  maker.Request(8, "/r", 5'000, 5);
  Trace calls = maker.Finish();
  calls.clock = {6'000, kDateNs + 6'000, 0};

  CHECK(Joined({{"a", calls}, {"b", OneRequest(5'000, kDateNs)}}).depths.empty());
}

TEST_CASE("steps of any part are steps of the joined trace", "[join]") {
  Trace steps = OneRequest(5'000, kDateNs);
  steps.attributes.push_back({steps.strings.Add("step_argument"), steps.strings.Add("step_num")});

  CHECK(Joined({{"a", OneRequest(5'000, kDateNs)}, {"b", steps}}).AttributeOf("step_argument") == "step_num");
}

TEST_CASE("processes with one number in two containers are two", "[join]") {
  Trace a = OneRequest(5'000, kDateNs, 7), b = OneRequest(5'000, kDateNs, 8);
  for (Trace* const one : {&a, &b}) {
    one->pid = 1;
    one->clock.boottime_ns = one->clock.monotonic_ns;
  }

  CHECK(Joined({{"a", a}, {"b", b}}).requests.size() == 2);
}

TEST_CASE("parts whose window overlaps no other's are named", "[join]") {
  const Trace a = OneRequest(5'000, kDateNs), b = OneRequest(5'500, kDateNs), c = OneRequest(9'000, kDateNs);
  JoinReport report;

  Joined({{"a", a}, {"b", b}, {"c", c}}, &report);
  CHECK(report.apart == std::vector<std::string>{"c"});
  Joined({{"a", a}, {"b", b}}, &report);
  CHECK(report.apart.empty());
  Joined({{"a", a}}, &report);
  CHECK(report.apart.empty());
}

TEST_CASE("traces whose clocks have other origins are joined if their moments are near", "[join]") {
  // One clock began with its machine, the other in 1970.
  const Trace dump = OneRequest(5'000, kDateNs), unix_time = OneRequest(kDateNs + 6'000, 0, 8);

  const Trace joined = Joined({{"dump", dump}, {"unix", unix_time}});
  CHECK(joined.requests[1].begin_ns == 6'000);
  CHECK(Joined({{"unix", unix_time}, {"dump", dump}}).requests[0].begin_ns == kDateNs + 5'000);
}

TEST_CASE("a trace without a date, or from another time, is named and not joined", "[join]") {
  Trace joined;
  std::vector<TracePart> parts = {{"a", OneRequest(5'000, kDateNs)}, {"b", OneRequest(5'000, kDateNs)}};
  parts[1].trace.clock.realtime_ns = 0;
  const Status undated = JoinTraces(&parts, &joined);
  CHECK(undated.code() == StatusCode::kInvalidArgument);
  CHECK(std::string(undated.message()).find("b has no date") == 0);
  CHECK(joined.requests.empty());

  parts = {{"a", OneRequest(5'000, kDateNs)}, {"b", OneRequest(5'000, 0)}};
  const Status early = JoinTraces(&parts, &joined);
  CHECK(early.code() == StatusCode::kInvalidArgument);
  CHECK(std::string(early.message()) == "b is from another time than a");

  std::vector<TracePart> none;
  CHECK(JoinTraces(&none, &joined).code() == StatusCode::kInvalidArgument);
}
