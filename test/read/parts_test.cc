// SPDX-License-Identifier: Apache-2.0
//
// Counters of joined traces: those of each part are its own, for reports and analyzers.
#include "model/parts.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyze/blame/stillness.h"
#include "analyze/blame/walk_host.h"
#include "analyze/blame_of.h"
#include "analyze/facts/gpu_counters.h"
#include "base/host_counters.h"
#include "pitot/analyze/analyze.h"
#include "pitot/read/join.h"
#include "serialize/report_gpu_state.h"
#include "serialize/report_host.h"
#include "serialize/sample_trace.h"

namespace pitot::test {
namespace {

using analyze::Blame;
using model::kNone;
using model::Parts;
using model::Trace;

constexpr int64_t kMs = 1'000'000;

// A process of a host with one thread, which has the number 41, and one request of 20 ms in its code. The thread was
// on a CPU for `cpu_ms` of it and never slept. Its GPU ran at `clock`.
struct Process {
  std::string host;
  double cpu_ms, throttled_ms, clock;
  int64_t pid;
};
Trace TraceOf(const Process& process) {
  TraceMaker maker;
  maker.trace.pid = process.pid;
  maker.trace.process_name = maker.String("server");
  maker.trace.window_begin_ns = 1;
  maker.trace.window_end_ns = 100 * kMs;
  maker.trace.attributes.push_back({maker.String("host"), maker.String(process.host)});
  const uint32_t thread = maker.Thread("http"), site = maker.Site(SiteKind::kScope, "decode");
  maker.trace.threads[thread].tid = 41;
  const uint32_t request = maker.Request(static_cast<uint64_t>(process.pid), "/r", 10 * kMs, 20 * kMs);
  maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = thread;
  maker.Event(thread, site, 10 * kMs, 20 * kMs, {request, kNone});
  maker.trace.devices.push_back({0, maker.String("H200"), 132});
  maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
  Trace trace = maker.Finish();
  trace.clock.monotonic_ns = 100 * kMs;
  trace.clock.realtime_ns = 1'700'000'000'000'000'000;
  trace.clock.boottime_ns = 0;
  const auto of_thread = [](const base::CounterName& what) { return base::ThreadCounter(41, what); };
  AddCounter(&trace, kNone, of_thread(base::kOnCpu), {{10, 0}, {30, process.cpu_ms * kMs}});
  AddCounter(&trace, kNone, of_thread(base::kVoluntary), {{10, 5}, {30, 5}});
  AddCounter(&trace, kNone, of_thread(base::kInvoluntary), {{10, 7}, {30, 9}});
  AddCounter(&trace, kNone, base::HostCounter(base::kThrottledTime), {{1, 0}, {99, process.throttled_ms * kMs}});
  AddCounter(&trace, kNone, "GPU 0 (H200): SM clock", {{1, process.clock}, {99, process.clock}});
  return trace;
}

Trace Joined(const Process& a, const Process& b) {
  std::vector<TracePart> parts = {{"a", TraceOf(a), "dump 1.4"}, {"b", TraceOf(b), "dump 1.4"}};
  Trace joined;
  const Status status = JoinTraces(&parts, &joined);
  INFO(status.message());
  REQUIRE(status.ok());
  return joined;
}

analyze::AnalysisReport Analyzed(const Trace& trace, const std::string& analyzer) {
  REQUIRE(FindInconsistency(trace) == "");
  analyze::AnalysisReport report;
  analyze::AnalyzeOptions options;
  options.only = {analyzer};
  REQUIRE(Analyze(trace, analyze::MakeCatalogue(), options, &report).ok());
  return report;
}
double Measured(const analyze::AnalysisReport& report, const std::string& name, const std::string& subject) {
  const analyze::MeasureRow* const row = report.Find(report.analyzers.at(0).name, name, subject);
  return row != nullptr ? row->value : -1;
}

const Process kA = {"node1", 12, 0, 1900, 7}, kB = {"node2", 4, 30, 1200, 8};

template <class T> std::string TextOf(const T& report) {
  base::Lines lines(200);
  report.Write(&lines);
  return lines.text();
}

}  // namespace

TEST_CASE("a joined trace says of which files and processes it is", "[join]") {
  const Trace joined = Joined(kA, kB);
  const Parts parts(joined);

  REQUIRE(parts.size() == 2);
  CHECK(parts.FormatsText() == "a, b: dump 1.4");
  CHECK(parts.ProcessesText() == "a: server (pid 7) on node1; b: server (pid 8) on node2");
  CHECK(!Parts(TraceOf(kA)).is_joined());
  CHECK(Parts(TraceOf(kA)).All() == std::vector<uint32_t>{kNone});
}

TEST_CASE("a part is found by the longest name before a row's own", "[join]") {
  std::vector<TracePart> to_join = {{"a", TraceOf(kA), ""}, {"a: x", TraceOf(kB), ""}};
  Trace joined;
  REQUIRE(JoinTraces(&to_join, &joined).ok());
  const Parts parts(joined);

  CHECK(parts.Split("a: http").part == 0);
  CHECK(parts.Split("a: x: http").part == 1);
  CHECK(parts.Split("a: x: http").own == "http");
  CHECK(parts.Split("a: x").part == 1);  // a thread without a name of its own
  CHECK(parts.Split("http").part == kNone);
  CHECK(parts.OfThreads() == std::vector<uint32_t>{0, 1});
  CHECK(parts.FormatsText() == "a, a: x: (unknown)");
}

TEST_CASE("threads of one number in two files of a joined trace have their own counters", "[join]") {
  const Trace joined = Joined(kA, kB);
  REQUIRE(blame::HasHostUse(joined));
  const auto code_off_cpu = [&](uint32_t request) {
    const analyze::RequestBlame found = BlameOf(joined, request);
    const auto& segment = found.segments.back();
    const uint32_t counter = segment.counter;
    return SegmentsText(found, kMs) + " by " +
           (counter == kNone ? "nothing" : std::string(joined.strings[joined.counters[counter].name]));
  };

  CHECK(code_off_cpu(0) == "host_oncpu_pre 12; host_runqueue 8 by a: thread 41: involuntary switches");
  CHECK(code_off_cpu(1) == "host_oncpu_pre 4; host_runqueue 16 by b: thread 41: involuntary switches");
}

TEST_CASE("a27 judges each process of a joined trace by itself", "[join][a27]") {
  const analyze::AnalysisReport report = Analyzed(Joined(kA, kB), "a27");

  CHECK(Measured(report, "runqueue", "a: all") == 8 * kMs);
  CHECK(Measured(report, "runqueue", "b: all") == 16 * kMs);
  CHECK(report.Find("a27", "throttled", "a: all") == nullptr);
  CHECK(Measured(report, "throttled", "b: all") == 30 * kMs);
  REQUIRE(report.analyzers[0].findings.size() == 2);
  CHECK(Measured(Analyzed(TraceOf(kA), "a27"), "runqueue", "all") == 8 * kMs);
}

TEST_CASE("a23 looks for a leak at the ends of the process's own requests", "[join][a23]") {
  // One request each millisecond, after which `left_bytes` stay.
  const auto trace_of = [](int64_t pid, double left_bytes) {
    TraceMaker maker;
    maker.trace.pid = pid;
    maker.trace.window_begin_ns = 1;
    maker.trace.window_end_ns = 200 * kMs;
    const uint32_t thread = maker.Thread("http");
    CounterValues values;
    for (int64_t i = 1; i <= 100; ++i) {
      const uint32_t request = maker.Request(static_cast<uint64_t>(1000 * pid + i), "/r", i * kMs, kMs / 2);
      maker.trace.requests[request].begin_thread = thread;
      values.emplace_back(i, 1000 + left_bytes * static_cast<double>(i));
    }
    Trace trace = maker.Finish();
    trace.clock.monotonic_ns = 200 * kMs;
    trace.clock.realtime_ns = 1'700'000'000'000'000'000;
    trace.clock.boottime_ns = 0;
    AddCounter(&trace, kNone, "pool allocated", values);
    trace.counters[0].unit = trace.strings.Add("bytes");
    return trace;
  };
  std::vector<TracePart> parts = {{"a", trace_of(7, 10), ""}, {"b", trace_of(8, 0), ""}};
  Trace joined;
  REQUIRE(JoinTraces(&parts, &joined).ok());

  const analyze::AnalysisReport report = Analyzed(joined, "a23");

  CHECK(Measured(report, "growth_a_request", "a: pool allocated") == Approx(10));
  CHECK(Measured(report, "growth_a_request", "b: pool allocated") == 0);
}

TEST_CASE("a report has the host of each file of a joined trace", "[join]") {
  const Trace joined = Joined(kA, kB);
  const report::HostReport host(joined);
  base::Lines lines(200);

  host.Write(0, &lines);

  const std::string text = lines.text();
  INFO(text);
  const size_t of_b = text.find("host of    b");
  REQUIRE(text.find("host of    a") < of_b);
  REQUIRE(of_b != std::string::npos);
  CHECK(text.find("not throttled") < of_b);
  CHECK(text.find("throttled for 30.0 ms", of_b) != std::string::npos);
  CHECK(text.find("a: http #1") < of_b);
  CHECK(text.find("b: http #2", of_b) != std::string::npos);
  const int64_t begin_ns = joined.events.begin_ns[0];
  CHECK(host.CpuNs(0, {{begin_ns, begin_ns + 20 * kMs}}) == 12 * kMs);
  CHECK(host.CpuNs(1, {{begin_ns, begin_ns + 20 * kMs}}) == 4 * kMs);
}

TEST_CASE("the pressure on a file's host is of its own window in a joined trace", "[join]") {
  Trace later = TraceOf(kB);
  later.clock.realtime_ns += 900 * kMs;
  AddCounter(&later, kNone, base::HostCounter(base::kCpuPressure), {{1, 0}, {99, 49.0 * kMs}});
  std::vector<TracePart> parts = {{"a", TraceOf(kA), ""}, {"b", std::move(later), ""}};
  Trace joined;
  REQUIRE(JoinTraces(&parts, &joined).ok());
  base::Lines lines(200);

  report::HostReport(joined).Write(0, &lines);

  INFO(lines.text());
  CHECK(lines.text().find("pressure   CPU 50.0 % of the window") != std::string::npos);
}

TEST_CASE("GPUs of two machines have their own state in a joined trace, and one machine's counts once", "[join]") {
  const Trace two = Joined(kA, kB);
  const auto gpus = facts::GpuCountersOf(two);
  REQUIRE(gpus.size() == 2);
  for (const auto& [key, gpu] : gpus) {
    CHECK(gpu.name == (key.first == 0 ? "a: GPU 0 (H200)" : "b: GPU 0 (H200)"));
    CHECK(DeviceOf(two, gpus, key) == key.first);
    CHECK(two.samples.value[2 * gpu.Find(base::GpuCounter::kSmClock)] == (key.first == 0 ? 1900 : 1200));
  }
  CHECK(TextOf(report::GpuState(two)).find("state of b: GPU 0 (H200)") != std::string::npos);

  Process also_a = kA;
  also_a.pid = 9;
  CHECK(facts::GpuCountersOf(Joined(kA, also_a)).size() == 1);
}

TEST_CASE("a file's process stands still in a joined trace though another's works", "[join]") {
  // A look at the counters every 20 ms, except from 400 to 800 ms in one process.
  const auto trace_of = [](int64_t pid, bool stands_still) {
    TraceMaker maker;
    maker.trace.pid = pid;
    maker.trace.window_begin_ns = 1;
    maker.trace.window_end_ns = 2'000 * kMs;
    const uint32_t thread = maker.Thread("tick"), site = maker.Site(SiteKind::kScope, "tick");
    CounterValues values;
    for (int64_t ms = 10; ms < 1'990; ms += 10) {
      if (stands_still && ms > 400 && ms < 800) continue;
      maker.Event(thread, site, ms * kMs, kMs);
      if (ms % 20 == 0) values.emplace_back(ms, static_cast<double>(pid));
    }
    Trace trace = maker.Finish();
    trace.clock.monotonic_ns = 2'000 * kMs;
    trace.clock.realtime_ns = 1'700'000'000'000'000'000;
    trace.clock.boottime_ns = 0;
    AddCounter(&trace, kNone, base::HostCounter(base::kResident), values);
    return trace;
  };
  std::vector<TracePart> parts = {{"a", trace_of(7, false), ""}, {"b", trace_of(8, true), ""}};
  Trace joined;
  REQUIRE(JoinTraces(&parts, &joined).ok());
  const blame::Stillness stillness(joined);

  CHECK(stillness.StillNs(0, 1, 2'000 * kMs) == 0);
  CHECK(stillness.StillNs(1, 1, 2'000 * kMs) > 350 * kMs);
}

}  // namespace pitot::test
