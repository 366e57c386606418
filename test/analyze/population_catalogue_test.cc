// SPDX-License-Identifier: Apache-2.0
//
// Facts of many requests (a34, a35, a36, a42, a43), and the whole catalogue. Each on a trace made for its question, and
// on a harmless one that looks like it.
#include "analyze/serving_trace.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analyze/catalogue_edges.h"
#include "base/host_counters.h"

namespace pitot::test {

namespace {

// 100 requests with 2 ms of GPU work each, `every_us` apart.
Trace Paced(int64_t every_us) {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("worker"), scope = maker.Site(SiteKind::kScope, "forward");
  const uint32_t wait = maker.Site(SiteKind::kWait, "wait");
  maker.trace.devices.resize(1);
  maker.trace.streams.resize(1);
  maker.trace.streams[0].device = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t at = i * every_us * kUs;
    const uint32_t request = maker.Request(static_cast<uint64_t>(i) + 1, "/classify", at, 2'500 * kUs);
    maker.trace.requests[request].end_known = true;
    maker.Event(thread, scope, at, 2'500 * kUs, {request, kNone});
    maker.Event(thread, wait, at + kMs, kMs, {request, kNone});
    maker.Call(thread, "cudaLaunchKernel", at, 5 * kUs, {request, kNone});
    maker.Gpu(0, GpuKind::kKernel, "k", at + 10 * kUs, 2 * kMs, maker.trace.calls.size() - 1);
  }
  maker.trace.window_end_ns = 100 * every_us * kUs;
  return maker.Finish();
}

template <class Value> void AddCounter(Trace* trace, const std::string& name,
                                       const std::vector<std::pair<int64_t, Value>>& samples, const char* unit = "") {
  model::CounterRow counter;
  counter.name = trace->strings.Add(name);
  counter.unit = trace->strings.Add(unit);
  for (const auto& [at_ns, value] : samples) {
    trace->samples.counter.push_back(static_cast<uint32_t>(trace->counters.size()));
    trace->samples.at_ns.push_back(at_ns);
    trace->samples.value.push_back(static_cast<double>(value));
  }
  trace->counters.push_back(counter);
}

// A counter like the NVML collector's.
void AddPower(Trace* trace, const std::vector<std::pair<int64_t, double>>& samples) {
  AddCounter(trace, "GPU 0 (NVIDIA H100): power", samples, "W");
}

}  // namespace

TEST_CASE("a34 reports the cost of requests, and its part for idle GPUs", "[a34]") {
  AnalyzeOptions prices;
  prices.thresholds = {{"a34.gpu_hour", 3.6}, {"a34.cpu_hour", 0.36}};
  const AnalysisReport idle = Run(Paced(10'000), "a34", prices);

  CHECK(Measured(idle, "GPU time of a request") == Approx(2'000));
  CHECK(Measured(idle, "CPU time of a request") == Approx(1'500));
  // A second of a GPU is 0.001, of a thread 0.0001.
  CHECK(Measured(idle, "cost of 1,000 requests") == Approx(10 * (0.001 + 0.15 * 0.0001)));
  CHECK(Measured(idle, "cost of 1,000 requests, GPUs never idle") == Approx(10 * (0.0002 + 0.15 * 0.0001)));
  const std::optional<FindingRow> finding = Found(idle, "a34.idle_cost");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(0.8));
  CHECK(finding->cost_ns == 800 * kMs);

  CHECK(Run(Paced(2'600), "a34", prices).analyzers[0].findings.empty());
  CHECK(Run(Paced(10'000), "a34").analyzers[0].findings.empty());  // without prices
  Server server;
  for (int i = 0; i < 30; ++i) server.Serve({});
  CHECK(Codes(Run(server.Finish(), "a34", prices)) == std::vector<std::string>{"a34.not_known"});
}

TEST_CASE("a35 finds a lasting slowdown of requests", "[a35]") {
  Server changed, spike;
  for (int i = 0; i < 200; ++i) {
    const int64_t noise = i * 37 % 100 * 5;
    changed.Serve({2'000 + noise, 0, i < 120 ? 5'000 : 6'500, 500});
    spike.Serve({2'000 + noise, 0, i >= 120 && i < 124 ? 60'000 : 5'000, 500});
  }
  const Trace trace = changed.Finish();
  const std::optional<FindingRow> finding = Found(Run(trace, "a35"), "a35.latency");

  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(1.5 / 7.25).epsilon(0.05));
  REQUIRE(finding->evidence.size() == 1);
  CHECK(finding->evidence[0].begin_ns == trace.requests[120].begin_ns);
  CHECK(Run(spike.Finish(), "a35").analyzers[0].findings.empty());
}

TEST_CASE("a35 hardly ever takes chance for a change", "[a35]") {
  std::mt19937_64 random(3);
  std::lognormal_distribution<double> lognormal(0, 0.4);
  int found = 0;
  for (int i = 0; i < 100; ++i) {
    Server server;
    for (int k = 0; k < 400; ++k) server.Serve({std::llround(5'000 * lognormal(random)), 0, 2'000, 100});
    found += !Run(server.Finish(), "a35").analyzers[0].findings.empty();
  }
  CHECK(found <= 1);
}

TEST_CASE("a35 finds growth of requests' GPU work or allocations", "[a35]") {
  Trace trace = Paced(10'000);
  for (uint32_t i = 60; i < 100; ++i) {
    trace.gpu.duration_ns[i] = 3 * kMs;
    trace.calls.name[i] = trace.strings.Add("cudaMalloc");
  }
  CHECK(Codes(Run(trace, "a35")) == std::vector<std::string>{"a35.gpu_time", "a35.allocations"});
}

TEST_CASE("a34 and a35 leave out requests with unknown GPU time", "[a34][a35]") {
  // The first half is unknown: the calls no longer name their requests.
  Trace trace = Paced(10'000);
  for (uint32_t i = 0; i < 50; ++i) trace.calls.request[i] = kNone;
  CHECK(Codes(Run(trace, "a35", With("a35.least_requests", 20))).empty());
  CHECK(Measured(Run(trace, "a34"), "GPU time of a request") == Approx(2'000));

  // Recorded, without GPU work for them: known to be 0, and nothing is a multiple of that.
  trace.depths.push_back({trace.window_begin_ns, trace.window_end_ns, Depth::kKernels});
  const std::optional<FindingRow> risen = Found(Run(trace, "a35"), "a35.gpu_time");
  REQUIRE(risen.has_value());
  CHECK(risen->metric == "median, of none before");
  CHECK(risen->value == 2 * kMs);
  CHECK(Measured(Run(trace, "a34"), "GPU time of a request") == Approx(1'000));
}

TEST_CASE("a35 does not call it more work if smaller batches divide theirs among fewer requests", "[a35]") {
  const auto make = [](int64_t small_batch_us, int allocations) {
    TraceMaker maker;
    const uint32_t thread = maker.Thread("executor");
    maker.trace.devices.resize(1);
    maker.trace.streams.resize(1);
    maker.trace.streams[0].device = 0;
    uint64_t id = 0;
    for (int i = 0; i < 60; ++i) {
      const int64_t at = i * 10 * kMs;
      const int members = i < 15 ? 8 : 3;
      const uint32_t batch = maker.Batch(0x9000 + static_cast<uint64_t>(i), "resnet", thread, at, 5 * kMs);
      for (int m = 0; m < members; ++m) {
        const uint32_t request = maker.Request(++id, "/classify", at, 5 * kMs);
        maker.trace.requests[request].end_known = true;
        maker.Member(batch, request, at);
      }
      maker.Call(thread, "cudaLaunchKernel", at, 5 * kUs, {kNone, batch});
      maker.Gpu(0, GpuKind::kKernel, "k", at + 10 * kUs, members == 8 ? kMs : small_batch_us * kUs,
                maker.trace.calls.size() - 1);
      for (int k = 0; k < (members == 8 ? 4 : allocations); ++k)
        maker.Call(thread, "cudaMalloc", at + (k + 1) * 10 * kUs, kUs, {kNone, batch});
    }
    maker.trace.window_end_ns = 600 * kMs;
    return maker.Finish();
  };

  CHECK(Run(make(700, 3), "a35").analyzers[0].findings.empty());  // 125 us a request to 233, and 0.5 to 1
  CHECK(Codes(Run(make(1'500, 6), "a35")) == std::vector<std::string>{"a35.gpu_time", "a35.allocations"});
}

TEST_CASE("a36 finds batches far out of line and their period, but not larger batches or the first ones", "[a36]") {
  const auto make = [](const auto& length_us, int members) {
    TraceMaker maker;
    const uint32_t thread = maker.Thread("executor"), request = maker.Request(1, "/classify", 0, kMs);
    int64_t at_us = 0;
    for (int i = 0; i < 100; ++i) {
      const uint32_t batch =
          maker.Batch(static_cast<uint64_t>(i) + 1, "resnet", thread, at_us * kUs, length_us(i) * kUs);
      for (int m = 0; m < (i % 2 == 0 ? members : 1); ++m) maker.Member(batch, request, at_us * kUs);
      at_us += length_us(i) + 100;
    }
    maker.trace.window_end_ns = at_us * kUs;
    return maker.Finish();
  };
  const AnalysisReport periodic = Run(make([](int i) { return i % 20 == 19 ? 30'000 : 5'000 + i % 7 * 20; }, 1), "a36");
  const std::optional<FindingRow> finding = Found(periodic, "a36.outliers");
  REQUIRE(finding.has_value());
  CHECK(Measured(periodic, "outliers") == 5);
  CHECK(Measured(periodic, "period") == 20);
  CHECK(Has(finding->summary, "one every 20 steps"));
  CHECK(finding->cost_ns == Approx(5 * 25 * kMs).epsilon(0.01));
  CHECK(finding->evidence.size() == 5);

  const AnalysisReport irregular =
      Run(make([](int i) { return i == 22 || i == 40 || i == 90 ? 30'000 : 5'000; }, 1), "a36");
  CHECK(Measured(irregular, "outliers") == 3);
  CHECK(irregular.Find("a36", "period") == nullptr);
  const AnalysisReport once = Run(make([](int i) { return i == 50 ? 30'000 : 5'000; }, 1), "a36");
  REQUIRE(Found(once, "a36.outliers").has_value());
  CHECK(Found(once, "a36.outliers")->confidence == 0.5);
  CHECK(once.Find("a36", "period") == nullptr);
  CHECK(Run(make([](int i) { return i % 2 == 0 ? 20'000 : 5'000; }, 4), "a36").analyzers[0].findings.empty());
  CHECK(Run(make([](int i) { return i < 10 ? 60'000 : 5'000; }, 1), "a36").analyzers[0].findings.empty());
}

TEST_CASE("a36 names the slowest requests of batches out of line, as pitot why takes them", "[a36]") {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("executor");
  int64_t at = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const bool is_slow = i >= 20 && i % 20 == 0;  // 20, 40, 60, 80
    const int64_t length = is_slow ? 30 * kMs : 5 * kMs, before = is_slow ? static_cast<int64_t>(i) * kUs : 0;
    const uint32_t request = maker.Request(0xab00 + i, "/classify", at - before, before + length);
    maker.trace.requests[request].end_known = i != 80;  // the end of one was lost
    const uint32_t batch = maker.Batch(i + 1, "resnet", thread, at, length);
    maker.Member(batch, request, at);
    at += length + kMs;
  }
  maker.trace.window_end_ns = at;

  const std::optional<FindingRow> finding = Found(Run(maker.Finish(), "a36"), "a36.outliers");

  REQUIRE(finding.has_value());
  CHECK(Has(finding->summary,
            "; the slowest requests in them: request 000000000000ab3c, 000000000000ab28, 000000000000ab14"));
}

TEST_CASE("a36 compares batches of equally large requests, and does not count their window as work", "[a36]") {
  // Every fifth batch has a request four times as large, and takes as long; every tenth waits 20 ms for members.
  const auto make = [](bool is_larger_in_size, double large_work = 0) {
    TraceMaker maker;
    const uint32_t thread = maker.Thread("executor"), wait = maker.Site(SiteKind::kWait, "batch member"),
                   forward = maker.Site(SiteKind::kScope, "forward");
    const uint32_t small = maker.Request(1, "/classify", 0, kMs), large = maker.Request(2, "/classify", 0, kMs);
    for (const uint32_t row : {small, large}) {
      const double pixels = row == large && is_larger_in_size ? 400'000 : 100'000;
      maker.trace.requests[row].sizes = {{maker.String("pixels"), pixels}};
    }
    int64_t at = 0;
    for (uint64_t i = 0; i < 200; ++i) {
      const int64_t window = i % 10 == 3 ? 20 * kMs : 100 * kUs, work = i % 5 == 0 ? 20 * kMs : 5 * kMs;
      const uint32_t batch = maker.Batch(i + 1, "resnet", thread, at, window + work);
      maker.Member(batch, i % 5 == 0 ? large : small, at);
      if (large_work != 0) maker.trace.members.back().work = i % 5 == 0 ? large_work : 1;
      maker.Event(thread, wait, at, window, {kNone, batch});
      maker.Event(thread, forward, at + window, work, {kNone, batch});
      at += window + work + 100 * kUs;
    }
    maker.trace.window_end_ns = at;
    return maker.Finish();
  };
  CHECK(Run(make(true), "a36").analyzers[0].findings.empty());
  CHECK(Run(make(false, 4), "a36").analyzers[0].findings.empty());  // by their work, whatever the size
  CHECK(Found(Run(make(true, 1), "a36"), "a36.outliers").has_value());
  const AnalysisReport alike = Run(make(false), "a36");
  REQUIRE(Found(alike, "a36.outliers").has_value());
  CHECK(Measured(alike, "period") == 5);
}

TEST_CASE("a36 ignores outliers that add up to hardly anything, and steps that got no CPU", "[a36]") {
  enum class Long { kAtWork, kWithoutCpu };
  const auto make = [](Long how, int64_t longer_us) {
    constexpr int64_t kTid = 41;
    TraceMaker maker;
    const uint32_t thread = maker.Thread("executor"), forward = maker.Site(SiteKind::kScope, "forward"),
                   request = maker.Request(1, "/classify", 0, kMs);
    maker.trace.threads[thread].tid = kTid;
    std::vector<std::pair<int64_t, int64_t>> on_cpu, voluntary, involuntary;
    int64_t at = 0, waited_ns = 0, switches = 0;
    const auto look = [&](int64_t now) {
      on_cpu.emplace_back(now, now - waited_ns);
      voluntary.emplace_back(now, 0);
      involuntary.emplace_back(now, switches);
    };
    for (uint64_t i = 0; i < 200; ++i) {
      const int64_t length = (i % 40 == 15 ? longer_us : 5'000) * kUs;
      const uint32_t batch = maker.Batch(i + 1, "resnet", thread, at, length);
      maker.Member(batch, request, at);
      maker.Event(thread, forward, at, length, {kNone, batch});
      look(at);
      if (how == Long::kWithoutCpu && length > 5 * kMs) waited_ns += length - 5 * kMs, ++switches;
      look(at + length);
      at += length + 100 * kUs;
    }
    maker.trace.window_end_ns = at;
    Trace trace = maker.Finish();
    AddCounter(&trace, base::ThreadCounter(kTid, base::kOnCpu), on_cpu);
    AddCounter(&trace, base::ThreadCounter(kTid, base::kVoluntary), voluntary);
    AddCounter(&trace, base::ThreadCounter(kTid, base::kInvoluntary), involuntary);
    return trace;
  };
  CHECK(Found(Run(make(Long::kAtWork, 30'000), "a36"), "a36.outliers").has_value());
  CHECK_FALSE(Found(Run(make(Long::kWithoutCpu, 30'000), "a36"), "a36.outliers").has_value());
  // 17.5 of 970 ms.
  const AnalysisReport few = Run(make(Long::kAtWork, 8'500), "a36");
  CHECK(Measured(few, "outliers") == 5);
  CHECK_FALSE(Found(few, "a36.outliers").has_value());
}

TEST_CASE("a42 finds the load from which on requests only wait for each other", "[a42]") {
  // A server of `width` requests at once, 10 ms each. It is given 1, 2, 4 and 16 at once, for a second each. 16 at once
  // may take `batched_ms` all together.
  const auto make = [](int width, int64_t batched_ms = 0) {
    TraceMaker maker;
    const uint32_t scope = maker.Site(SiteKind::kScope, "work");
    for (int i = 0; i < width; ++i) maker.Thread("worker " + std::to_string(i));
    struct One {
      int64_t begin, end;
    };
    std::vector<One> ones;
    int64_t at = 0;
    for (const int load : {1, 2, 4, 16}) {
      if (load == 16 && batched_ms != 0) {
        for (int64_t end = at + kSecond; at < end; at += batched_ms * kMs)
          ones.resize(ones.size() + 16, {at, at + batched_ms * kMs});
        continue;
      }
      const int waves = (load + width - 1) / width;
      for (int64_t end = at + kSecond; at < end; at += waves * 10 * kMs) {
        for (int i = 0; i < load; ++i) ones.push_back({at, at + (i / width + 1) * 10 * kMs});
      }
    }
    std::vector<int64_t> free_at(static_cast<size_t>(width));  // of each worker
    for (const One& one : ones) {
      const uint32_t request =
          maker.Request(maker.trace.requests.size() + 1, "/classify", one.begin, one.end - one.begin);
      maker.trace.requests[request].end_known = true;
      const auto worker = std::min_element(free_at.begin(), free_at.end());
      const int64_t begin = std::max(one.begin, *worker);
      if (begin >= one.end) continue;  // of a batch that others work on
      maker.Event(static_cast<uint32_t>(worker - free_at.begin()), scope, begin, one.end - begin, {request, kNone});
      *worker = one.end;
    }
    maker.trace.window_end_ns = at;
    return maker.Finish();
  };
  const AnalysisReport report = Run(make(2), "a42");
  const std::optional<FindingRow> finding = Found(report, "a42.beyond_knee");
  REQUIRE(finding.has_value());
  CHECK(Measured(report, "knee") == Approx(2).epsilon(0.1));
  CHECK(finding->value == Approx(200.0 / 700).epsilon(0.1));
  CHECK(Has(finding->recommendation, "about 2."));
  CHECK_FALSE(Found(Run(make(16), "a42"), "a42.beyond_knee").has_value());
  // Later, but more: 533 requests/s in 30 ms, against 400 in 10 ms.
  CHECK_FALSE(Found(Run(make(4, 30), "a42"), "a42.beyond_knee").has_value());
}

TEST_CASE("a42 finds no knee if requests hardly meet each other", "[a42]") {
  // 10 a second, one to four at once, of 10 ms each: 0.1 to 0.4 in flight.
  TraceMaker maker;
  maker.Thread("worker");
  int64_t at = 0;
  for (const int load : {1, 2, 4}) {
    for (int64_t end = at + 4 * kSecond; at < end; at += load * 100 * kMs) {
      for (int i = 0; i < load; ++i) {
        const uint32_t request = maker.Request(maker.trace.requests.size() + 1, "/classify", at, load * 10 * kMs);
        maker.trace.requests[request].end_known = true;
      }
    }
  }
  maker.trace.window_end_ns = at;

  const AnalysisReport report = Run(maker.Finish(), "a42", With("a42.saturated", 0));

  REQUIRE(report.Find("a42", "knee", "all") != nullptr);
  CHECK(Measured(report, "knee") < 1);
  CHECK_FALSE(Found(report, "a42.beyond_knee").has_value());
}

TEST_CASE("a42 does not take a spell of slowness for more load", "[a42]") {
  // 30 requests/s all the time; in the second from 4 s on each takes eight times as long, so that more are in flight.
  TraceMaker maker;
  maker.Thread("worker");
  for (int i = 0; i < 300; ++i) {
    const int64_t begin = i * kSecond / 30;
    const bool is_slow = begin >= 4 * kSecond && begin < 7 * kSecond;
    const uint32_t request = maker.Request(static_cast<uint64_t>(i) + 1, "/generate", begin, (is_slow ? 80 : 10) * kMs);
    maker.trace.requests[request].end_known = true;
  }
  maker.trace.window_end_ns = 11 * kSecond;
  AnalyzeOptions options = With("a42.least_levels", 2);
  options.thresholds.push_back({"a42.saturated", 0});
  const AnalysisReport report = Run(maker.Finish(), "a42", options);
  REQUIRE(report.Find("a42", "knee", "all") != nullptr);
  CHECK_FALSE(Found(report, "a42.beyond_knee").has_value());
}

namespace {

// 250 requests/s to four workers. Each takes 3.5, 6 or 15 ms, by turns for a tenth of a second: more are in flight, and
// as many are served as came. The longest ones wait for 12 ms, as for a disk, except for `work_ms` at the beginning.
Trace WaitsAtTimes(int64_t work_ms) {
  TraceMaker maker;
  const uint32_t scope = maker.Site(SiteKind::kScope, "infer"), wait = maker.Site(SiteKind::kWait, "file");
  for (int i = 0; i < 4; ++i) maker.Thread("worker " + std::to_string(i));
  for (int i = 0; i < 1000; ++i) {
    const int64_t begin = i * 4 * kMs;
    const bool waits = i / 25 % 3 == 2;
    const int64_t length = (waits ? 15'000 : i / 25 % 3 == 1 ? 6'000 : 3'500) * kUs;
    const uint32_t thread = static_cast<uint32_t>(i % 4);
    const uint32_t request = maker.Request(static_cast<uint64_t>(i) + 1, "/generate", begin, length);
    maker.trace.requests[request].end_known = true;
    maker.Event(thread, scope, begin, length, {request, kNone});
    if (waits && work_ms < 12) maker.Event(thread, wait, begin + work_ms * kMs, (12 - work_ms) * kMs, {request, kNone});
  }
  maker.trace.window_end_ns = 4 * kSecond + 20 * kMs;
  return maker.Finish();
}

}  // namespace

TEST_CASE("a42 finds no load beyond the capacity of a server with idle workers", "[a42]") {
  const AnalysisReport idle = Run(WaitsAtTimes(0), "a42"), full = Run(WaitsAtTimes(12), "a42");

  CHECK_FALSE(Found(idle, "a42.beyond_knee").has_value());
  CHECK(Found(Run(WaitsAtTimes(0), "a42", With("a42.saturated", 0.1)), "a42.beyond_knee").has_value());
  CHECK(Found(full, "a42.beyond_knee").has_value());
}

TEST_CASE("a42 reports nothing if the load hardly varies", "[a42]") {
  Server server;
  for (int i = 0; i < 200; ++i) server.Serve({});
  CHECK(Run(server.Finish(), "a42").analyzers[0].measures.empty());
}

TEST_CASE("a43 reports the energy of requests and of an idle GPU", "[a43]") {
  Trace idle = Paced(10'000), busy = Paced(2'600);
  AddPower(&idle, {{0, 100}, {kSecond / 2, 200}});
  AddPower(&busy, {{0, 300}});

  const AnalysisReport report = Run(idle, "a43");

  CHECK(Measured(report, "energy") == Approx(150));
  CHECK(Measured(report, "mean power") == Approx(150));
  CHECK(Measured(report, "energy while idle") == Approx(120));
  CHECK(Measured(report, "energy of a request") == Approx(1.5));
  const std::optional<FindingRow> finding = Found(report, "a43.idle_energy");
  REQUIRE(finding.has_value());
  CHECK(finding->subject == "GPU 0 (NVIDIA H100)");
  CHECK(finding->value == Approx(0.8));
  CHECK(Run(busy, "a43").analyzers[0].findings.empty());
  CHECK(Codes(Run(Paced(10'000), "a43")) == std::vector<std::string>{"a43.not_known"});
}

TEST_CASE("the whole catalogue answers any consistent trace with finite numbers", "[analyze]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Trace trace = RandomTrace(seed, 50 + seed * 10);
    AnalyzeOptions options;
    // As if every number were enough, so that all paths are taken.
    for (const char* const name : {"a28.least_requests", "a29.least_tokens", "a30.least_requests", "a31.least_requests",
                                   "a34.least_requests", "a36.least_steps", "a41.least_requests", "a42.least_levels"})
      options.thresholds.push_back({name, 2});
    options.thresholds.push_back({"a30.target", 1});
    options.thresholds.push_back({"a34.gpu_hour", 1});
    AnalysisReport report;
    REQUIRE(Analyze(trace, analyze::MakeCatalogue(), options, &report).ok());
    for (const analyze::AnalyzerReport& analyzer : report.analyzers) {
      INFO(analyzer.name << " of seed " << seed << ": " << analyzer.status.message());
      CHECK(analyzer.status.ok());
      for (const FindingRow& finding : analyzer.findings) {
        CHECK((finding.confidence >= 0 && finding.confidence <= 1));
        CHECK_FALSE(std::isnan(finding.value));
        CHECK(finding.cost_ns >= 0);
        CHECK_FALSE(finding.summary.empty());
        CHECK_FALSE(finding.recommendation.empty());
      }
    }
  }
}

// ---- At their edges

TEST_CASE("a34 finds costs of idle GPUs from a share on, of enough requests", "[a34]") {
  const GpuTrace made = Of(Paced(10'000));
  AnalyzeOptions prices = With("a34.gpu_hour", 3.6);
  const std::optional<FindingRow> finding = Found(made.Run("a34", prices), "a34.idle_cost");

  CheckFinding(finding, Severity::kMedium, 0.9, 800'000, 1);
  CHECK(IsEvidence(finding->evidence[0], 0, 0, 1'000'000));
  CheckEdge(made, "a34.idle_cost", "idle_share", Edge::kFrom, finding->value, prices);
  CheckEdge(made, "a34.idle_cost", "least_requests", Edge::kFrom, 100, prices);
  // 2 of 8 ms are three quarters idle; of 7 they are less.
  CHECK(Found(Run(Paced(8'001), "a34", prices), "a34.idle_cost")->severity == Severity::kMedium);
  CHECK(Found(Run(Paced(7'000), "a34", prices), "a34.idle_cost")->severity == Severity::kLow);
}

TEST_CASE("a34 counts what threads do for requests or batches, except for waits", "[a34]") {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("worker"), scope = maker.Site(SiteKind::kScope, "work"),
                 wait = maker.Site(SiteKind::kWait, "wait");
  const uint32_t request = maker.Request(1, "/a", 0, 10 * kMs);
  maker.trace.requests[request].end_known = true;
  const uint32_t batch = maker.Batch(2, "unet", thread, 4 * kMs, kMs);
  maker.Event(thread, scope, 0, 2 * kMs, {request, kNone});
  maker.Event(thread, wait, 2 * kMs, kMs, {request, kNone});
  maker.Event(thread, scope, 4 * kMs, 3 * kMs, {kNone, batch});
  maker.Event(thread, scope, 8 * kMs, kMs);
  maker.trace.window_end_ns = 10 * kMs;

  CHECK(Measured(Run(maker.Finish(), "a34"), "CPU time of a request") == 5'000);
}

namespace {

// Requests whose latency is 6 ms, a little more or less, and from the `since`-th on longer. The last ones before are
// short, so that they do not seem to belong to the rise.
GpuTrace Rising(int count, int since, int64_t longer_us) {
  Server server;
  for (int i = 0; i < count; ++i) {
    const int64_t noise_us = i < since && i >= since - 20 ? 0 : i * 37 % 100 * 5;
    server.Serve({1'000 + noise_us, 0, i < since ? 5'000 : 5'000 + longer_us, 500});
  }
  return Of(server.Finish());
}

}  // namespace

TEST_CASE("a35 finds growth of a median from a share on, of enough requests before and after", "[a35]") {
  const GpuTrace made = Rising(200, 120, 1'500);
  const std::optional<FindingRow> finding = Found(made.Run("a35"), "a35.latency");

  REQUIRE(finding.has_value());
  CHECK(finding->severity == Severity::kMedium);
  CHECK(finding->confidence > 0.99);
  CHECK(finding->cost_ns == Approx(80 * 1.5e6).epsilon(0.05));
  CHECK(Measured(made.Run("a35"), "latency before") == Approx(6'250).epsilon(0.02));
  CHECK(Measured(made.Run("a35"), "latency after") == Approx(7'750).epsilon(0.02));
  CheckEdge(made, "a35.latency", "least_change", Edge::kFrom);
  CheckEdge(made, "a35.latency", "least_requests", Edge::kFrom, 200);
  CHECK(Found(Rising(200, 120, 3'300).Run("a35"), "a35.latency")->severity == Severity::kHigh);
  CHECK(Found(Rising(200, 120, 2'900).Run("a35"), "a35.latency")->severity == Severity::kMedium);
}

TEST_CASE("a35 needs ten requests after the change", "[a35]") {
  AnalyzeOptions options = With("a35.lambda", 5);
  options.thresholds.push_back({"a35.p", 1});

  CHECK(Found(Rising(200, 190, 20'000).Run("a35", options), "a35.latency").has_value());
  CHECK_FALSE(Found(Rising(200, 191, 20'000).Run("a35", options), "a35.latency").has_value());
}

TEST_CASE("a35 finds no fall of the median", "[a35]") {
  CHECK(Rising(200, 120, -2'000).Run("a35").analyzers[0].findings.empty());
}

namespace {

// Batches of 5 ms, of which these take 30 ms.
GpuTrace OutOfLine(int count, const std::vector<int>& outliers) {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("executor"), request = maker.Request(1, "/classify", 0, kMs);
  int64_t at = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t length = std::find(outliers.begin(), outliers.end(), i) != outliers.end() ? 30 * kMs : 5 * kMs;
    const uint32_t batch = maker.Batch(static_cast<uint64_t>(i) + 1, "resnet", thread, at, length);
    maker.Member(batch, request, at);
    at += length + kMs;
  }
  maker.trace.window_end_ns = at;
  return Of(maker.Finish());
}

}  // namespace

TEST_CASE("a36 finds steps from a z on, in enough steps after warm-up, if they add up to enough", "[a36]") {
  const GpuTrace made = OutOfLine(110, {30, 50, 71, 92});
  const AnalysisReport report = made.Run("a36");

  CHECK(Measured(report, "steps") == 100);
  CHECK(Measured(report, "median") == 5'000);
  CHECK(Measured(report, "outliers") == 4);
  CHECK(Measured(report, "period") == 21);
  const double excess = 100.0 / (96 * 5 + 120);
  CHECK(Measured(report, "excess_share") == Approx(excess));
  CheckFinding(Found(report, "a36.outliers"), Severity::kMedium, 0.95, 100'000, 4);
  // A tenth of the median stands for deviations that are smaller.
  CHECK(Found(report, "a36.outliers")->value == Approx(0.6745 * 25 / 0.5));
  CheckEdge(made, "a36.outliers", "z", Edge::kFrom);
  CheckEdge(made, "a36.outliers", "least_steps", Edge::kFrom, 100);
  CHECK(FoundWith(made, "a36.outliers", "excess_share", excess * 0.999).has_value());
  CHECK_FALSE(FoundWith(made, "a36.outliers", "excess_share", excess * 1.001).has_value());
  CHECK(Measured(made.Run("a36", With("a36.warm_up", 31)), "outliers") == 3);
  CHECK(Measured(made.Run("a36", With("a36.warm_up", 30)), "outliers") == 4);
}

TEST_CASE("a36 takes outliers as regular if their distances differ by one at most", "[a36]") {
  const auto has_period = [](const std::vector<int>& outliers) {
    return OutOfLine(110, outliers).Run("a36").Find("a36", "period") != nullptr;
  };

  CHECK(has_period({20, 40, 61, 80}));
  CHECK_FALSE(has_period({20, 40, 62, 80}));
  CHECK_FALSE(has_period({20, 40, 60}));
  CHECK(has_period({20, 22, 24, 26}));
  CHECK_FALSE(has_period({20, 21, 22, 23}));
}

TEST_CASE("a36 only informs of slow batches without a period that cost little", "[a36]") {
  CheckFinding(Found(OutOfLine(110, {30, 45}).Run("a36"), "a36.outliers"), Severity::kInfo, 0.5, 50'000, 2);

  const GpuTrace costly = OutOfLine(110, {30, 45, 71});
  const double excess = 75.0 / (97 * 5 + 90);
  CheckFinding(Found(costly.Run("a36"), "a36.outliers"), Severity::kMedium, 0.5, 75'000, 3);
  CheckFinding(FoundWith(costly, "a36.outliers", "fault_share", excess * 0.999), Severity::kMedium, 0.5, 75'000, 3);
  CheckFinding(FoundWith(costly, "a36.outliers", "fault_share", excess * 1.001), Severity::kInfo, 0.5, 75'000, 3);
}

TEST_CASE("a36 judges PyTorch's steps, too: a fiftieth of them or more is medium, fewer are low", "[a36]") {
  for (const int count : {50, 51}) {
    TraceMaker maker;
    const uint32_t thread = maker.Thread("main");
    int64_t at = 0;
    for (int i = 0; i < count + 10; ++i) {
      const int64_t length = i == 40 ? 50 * kMs : 5 * kMs;
      maker.Event(thread, maker.Site(SiteKind::kScope, "ProfilerStep#" + std::to_string(i)), at, length);
      at += length;
    }
    maker.trace.window_end_ns = at;

    CheckFinding(Found(Run(maker.Finish(), "a36"), "a36.outliers"), count == 50 ? Severity::kMedium : Severity::kLow,
                 0.5, 45'000, 1);
  }
}

namespace {

// A server of two requests at once, 10 ms each, that is given 1, 2, 4 and 16 at once for a second each.
GpuTrace OfTwo() {
  TraceMaker maker;
  const uint32_t workers[] = {maker.Thread("worker 0"), maker.Thread("worker 1")};
  const uint32_t scope = maker.Site(SiteKind::kScope, "work");
  int64_t at = 0;
  for (const int load : {1, 2, 4, 16}) {
    const int waves = (load + 1) / 2;
    for (int64_t end = at + kSecond; at < end; at += waves * 10 * kMs) {
      for (int i = 0; i < load; ++i) {
        const uint32_t request =
            maker.Request(maker.trace.requests.size() + 1, "/classify", at, (i / 2 + 1) * 10 * kMs);
        maker.trace.requests[request].end_known = true;
        maker.Event(workers[i % 2], scope, at + i / 2 * 10 * kMs, 10 * kMs, {request, kNone});
      }
    }
  }
  maker.trace.window_end_ns = at;
  return Of(maker.Finish());
}

}  // namespace

TEST_CASE("a42 finds requests beyond the knee from a share on, on enough levels", "[a42]") {
  const GpuTrace made = OfTwo();
  const AnalysisReport report = made.Run("a42");
  const std::optional<FindingRow> finding = Found(report, "a42.beyond_knee");

  REQUIRE(finding.has_value());
  CHECK(finding->severity == (finding->value >= 0.5 ? Severity::kHigh : Severity::kMedium));
  CHECK(finding->confidence == Approx(0.7));
  REQUIRE(finding->evidence.size() == 1);
  CHECK(finding->evidence[0].end_ns == made.trace.window_end_ns);
  CheckEdge(made, "a42.beyond_knee", "share", Edge::kFrom);
  size_t levels = 0;
  double requests = 0;
  for (const analyze::MeasureRow& row : report.analyzers[0].measures) {
    levels += row.name == "latency" ? 1 : 0;
    requests += row.name == "requests" ? row.value : 0;
  }
  CHECK(requests == Approx(static_cast<double>(made.trace.requests.size())).epsilon(0.03));
  CheckEdge(made, "a42.beyond_knee", "least_levels", Edge::kFrom, static_cast<double>(levels));
}

TEST_CASE("a42 takes a level as beyond the knee by its latency, throughput and pace", "[a42]") {
  const GpuTrace made = OfTwo();
  const AnalysisReport report = made.Run("a42");
  std::map<double, std::map<std::string, double>> levels;  // by requests in flight
  for (const analyze::MeasureRow& row : report.analyzers[0].measures) {
    if (Has(row.subject, "in flight")) levels[std::stod(row.subject)][row.name] = row.value;
  }
  std::map<std::string, double> knee = levels[std::round(Measured(report, "knee") * 10) / 10];
  double latency = 0, throughput = INFINITY, pace = 0;  // against the knee: the largest, but the least throughput
  for (auto& [in_flight, level] : levels) {
    if (in_flight <= Measured(report, "knee") + 0.05) continue;
    latency = std::max(latency, level["latency"] / knee["latency"]);
    throughput = std::min(throughput, level["throughput"] / knee["throughput"]);
    pace = std::max(pace, level["pace"] / knee["pace"]);
  }
  const auto is_found = [&](const char* threshold, double value) {
    AnalyzeOptions options = With("a42.share", 0.001);
    options.thresholds.push_back({std::string("a42.") + threshold, value});
    return Found(made.Run("a42", options), "a42.beyond_knee").has_value();
  };

  CHECK(is_found("latency_growth", latency * 0.999));
  CHECK_FALSE(is_found("latency_growth", latency * 1.001));
  CHECK(is_found("throughput_gain", throughput - 0.999));
  CHECK_FALSE(is_found("throughput_gain", throughput - 1.001));
  CHECK(is_found("pace", pace * 0.999));
  CHECK_FALSE(is_found("pace", pace * 1.001));
  CHECK(is_found("saturated", 0.99));
  CHECK_FALSE(is_found("saturated", 1.01));
}

TEST_CASE("a43 finds the energy of an idle GPU from a share and a number of joules on", "[a43]") {
  Trace idle = Paced(10'000), few = Paced(5'000);
  AddPower(&idle, {{0, 100}, {kSecond / 2, 200}});
  AddPower(&few, {{0, 100}});
  const GpuTrace made = Of(idle);
  const AnalysisReport report = made.Run("a43");
  const std::optional<FindingRow> finding = Found(report, "a43.idle_energy");

  CheckFinding(finding, Severity::kMedium, 0.7, 800'000, 1);
  CHECK(IsEvidence(finding->evidence[0], 0, 2'010, 10'010));
  CheckEdge(made, "a43.idle_energy", "idle_share", Edge::kFrom);
  CheckEdge(made, "a43.idle_energy", "least_joules", Edge::kFrom, Measured(report, "energy while idle"));
  CHECK(Found(Run(few, "a43"), "a43.idle_energy")->severity == Severity::kLow);
}

TEST_CASE("a43 counts power within the window, and an idle GPU's only if there is one of each", "[a43]") {
  Trace made = Paced(10'000);
  made.window_begin_ns = kSecond / 4;
  made.window_end_ns = kSecond * 3 / 4;
  AddPower(&made, {{0, 100}, {kSecond / 2, 200}});
  Trace two = made;
  AddCounter<double>(&two, "GPU 1 (NVIDIA H100): power", {{0, 50}}, "W");

  CHECK(Measured(Run(made, "a43"), "energy") == Approx(0.25 * 100 + 0.25 * 200));
  CHECK(Measured(Run(made, "a43"), "mean power") == Approx(150));
  const AnalysisReport report = Run(two, "a43");
  CHECK(report.Find("a43", "energy while idle") == nullptr);
  CHECK(Measured(report, "energy", "GPU 1 (NVIDIA H100)") == Approx(25));
  CHECK(report.analyzers[0].findings.empty());
}

TEST_CASE("a34 reports costs with the price of a GPU or of a CPU alone", "[a34]") {
  const Trace trace = Paced(10'000);

  CHECK(Measured(Run(trace, "a34", With("a34.cpu_hour", 0.36)), "cost of 1,000 requests") ==
        Approx(10 * 0.15 * 0.0001));
  CHECK(Measured(Run(trace, "a34", With("a34.gpu_hour", 0.36)), "cost of 1,000 requests") == Approx(10 * 0.0001));
  CHECK(Run(trace, "a34").Find("a34", "cost of 1,000 requests") == nullptr);
}

TEST_CASE("a35 counts a batch's allocations in equal shares of its members", "[a35]") {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("executor");
  for (uint32_t i = 0; i < 100; ++i) {
    const int64_t at = i * 10 * kMs;
    const uint32_t batch = maker.Batch(0x9000 + i, "resnet", thread, at, 5 * kMs);
    for (uint64_t m = 0; m < 4; ++m) {
      const uint32_t request = maker.Request(i * 4 + m + 1, "/classify", at, 5 * kMs);
      maker.trace.requests[request].end_known = true;
      maker.Member(batch, request, at);
    }
    for (int64_t k = 0; k < (i < 50 ? 2 : 8); ++k)
      maker.Call(thread, "cudaMalloc", at + (k + 1) * 10 * kUs, kUs, {kNone, batch});
  }
  maker.trace.window_end_ns = 1000 * kMs;

  const AnalysisReport report = Run(maker.Finish(), "a35");

  CHECK(Measured(report, "allocations before") == Approx(0.5));
  CHECK(Measured(report, "allocations after") == Approx(2));
  const std::optional<FindingRow> finding = Found(report, "a35.allocations");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(3));
  CHECK(finding->cost_ns == 0);
}

TEST_CASE("a36 names groups by the batches' size, and by the powers of two of their requests' sizes", "[a36]") {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("executor"), request = maker.Request(1, "/classify", 0, kMs);
  maker.trace.requests[request].sizes = {{maker.String("pixels"), 100'000}};
  for (int64_t i = 0; i < 40; ++i) {
    const uint32_t batch = maker.Batch(static_cast<uint64_t>(i) + 1, "resnet", thread, i * 10 * kMs, 5 * kMs);
    for (int m = 0; m < 2; ++m) maker.Member(batch, request, i * 10 * kMs);
  }
  maker.trace.window_end_ns = 400 * kMs;

  const AnalysisReport report = Run(maker.Finish(), "a36");

  REQUIRE(report.Find("a36", "steps") != nullptr);
  CHECK(Has(report.Find("a36", "steps")->subject, "131072"));  // of 200,000
  CHECK(Has(report.Find("a36", "steps")->subject, " 2,"));
}

TEST_CASE("a42 costs what requests beyond the knee took longer", "[a42]") {
  const GpuTrace made = OfTwo();
  const AnalysisReport report = made.Run("a42");
  std::map<double, std::map<std::string, double>> levels;
  for (const analyze::MeasureRow& row : report.analyzers[0].measures) {
    if (Has(row.subject, "in flight")) levels[std::stod(row.subject)][row.name] = row.value;
  }
  const double knee = std::round(Measured(report, "knee") * 10) / 10;
  double cost_ns = 0, beyond = 0;
  for (auto& [in_flight, level] : levels) {
    if (in_flight <= knee || level["latency"] < 1.5 * levels[knee]["latency"]) continue;
    cost_ns += (level["latency"] - levels[knee]["latency"]) * level["requests"];
    beyond += level["requests"];
  }

  const std::optional<FindingRow> finding = Found(report, "a42.beyond_knee");
  REQUIRE(finding.has_value());
  CHECK(static_cast<double>(finding->cost_ns) == Approx(cost_ns));
  CHECK(finding->value == Approx(beyond / static_cast<double>(made.trace.requests.size())));
}

TEST_CASE("a34 says what a thousand requests cost, and how much of that is idle", "[a34]") {
  const std::optional<FindingRow> finding =
      Found(Run(Paced(10'000), "a34", With("a34.gpu_hour", 360)), "a34.idle_cost");

  REQUIRE(finding.has_value());
  CHECK(Has(finding->summary, " 1 "));    // a second of the GPU is 0.1, for 100 requests
  CHECK(Has(finding->summary, " 0.8 "));  // of which four fifths are idle
}

TEST_CASE("a36 does not name the size of requests without one", "[a36]") {
  const AnalysisReport report = OutOfLine(40, {}).Run("a36");

  REQUIRE(report.Find("a36", "steps") != nullptr);
  CHECK_FALSE(Has(report.Find("a36", "steps")->subject, "size"));
}

}  // namespace pitot::test
