// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/report.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/appendix.h"
#include "base/columns.h"
#include "golden.h"
#include "pitot/model/index.h"
#include "report/incident_trace.h"

using namespace pitot;
using model::Trace;

namespace {

std::string Report(const Trace& trace) {
  REQUIRE(model::FindInconsistency(trace) == "");
  const std::string text = incident::Serialize(*MakeReportSerializer(), trace);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    CHECK(base::Width(text.substr(at, end - at)) <= 100);
    at = end + 1;
  }
  const auto front = text.begin() + static_cast<std::ptrdiff_t>(base::FindAppendix(text));
  CHECK(front != text.end());
  CHECK(std::count(text.begin(), front, '\n') <= 20);
  return text;
}
bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The report's words on one line, without wrapping.
std::string OneLine(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c != '\n' && (c != ' ' || line.empty() || line.back() != ' ')) line += c;
    if (c == '\n' && !line.empty() && line.back() != ' ') line += ' ';
  }
  return line;
}

// The last thread, without other events, releases the lock "cache".
void AddRelease(int64_t at_ns, Trace* trace) {
  model::SiteRow site;
  site.kind = SiteKind::kInstant;
  site.name = trace->strings.Add("release");
  site.arg_names = {trace->strings.Add("kind"), trace->strings.Add("resource")};
  site.arg_types = {ArgType::kUint, ArgType::kName};
  trace->sites.push_back(site);
  trace->events.begin_ns.push_back(at_ns);
  trace->events.duration_ns.push_back(0);
  trace->events.site.push_back(static_cast<uint32_t>(trace->sites.size()) - 1);
  trace->events.thread.push_back(3);
  trace->events.request.push_back(model::kNone);
  trace->events.batch.push_back(model::kNone);
  trace->events.args.push_back(static_cast<uint32_t>(trace->arg_values.size()));
  trace->arg_values.insert(trace->arg_values.end(), {1, trace->strings.Add("cache")});
  ++trace->threads[3].event_count;
}

// Adds a counter of NVML: pairs of ms in the window and the value from then on.
void AddState(const char* name, const char* unit, std::vector<std::pair<int64_t, double>> values, Trace* trace) {
  trace->counters.push_back({model::kNone, trace->strings.Add(name), trace->strings.Add(unit)});
  for (const auto& [at_ms, value] : values) {
    trace->samples.counter.push_back(static_cast<uint32_t>(trace->counters.size()) - 1);
    trace->samples.at_ns.push_back(trace->window_begin_ns + at_ms * incident::kMs);
    trace->samples.value.push_back(value);
  }
}

// A second request as slow as the first, with the same work next to it: that of http-2.
Trace MakeTwoSlow() {
  Trace trace = incident::MakeTrace();
  trace.requests.push_back(trace.requests.back());
  trace.requests.back().id = 0x8f0d;
  trace.firings.push_back(trace.firings[0]);
  trace.firings.back().request_id = 0x8f0d;
  trace.firings.back().detail = trace.strings.Add("41.3 ms, too");
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.sites[trace.events.site[event]].kind == SiteKind::kWait) trace.events.args[event] = model::kNone;
  }
  return trace;
}
size_t Times(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

}  // namespace

TEST_CASE("an incident's report shows the slow request and the work in its time", "[report]") {
  CheckGolden("report_incident.txt", Report(incident::MakeTrace()));
}

TEST_CASE("a report without a firing shows the slowest requests", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.firings.clear();

  CheckGolden("report_manual.txt", Report(trace));
}

TEST_CASE("a report has the GPU work of slow requests and of each device", "[report]") {
  CheckGolden("report_gpu.txt", Report(incident::MakeGpuTrace()));
}

TEST_CASE("a report has the peak of allocated memory during a slow request", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  const std::string nothing = Report(trace);
  AddState("LibTorch allocated", "bytes", {{0, 1 << 30}, {640, 3 << 29}}, &trace);
  trace.counters.back().device = 0;

  const std::string text = Report(trace);

  CHECK_FALSE(Has(nothing, "memory     at most"));
  CHECK(Has(text, "memory     at most 1,536 MiB LibTorch allocated on GPU 0 while it was worked on, 1,024 MiB"));
}

TEST_CASE("a slow request has the CPU time of its threads, of the executor in its batches only", "[report]") {
  Trace trace = incident::MakeTrace();  // the request: 610 to 651.3 ms; its batch: 633 to 651 ms
  const std::string nothing = Report(trace);
  const auto add_cpu = [&](const char* of, std::vector<std::pair<int64_t, double>> ms) {
    for (auto& [at, value] : ms) value *= 1e6;
    AddState((std::string("thread ") + of + ": on-CPU time").c_str(), "ns", ms, &trace);
  };
  add_cpu("4251", {{600, 100}, {620, 110}, {660, 150}});  // http-1: 105 at 610 ms, 141.3 at 651.3
  const std::string some = Report(trace);
  add_cpu("4253", {{600, 50}, {633, 80}, {651, 88}, {700, 130}});  // the executor

  const std::string all = Report(trace);

  CHECK(Has(nothing, "   usage      CPU time not recorded\n"));
  CHECK(Has(some, "   usage      36.3 ms of CPU time on 1 of its 2 threads\n"));
  CHECK(Has(all, "   usage      44.3 ms of CPU time on its 2 threads\n"));
}

TEST_CASE("CPU time is not recorded if a thread was read long after its work began, or long before it ended",
          "[report]") {
  Trace trace = incident::MakeTrace();
  AddState("thread 4251: on-CPU time", "ns", {{615, 1e6}, {660, 2e6}}, &trace);
  AddState("thread 4253: on-CPU time", "ns", {{620, 1e6}, {640, 2e6}}, &trace);

  CHECK(Has(Report(trace), "   usage      CPU time not recorded\n"));
}

TEST_CASE("a slow request has the allocations of its calls", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  const std::string partly = Report(trace);
  trace.depths = {{trace.window_begin_ns, trace.window_end_ns, Depth::kKernels}};
  const std::string none = Report(trace);
  for (const uint32_t call : {0, 1}) trace.calls.name[call] = trace.strings.Add(call == 0 ? "cudaMalloc" : "cudaFree");
  trace.calls.name[3] = trace.calls.name[0];  // in no batch of the request

  const std::string two = Report(trace);

  CHECK(Has(partly, "   usage      CPU time and allocations by the driver not recorded\n"));
  CHECK(Has(none, "   usage      CPU time not recorded; no allocations by the driver\n"));
  CHECK(Has(two, "   usage      CPU time not recorded; 1 allocation and 1 free by the driver, 25 us in all\n"));
}

TEST_CASE("allocations are known at any depth from the calls in which threads wait", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  trace.attributes.push_back({trace.strings.Add("cuda_calls.libraries"), trace.strings.Add("7")});
  CHECK(Has(Report(trace), "; no allocations by the driver\n"));

  trace.attributes.push_back({trace.strings.Add("cuda_calls.not_recorded"), trace.strings.Add("paused")});
  CHECK(Has(Report(trace), "CPU time and allocations by the driver not recorded\n"));
}

TEST_CASE("a report without kernel records has the batch's GPU time from CUDA events, and no idle GPU", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  trace.gpu = {};
  trace.depths.clear();
  trace.gpu_losses.clear();
  for (model::StreamRow& stream : trace.streams) stream.first_event = stream.event_count = 0;
  const std::string nothing = Report(trace);
  trace.gpu.begin_ns = {trace.calls.begin_ns[1] + 1000};
  trace.gpu.duration_ns = {14'000'000};
  trace.gpu.kind = {model::GpuKind::kSpan};
  trace.gpu.stream = {0};
  trace.gpu.name = {trace.strings.Add("forward")};
  trace.gpu.call = {1};
  trace.gpu.shape = {model::kNone};
  trace.gpu.bytes = {0};
  trace.gpu.graph = trace.gpu.node = trace.gpu.scope_path = {0};
  trace.streams[0].event_count = 1;
  trace.streams[1].first_event = trace.streams[2].first_event = 1;

  const std::string text = Report(trace);

  CHECK_FALSE(Has(nothing, "by CUDA events"));
  CHECK(Has(nothing, "gpu        GPU time not known; kernel coverage unknown"));
  CHECK(Has(nothing, "GPU 0 NVIDIA H100 80GB HBM3: its work was not recorded"));
  CHECK_FALSE(Has(nothing, "idle in the window"));
  CHECK(Has(text, "gpu        at most 7.00 ms of GPU time by CUDA events, its share of at most 14.0 ms of its\n"));
  CHECK(Has(text, "GPU 0 NVIDIA H100 80GB HBM3: its work was not recorded"));
  CHECK(Has(text, "by CUDA events, with gaps between kernels"));
  CHECK(Has(text, "kernels were not recorded: no collector for kernels was added"));
  CHECK(Has(text, "forward"));
  CHECK_FALSE(Has(text, "is not known"));
}

TEST_CASE("a report has the number of batches timed by CUDA events, and the reasons for untimed scopes", "[report]") {
  Trace trace = incident::MakeTrace();
  const auto add = [&](const char* key, const char* value) {
    trace.attributes.push_back({trace.strings.Add(key), trace.strings.Add(value)});
  };

  SECTION("with counters alone, if a pool could not be made") {
    add("cuda_events.pool_failed", "1203");
    add("cuda_events.no_context", "2");
    add("cuda_events.failed", "3 calls, the last with CUDA error 2");
    CHECK(Has(OneLine(Report(trace)),
              " GPU CUDA events timed 0 of 1 batch; scopes not timed since the collector started: 2 without a current "
              "context, 1,203 of contexts without events: making them failed; the driver failed 3 calls, the last with "
              "CUDA error 2 "));
  }
  SECTION("with all events in use, and a span unfinished on the GPU") {
    add("cuda_events.no_pair", "7");
    add("cuda_events.under_way", "4, the oldest for 2.000 s");
    CHECK(Has(OneLine(Report(trace)),
              "1 batch; not yet done by the GPU: 4, the oldest for 2.000 s; scopes not timed since the collector "
              "started: 7 beyond the events of their context (CudaEventOptions::pairs_per_context) "));
  }
  SECTION("without a driver, which never came") {
    add("cuda_events.before_driver", "999");
    CHECK(Has(OneLine(Report(trace)), "started: 999 while the process had not loaded CUDA's driver "));
  }
  SECTION("with layers given up") {
    add("cuda_events.stream_unsure", "3");
    add("cuda_events.ended_elsewhere", "2");
    CHECK(Has(OneLine(Report(trace)),
              "started: 3 on streams that might have been destroyed by their end, 2 of batches that ended on another "
              "thread "));
  }
  SECTION("with one batch without a span") {
    trace = incident::MakeGpuTrace();
    std::fill(trace.gpu.kind.begin(), trace.gpu.kind.end(), model::GpuKind::kSpan);
    CHECK_FALSE(Has(Report(trace), "CUDA events timed"));
    trace.batches.push_back(trace.batches[0]);
    trace.batches.back().id = 0x78;
    trace.batches.back().first_member = 2;
    trace.batches.back().member_count = 0;
    CHECK(Has(Report(trace), "   CUDA events timed 1 of 2 batches\n"));
  }
  SECTION("nothing without the collector") { CHECK_FALSE(Has(Report(incident::MakeGpuTrace()), "CUDA events")); }
}

TEST_CASE("waits for GPUs have the whole names of calls and threads", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  trace.calls.name[2] = trace.strings.Add("cudaMemcpyToSymbol (blocking)");
  trace.threads[2].name = trace.strings.Add("model executor");

  const std::string text = Report(trace);

  CHECK(Has(text, "cudaMemcpyToSymbol (blocking)  7 (context 1)  model executor #3  02:31:16.760  1)\n"));
}

TEST_CASE("the table of waits for GPUs has no streams if none is known", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  CHECK(Has(OneLine(Report(trace)), "time call stream thread from during"));

  trace.calls.name[2] = trace.calls.name[0];
  std::fill(trace.calls.stream.begin(), trace.calls.stream.end(), model::kNone);
  CHECK(Has(OneLine(Report(trace)), "time call thread from during"));
}

TEST_CASE("a wait for a GPU during many requests names all of them", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  trace.threads[2].name = trace.strings.Add("the executor of the large model");
  const model::FiringRow fired = trace.firings[0];
  for (const model::RequestRow& row : std::vector<model::RequestRow>(9, trace.requests.back())) {
    trace.requests.push_back(row);
    trace.requests.back().id += trace.requests.size();
    trace.firings.push_back(fired);
    trace.firings.back().request_id = trace.requests.back().id;
  }

  const std::string text = Report(trace);

  CHECK(Has(OneLine(text), "02:31:16.760 1) 2) 3) 4) 5) 6) 7) 8) 9) 10)"));
}

TEST_CASE("a thread's wait for a GPU is a wait, not work in its scope", "[report]") {
  const std::string text = Report(incident::MakeGpuTrace());

  CHECK(Has(text,
            "   * executor #3: in scopes 3.48 ms, waiting 12.5 ms\n"
            "       self       forward 3.48 ms\n"));
  CHECK(Has(text,
            "       waited     for GPUs: cudaStreamSynchronize 12.5 ms at +27.0 ms, cudaMemcpyAsync 20 us at\n"
            "                  +24.0 ms\n"));
}

TEST_CASE("a thread that waits for a GPU is not a thread in no scope", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  std::fill(trace.calls.thread.begin(), trace.calls.thread.end(), 3);  // the idle thread, without a scope
  std::fill(trace.calls.batch.begin(), trace.calls.batch.end(), model::kNone);

  const std::string beside = Report(trace);
  trace.calls.request.assign(trace.calls.size(), static_cast<uint32_t>(trace.requests.size()) - 1);
  const std::string own = Report(trace);

  CHECK(Has(beside, "     idle #4: in scopes 0 us, waiting 12.5 ms\n"));
  CHECK(Has(own, "   * idle #4: in scopes 0 us, waiting 12.5 ms\n"));
  CHECK_FALSE(Has(own, "in no scope"));
}

TEST_CASE("a wait for a GPU within a recorded wait counts once", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  std::fill(trace.calls.thread.begin(), trace.calls.thread.end(), 0);
  trace.calls.begin_ns[0] = trace.window_begin_ns + 620 * incident::kMs;  // the wait for the lock ends at 626 ms
  trace.calls.duration_ns[0] = trace.calls.duration_ns[2];
  trace.calls.name[0] = std::exchange(trace.calls.name[2], trace.calls.name[1]);
  trace.calls.stream[2] = model::kNone;
  trace.gpu.call.assign(trace.gpu.call.size(), model::kNone);

  CHECK(Has(Report(trace), "   * http-1 #1: in scopes 3.00 ms, waiting 18.5 ms\n"));
}

TEST_CASE("an open wait for a GPU is still going on", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  trace.calls.duration_ns[2] = model::kOpen;
  for (model::RequestRow& row : trace.requests) {
    if (row.id != incident::kSlowRequest) continue;
    row.duration_ns = row.stages.back().duration_ns = model::kOpen;
    row.end_known = false;
  }

  CHECK(Has(OneLine(Report(trace)), "waited for GPUs: cudaStreamSynchronize 363.0 ms so far at +27.0 ms"));
}

TEST_CASE("a report without a GPU does not mention GPUs", "[report]") {
  const std::string text = Report(incident::MakeTrace());
  CHECK_FALSE(Has(text, "GPU"));
  CHECK_FALSE(Has(text, "coverage"));
}

TEST_CASE("every request shown has its kernel coverage, unknown if no depth is known", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  const std::string known = Report(trace);
  trace.depths.clear();
  trace.gpu_losses.clear();

  const std::string unknown = Report(trace);

  CHECK(Has(known, "kernel coverage 44.4 %"));  // 10 of the batch's 18 ms were lost
  CHECK(Has(unknown, "kernel coverage unknown"));
  CHECK(Has(unknown, "of the window, on 2 streams"));
}

TEST_CASE("a request's time divided between host and GPUs is not recorded without kernels, and the GPU part says why",
          "[report]") {
  Trace trace = incident::MakeTrace();
  trace.depths = {{trace.window_begin_ns, trace.window_end_ns, Depth::kScopes}};
  CHECK(Has(Report(trace), "   host, GPU  not recorded\n"));

  trace.attributes.push_back({trace.strings.Add("collector.cupti"), trace.strings.Add("refused: no libcupti")});
  CHECK(Has(Report(trace), "   host, GPU  not recorded: see GPU below\n"));
  CHECK(Has(Report(trace), "   kernels were not recorded: no libcupti\n"));

  trace.depths[0].depth = Depth::kKernels;  // recorded, and GPUs did nothing
  CHECK_FALSE(Has(Report(trace), "host, GPU"));
}

TEST_CASE("the GPU time of a request with eager kernels is unknown at graphs' depth, not 0", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  trace.depths = {{trace.window_begin_ns, trace.window_end_ns, Depth::kGraphs}};
  trace.gpu_losses.clear();
  std::fill(trace.gpu.call.begin(), trace.gpu.call.end(), model::kNone);

  const std::string text = OneLine(Report(trace));

  CHECK(
      Has(text, "gpu GPU time not known; kernel coverage 27.2 %; GPUs worked another 13.1 ms meanwhile, for unknown"));
  CHECK_FALSE(Has(text, "0 ns of GPU time"));
}

TEST_CASE("the report of a damaged dump claims neither kernel coverage nor an idle GPU", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  trace.losses.push_back(
      {model::kNone, model::LossReason::kDamaged, trace.window_begin_ns, trace.window_end_ns, 0, 4711});

  const std::string text = Report(trace);

  CHECK(Has(text, "kernel coverage unknown"));
  CHECK(Has(text, "the dump is damaged"));
  CHECK(Has(text, "GPU 0 NVIDIA H100 80GB HBM3: 6.10 ms of its work is left in a damaged dump"));
  CHECK(Has(text, "GPU 1 NVIDIA H100 80GB HBM3: nothing of its work is left in a damaged dump"));
  CHECK_FALSE(Has(text, "idle"));
}

TEST_CASE("a report has the state of each GPU over the window, and its throttled time", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  AddState("GPU 0 (NVIDIA H100): SM clock", "MHz", {{0, 1980}, {700, 1200}, {800, 1980}}, &trace);
  AddState("GPU 0 (NVIDIA H100): memory clock", "MHz", {{0, 2619}}, &trace);
  AddState("GPU 0 (NVIDIA H100): power", "W", {{0, 80}, {300, 645.4}}, &trace);
  AddState("GPU 0 (NVIDIA H100): temperature", "C", {{0, 51}, {900, 55}}, &trace);
  AddState("GPU 0 (NVIDIA H100): utilization", "%", {{0, 0}, {100, 87}}, &trace);
  AddState("GPU 0 (NVIDIA H100): clock event reasons", "", {{0, 1}, {300, 0}, {680, 4}, {800, 0}}, &trace);
  AddState("GPU 0 (NVIDIA H100): clocks held by idle", "", {{0, 1}, {300, 0}}, &trace);
  AddState("GPU 0 (NVIDIA H100): clocks held by SW power cap", "", {{0, 0}, {680, 1}, {800, 0}}, &trace);
  AddState("GPU 1 (NVIDIA H100): clock event reasons", "", {{600, 0}}, &trace);
  AddState("GPU 1 (NVIDIA H100): XID errors", "", {{0, 0}}, &trace);

  const std::string text = Report(trace);

  CHECK(Has(text,
            "   state of GPU 0 (NVIDIA H100) over the window: median (least..most)\n"
            "       clocks     SM 1980 MHz (1200..1980), memory 2619 MHz\n"
            "       throttled  SW power cap 12.0 % of the window\n"
            "       held low   by idle 30.0 % of the window\n"
            "       power      645 W (80..645), temperature 51 C (51..55), utilization 87 % (0..87)\n"));
  CHECK(Has(text,
            "   state of GPU 1 (NVIDIA H100) over the window: median (least..most)\n"
            "       throttled  at no time of the sampled 400.0 ms\n"));
}

TEST_CASE("a state that was not read again does not last, and NVML alone makes a GPU section", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.window_end_ns += 9000 * incident::kMs;
  AddState("GPU 0: SM clock", "MHz", {{0, 1980}}, &trace);
  AddState("GPU 0: clock event reasons", "", {{0, 8}}, &trace);
  AddState("GPU 0: clocks held by HW slowdown", "", {{0, 1}}, &trace);

  const std::string text = Report(trace);

  CHECK(Has(text, "\nGPU\n\n   state of GPU 0 over the window"));
  CHECK(Has(text, "throttled  HW slowdown 100.0 % of the sampled 2.50 s"));
}

TEST_CASE("a reason for held clocks outlasts a value's life while the reasons are still read", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.window_end_ns = trace.window_begin_ns + 10000 * incident::kMs;
  std::vector<std::pair<int64_t, double>> reasons{{0, 0}};
  for (int64_t at_ms = 1000; at_ms < 6000; at_ms += 1000) reasons.emplace_back(at_ms, 8);
  for (int64_t at_ms = 6000; at_ms < 10000; at_ms += 1000) reasons.emplace_back(at_ms, 0);
  AddState("GPU 0: clock event reasons", "", reasons, &trace);
  AddState("GPU 0: clocks held by HW slowdown", "", {{0, 0}, {1000, 1}, {6000, 0}}, &trace);

  CHECK(Has(Report(trace), "throttled  HW slowdown 50.0 % of the window"));
}

TEST_CASE("kernels with the same brief name are counted", "[report]") {
  model::Trace trace = incident::MakeGpuTrace();
  const char* const names[] = {"void fused<float>(float*)", "void fused<double>(double*)"};
  size_t kernels = 0;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.kind[row] == model::GpuKind::kKernel) trace.gpu.name[row] = trace.strings.Add(names[kernels++ % 2]);
  }
  REQUIRE(kernels >= 2);
  CHECK(Has(Report(trace), "       fused (2 kinds) "));
}

TEST_CASE("a report has the reason for missing kernels, and a remedy", "[report]") {
  Trace trace = incident::MakeTrace();
  const auto add = [&](const char* key, const char* value) {
    trace.attributes.push_back({trace.strings.Add(key), trace.strings.Add(value)});
  };
  const std::string said = "\nGPU\n\n   kernels were not recorded: ";

  SECTION("a collector that was refused") {
    add("collector.cupti", "refused: there is no libcupti; to record kernels: install it");
    CHECK(Has(Report(trace), said + "there is no libcupti; to record kernels: install it\n"));
  }
  SECTION("a collector that gives its reason itself") {
    add("cupti.version", "26");
    add("cupti.not_recorded", "paused by the host; to record kernels: Recorder::Resume(\"cupti\")");
    CHECK(Has(Report(trace), said + "paused by the host; to record kernels: Recorder::Resume(\"cupti\")\n"));
  }
  SECTION("a layer of OpenCL that was not loaded, unless CUPTI gives a reason") {
    add("opencl.not_recorded", "no OpenCL call came through the layer; to record kernels: set OPENCL_LAYERS");
    CHECK(Has(Report(trace), said + "no OpenCL call came through the layer;"));
    add("cupti.version", "26");
    add("cupti.not_recorded", "paused by the host; to record kernels: Recorder::Resume(\"cupti\")");
    CHECK(Has(Report(trace), said + "paused by the host; to record kernels: Recorder::Resume(\"cupti\")\n"));
  }
  SECTION("a depth fixed by the host") {
    add("cupti.version", "26");
    add("depth", "kernels, fixed by the host");
    add("depth.of_window", "scopes (fixed by the host)");
    trace.depths = {{trace.window_begin_ns, trace.window_end_ns, Depth::kScopes}};
    CHECK(Has(Report(trace), said + "the depth was scopes (fixed by the host); to record kernels:\n"));
  }
  SECTION("an automatic depth that was not deep enough") {
    add("cupti.version", "26");
    add("overhead.state", "armed: kernels");
    add("depth.of_window", "scopes (no work to measure)");
    trace.depths = {{trace.window_begin_ns, trace.window_end_ns, Depth::kScopes}};
    CHECK(Has(Report(trace), said + "the depth was scopes (no work to measure); to record kernels:\n"));
  }
  SECTION("nothing if kernels could have been recorded") {
    add("cupti.version", "26");
    trace.depths = {{trace.window_begin_ns, trace.window_end_ns, Depth::kKernels}};
    CHECK_FALSE(Has(Report(trace), "kernels were not recorded"));
  }
  SECTION("nothing if there are kernels") {
    trace = incident::MakeGpuTrace();
    CHECK_FALSE(Has(Report(trace), "kernels were not recorded"));
  }
}

TEST_CASE("each request has the reason for its missing operators, from the depth in its time", "[report]") {
  Trace trace = incident::MakeTrace();
  const int64_t begin_ns = trace.window_begin_ns, end_ns = trace.window_end_ns;
  const model::RequestRow& request = trace.requests[model::RequestIndex(trace).Row(trace.firings[0].request_id)];
  const auto add = [&](const std::string& key, const char* value) {
    trace.attributes.push_back({trace.strings.Add(key), trace.strings.Add(value)});
  };
  add("depth", "ops");
  add("overhead.state", "armed: ops");
  add("depth.of_request." + base::RequestId(request.id), "scopes (holding scopes)");

  SECTION("none were recorded") {
    trace.operator_depths = {{begin_ns, end_ns, Depth::kScopes}};
    CHECK(Has(OneLine(Report(trace)),
              "operators not recorded: while it ran the depth was scopes (holding scopes); to "
              "record more: Options::depth or Recorder::SetDepth"));
  }
  SECTION("some were") {
    const model::BatchRow& batch = trace.batches[0];
    const int64_t middle_ns = batch.begin_ns + batch.duration_ns / 2;
    trace.operator_depths = {{begin_ns, middle_ns, Depth::kScopes}, {middle_ns, end_ns, Depth::kOps}};
    CHECK(
        Has(OneLine(Report(trace)), "operators recorded in 50.0 % of its batches' time: while it ran the depth was "));
  }
  SECTION("all were") {
    trace.operator_depths = {{begin_ns, end_ns, Depth::kOps}};
    CHECK_FALSE(Has(Report(trace), "operators  "));
  }
  SECTION("their collector was refused") {
    add("collector.torch", "refused: the LibTorch in the process is 2.9, pitot::torch was built against 2.11");
    CHECK(Has(OneLine(Report(trace)), "operators not recorded: the LibTorch in the process is 2.9, pitot::torch was "));
  }
  SECTION("no collector records them") { CHECK_FALSE(Has(Report(trace), "operators  ")); }
}

TEST_CASE("each kind of loss has a remedy", "[report]") {
  Trace trace = incident::MakeTrace();
  const auto with = [&](model::LossReason reason) {
    trace.losses = {{model::kNone, reason, trace.window_begin_ns, trace.window_end_ns, 1, 0}};
    return OneLine(Report(trace));
  };
  using model::LossReason;
  const std::string said = "to lose less ";

  CHECK(Has(with(LossReason::kOverwritten),
            said + "overwritten a larger Options::memory_budget_bytes, a quarter of which"));
  CHECK(Has(with(LossReason::kCopying),
            said + "overwritten in copy a larger Options::memory_budget_bytes, a quarter of which"));
  CHECK(Has(with(LossReason::kReserve), said + "no room a larger Options::memory_budget_bytes"));
  CHECK(Has(with(LossReason::kRefused), said + "no ring a larger Options::memory_budget_bytes"));
  CHECK(Has(with(LossReason::kRecycled), said + "ring reused a larger Options::memory_budget_bytes"));
  CHECK(Has(with(LossReason::kOpenRequests), said + "no room (requests) a larger Options::memory_budget_bytes"));
  CHECK(Has(with(LossReason::kClosedElsewhere), said + "closed elsewhere no option: use PITOT_ASYNC_SCOPE"));
  CHECK(Has(with(LossReason::kDepth), said + "too deep no option: "));
  CHECK(
      Has(with(LossReason::kTooDeepToBegin), said + "too deep to begin no option: BeginScope and NVTX record nothing"));
  for (const LossReason reason : {LossReason::kUnreadable, LossReason::kDamaged})
    CHECK_FALSE(Has(with(reason), "to lose less"));
}

TEST_CASE("losses of GPU records have a remedy if memory was short", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  CHECK(Has(Report(trace), "to lose less, use a larger CuptiOptions::memory_bytes"));
  trace.gpu_losses[0].reason = trace.strings.Add("PyTorch's profiler had CUPTI");
  CHECK_FALSE(Has(Report(trace), "memory_bytes"));
}

TEST_CASE("the remedy for a loss on an OpenCL device is the OpenCL collector's option", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  model::GpuLossRow loss = trace.gpu_losses[0];
  trace.devices.push_back({100, trace.strings.Add("pthread-cpu")});
  loss.stream = model::kNone, loss.device = static_cast<uint32_t>(trace.devices.size() - 1);
  loss.reason = trace.strings.Add("overwritten");
  trace.gpu_losses = {loss};
  CHECK(Has(Report(trace), "to lose less, use a larger OpenClOptions::memory_bytes\n"));
  trace.gpu_losses[0].reason = trace.strings.Add("OpenCL command without a slot");
  CHECK_FALSE(Has(Report(trace), "memory_bytes"));
}

TEST_CASE("a loss on one GPU leaves the other's time recorded, and the list names the GPU", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  const uint32_t other = static_cast<uint32_t>(trace.devices.size());
  trace.devices.push_back({other, trace.strings.Add("another")});
  trace.depths = {{trace.window_begin_ns, trace.window_end_ns, pitot::Depth::kKernels}};
  trace.gpu_losses = {
      {model::kNone, trace.strings.Add("overwritten"), trace.window_begin_ns, trace.window_end_ns, 7, other}};

  const std::string text = Report(trace);

  CHECK(Has(text, "GPU " + std::to_string(other) + " another: its work was not recorded"));
  CHECK(Has(text, "of the window, on"));
  CHECK(Has(text, "GPU " + std::to_string(other) + ", any stream"));
}

TEST_CASE("a trace with only GPU records lost is not reported as without losses", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  trace.losses.clear();

  CHECK(Has(Report(trace), "LOST: nothing was lost, except the records listed under GPU."));

  trace.attributes.push_back({trace.strings.Add("not_recorded"), trace.strings.Add("queues; losses")});
  CHECK(Has(Report(trace), "LOST: the format does not say what was lost."));
}

TEST_CASE("a GPU clock that is early is reported", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  trace.calls.begin_ns[0] += 90000;
  trace.gpu_losses.clear();

  CHECK(Has(Report(trace), "clock      1 of 4 began before the calls causing them: its clock is early by 40 us"));
}

TEST_CASE("a copy that blocks by its call or memory counts as a wait for GPUs, as in the request's time", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  const std::string of_pageable = Report(trace);
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.call[row] == 0) trace.gpu.name[row] = trace.strings.Add("pinned to device");
  }
  const std::string of_pinned = Report(trace);
  trace.calls.name[0] = trace.strings.Add("cudaMemcpy");
  const std::string by_call = Report(trace);

  CHECK(Has(of_pageable, "the longest of 3 waits for GPUs"));
  CHECK(Has(of_pageable, "  cudaMemcpyAsync "));
  CHECK(Has(of_pinned, "the longest of 2 waits for GPUs"));
  CHECK(Has(by_call, "the longest of 3 waits for GPUs"));
  CHECK(Has(by_call, "  cudaMemcpy "));
}

TEST_CASE("an open wait for a GPU is marked as open", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  trace.calls.duration_ns[3] = model::kOpen;

  const std::string text = Report(trace);

  CHECK(Has(text, "200.0 ms  cudaDeviceSynchronize"));
  CHECK(Has(text, "02:31:16.923  so far"));
}

TEST_CASE("the GPU section is bounded for any amount of GPU work", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  const auto few = lines(Report(trace));
  const std::string name(300, 'x');
  model::StreamRow& last = trace.streams.back();
  for (uint32_t i = 0; i < 500; ++i) {
    const bool is_copy = i % 2 == 0;
    trace.gpu.begin_ns.push_back(trace.window_begin_ns + 700000000 + i * 100000);
    trace.gpu.duration_ns.push_back(50000);
    trace.gpu.kind.push_back(is_copy ? model::GpuKind::kMemcpy : model::GpuKind::kKernel);
    trace.gpu.stream.push_back(2);
    trace.gpu.name.push_back(trace.strings.Add(name + std::to_string(i)));
    trace.gpu.call.push_back(model::kNone);
    trace.gpu.shape.push_back(model::kNone);
    trace.gpu.bytes.push_back(is_copy ? uint64_t{1} << 62 : 0);
    trace.gpu.graph.push_back(0);
    trace.gpu.node.push_back(0);
    trace.gpu.scope_path.push_back(0);
    ++last.event_count;
    trace.gpu_losses.push_back({model::kNone, trace.strings.Add(name), i, i, i});
    trace.overheads.push_back({trace.window_end_ns + i, 1000, trace.strings.Add(name + std::to_string(i))});
    trace.devices.push_back({i, trace.strings.Add(name), 0, 0, 0, 0, 0});
  }

  const std::string text = Report(trace);

  CHECK(lines(text) < few + 70);
  CHECK(Has(text, "and 494 devices more"));
  CHECK(Has(text, "and 242 more"));  // kernels
  CHECK(Has(text, "and 245 kinds more"));
}

TEST_CASE("an empty trace has a report", "[report]") { CheckGolden("report_empty.txt", Report(Trace())); }

TEST_CASE("a report without losses mentions it", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.losses.clear();

  CHECK(Has(Report(trace), "nothing was lost"));
  trace.attributes.push_back({trace.strings.Add("counters.0.lost_samples"), trace.strings.Add("37")});
  CHECK(Has(Report(trace), "nothing was lost; of GPU counters, 37 samples since the recorder's start"));
}

TEST_CASE("typical times fall back to the route and then to none", "[report]") {
  Trace trace = incident::MakeTrace();
  model::RequestRow& slow = *std::find_if(trace.requests.begin(), trace.requests.end(),
                                          [](const auto& r) { return r.id == incident::kSlowRequest; });
  slow.size_bucket = 20;
  CHECK(Has(Report(trace), "median of this window: 12 ok requests of the same route, any size\n"));

  for (model::RequestRow& request : trace.requests) {
    if (request.id != 0x100) request.outcome = Outcome::kFailed;
  }
  CHECK(Has(Report(trace),
            "median of this window: unknown, only 1 ok request of the same route besides those shown here\n"));
}

TEST_CASE("a stage missing from similar requests counts in full, and may be the largest difference", "[report]") {
  Trace trace = incident::MakeTrace();
  model::RequestRow& slow = *std::find_if(trace.requests.begin(), trace.requests.end(),
                                          [](const auto& r) { return r.id == incident::kSlowRequest; });
  CHECK_FALSE(Has(Report(trace), "fewer than half"));
  model::Stage& longest = *std::max_element(slow.stages.begin(), slow.stages.end(),
                                            [](const auto& a, const auto& b) { return a.duration_ns < b.duration_ns; });
  longest.name = trace.strings.Add("fetch");
  const std::string ms = base::Milliseconds(longest.duration_ns);

  const std::string text = OneLine(Report(trace));

  CHECK(Has(text, "fetch " + ms + " 0.00 ms +" + ms + " <-- largest"));
  CHECK(Has(OneLine(Report(MakeTwoSlow())), "queue +20.3 ms"));  // in the list of several
  CHECK(Has(text, "0.00 ms for a stage in fewer than half of them"));
}

TEST_CASE("a request that fired but is not in the trace is named", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.firings.push_back(trace.firings[0]);
  trace.firings.back().request_id = 0xabc;

  CHECK(Has(Report(trace), "request 0000000000000abc fired, but is not in the trace"));
}

TEST_CASE("the report names requests that fired but are not in the trace, and shows the slowest", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.firings[0].request_id = 0xabc;

  const std::string text = Report(trace);

  CHECK(Has(text, "SLOWEST REQUESTS of the window (nothing is left of those that fired)\n"));
  CHECK(!Has(text, "nothing fired on a request"));
  CHECK(Has(text, "missing    request 0000000000000abc fired, but is not in the trace"));
  CHECK(Has(text, "\n1) 86.0 ms  /segment"));
  CHECK(Has(text, "\n3) "));
  CHECK(!Has(text, "\n4) "));
}

TEST_CASE("a slow request's report has its longest asynchronous scopes, and open ones up to now", "[report]") {
  Trace trace = incident::MakeTrace();
  const auto slow = static_cast<uint32_t>(trace.requests.size()) - 1;
  REQUIRE(trace.requests[slow].id == incident::kSlowRequest);
  const auto add = [&](const std::string& name, uint32_t request, int64_t after_ms, int64_t duration_ns) {
    model::SiteRow site;
    site.kind = SiteKind::kAsyncBegin;
    site.name = trace.strings.Add(name);
    trace.sites.push_back(site);
    trace.asyncs.push_back({static_cast<uint32_t>(trace.sites.size()) - 1, request, 0, 0,
                            trace.requests[slow].begin_ns + after_ms * incident::kMs, duration_ns});
  };
  add("of another request", slow - 1, 0, 500 * incident::kMs);
  add("fetch", slow, 1, 4 * incident::kMs);
  add("short", slow, 2, 3 * incident::kMs);
  add("embed call", slow, 3, 12 * incident::kMs);
  add("push", slow, 5, model::kOpen);

  const std::string text = Report(trace);

  CHECK(Has(text,
            "   async      push: 385.0 ms so far from +5.00 ms\n"
            "   async      embed call: 12.0 ms from +3.00 ms\n"
            "   async      fetch: 4.00 ms from +1.00 ms\n"));
  CHECK(!Has(text, "short: "));
  CHECK(!Has(text, "of another request"));
}

TEST_CASE("a wait for a lock lists its successive holders", "[report]") {
  Trace trace = incident::MakeTrace();
  // The slow request waits for "cache" from 614 to 626 ms. The last thread, without other events, releases it twice.
  for (const int64_t at_ms : {620, 625}) {
    AddRelease(trace.window_begin_ns + at_ms * incident::kMs, &trace);
  }
  trace.events.request.back() = 0;
  REQUIRE(model::FindInconsistency(trace) == "");

  const std::string text = Report(trace);

  CHECK(Has(text, "6.00 ms of it held by idle #4, then"));
  CHECK(Has(text, "5.00 ms of it held by idle #4"));
}

TEST_CASE("a wait says how often its thread woke in vain", "[report]") {
  Trace trace = incident::MakeTrace();
  uint32_t event = 0;
  while (trace.sites[trace.events.site[event]].kind != SiteKind::kWait ||
         trace.strings[static_cast<uint32_t>(trace.arg_values[trace.events.args[event] + 1])] != "cache")
    ++event;
  for (const uint64_t spurious : {12, 0}) {
    model::SiteRow site = trace.sites[trace.events.site[event]];
    site.arg_types.resize(4), site.arg_names.resize(4);
    site.arg_types.push_back(ArgType::kUint), site.arg_names.push_back(trace.strings.Add("spurious"));
    trace.events.site[event] = static_cast<uint32_t>(trace.sites.size());
    trace.sites.push_back(site);
    std::vector<uint64_t> args(&trace.arg_values[trace.events.args[event]],
                               &trace.arg_values[trace.events.args[event]] + 4);
    args.push_back(spurious);
    trace.events.args[event] = static_cast<uint32_t>(trace.arg_values.size());
    trace.arg_values.insert(trace.arg_values.end(), args.begin(), args.end());
    REQUIRE(model::FindInconsistency(trace) == "");

    const std::string text = Report(trace);

    CHECK(Has(text, "lock cache (12 spurious wake-ups), held by") == (spurious != 0));
    CHECK(Has(text, "lock cache, held by") == (spurious == 0));
  }
}

TEST_CASE("the busiest six of the threads that did not work for a slow request are shown, the others counted",
          "[report]") {
  Trace trace = incident::MakeTrace();
  for (uint32_t i = 0; i < 10; ++i) {
    const uint32_t scope = trace.threads[0].first_event;
    trace.threads.push_back(trace.threads[3]);
    trace.threads.back().name = trace.strings.Add("beside");
    trace.threads.back().number = 10 + i;
    trace.threads.back().first_event = trace.events.size();
    trace.threads.back().event_count = 1;
    trace.events.begin_ns.push_back(trace.window_begin_ns + 615 * incident::kMs);
    trace.events.duration_ns.push_back((i + 1) * 100'000);
    trace.events.site.push_back(trace.events.site[scope]);
    trace.events.thread.push_back(static_cast<uint32_t>(trace.threads.size()) - 1);
    trace.events.request.push_back(model::kNone);
    trace.events.batch.push_back(model::kNone);
    trace.events.args.push_back(model::kNone);
  }
  REQUIRE(model::FindInconsistency(trace) == "");

  const std::string text = Report(trace);

  CHECK(Has(text, "* http-1 #1: in scopes"));
  CHECK(Has(text, "> http-2 #2: in scopes"));
  for (uint32_t i = 4; i < 10; ++i) CHECK(Has(text, "beside #" + std::to_string(10 + i)));
  CHECK_FALSE(Has(text, "beside #13"));
  CHECK(Has(text, "and 4 threads more, in scopes 1.00 ms, waiting 0 us"));
}

TEST_CASE("requests that fired are never typical, even if they are many", "[report]") {
  Trace trace = incident::MakeTrace();
  // Twice as many requests fire as are shown.
  const auto like = [](const model::RequestRow& r) { return r.id >= 0x100 && r.id < 0x200; };
  const model::RequestRow of = *std::find_if(trace.requests.begin(), trace.requests.end(), like);
  for (uint64_t id = 0x1000; id < 0x1014; ++id) {
    model::RequestRow slow = of;
    slow.id = id;
    slow.begin_ns = trace.requests.back().begin_ns;
    slow.duration_ns = 100 * incident::kMs;
    slow.stages.clear();
    trace.requests.push_back(slow);
    trace.firings.push_back(trace.firings[0]);
    trace.firings.back().request_id = id;
  }

  const std::string text = Report(trace);

  CHECK(Has(text, "median of this window: 12 ok requests"));
  CHECK_FALSE(Has(text, "median of this window: 22 ok requests"));
}

TEST_CASE("a request handed over a thousand times is shown with its longest waits in queues", "[report]") {
  Trace trace = incident::MakeTrace();
  const model::HandoffRow handoff = trace.handoffs.back();
  trace.handoffs.insert(trace.handoffs.end(), 1000, handoff);

  const std::string text = Report(trace);

  CHECK(Has(text, "the longest of 1,001 waits in queues, "));
  CHECK(text.size() < 10'000);
}

TEST_CASE("the threads where a request began and ended worked for it, even without scopes of it", "[report]") {
  Trace trace = incident::MakeTrace();
  // As if the scopes had ended after the request.
  for (uint32_t& request : trace.events.request) request = model::kNone;

  CHECK(Has(Report(trace), "   * http-1 #1: in scopes"));
}

TEST_CASE("a finished request's hand-over with a lost end is not shown as waiting", "[report]") {
  Trace trace = incident::MakeTrace();
  for (model::HandoffRow& handoff : trace.handoffs) handoff.take_ns = 0;

  CHECK(Has(Report(trace), "images: the time it was taken is lost, from +17.0 ms"));
}

TEST_CASE("a slow request names the threads that lost events in its time", "[report]") {
  Trace trace = incident::MakeTrace();
  CHECK(Has(Report(trace), "events from that time were lost on http-2 #2 (see LOST)"));

  trace.losses.clear();
  CHECK_FALSE(Has(Report(trace), "events from that time"));
}

TEST_CASE("an event older than its request's known begin is shown before it", "[report]") {
  Trace trace = incident::MakeTrace();
  for (model::HandoffRow& handoff : trace.handoffs) {
    if (trace.requests[handoff.request].id == incident::kSlowRequest)
      handoff.enqueue_ns = trace.requests[handoff.request].begin_ns - 5 * incident::kMs;
  }
  std::sort(trace.handoffs.begin(), trace.handoffs.end(),
            [](const auto& a, const auto& b) { return a.enqueue_ns < b.enqueue_ns; });
  REQUIRE(model::FindInconsistency(trace) == "");

  CHECK(Has(Report(trace), "images: 28.0 ms, from -5.00 ms"));
}

TEST_CASE("losses of an unknown number are not reported as none", "[report]") {
  Trace trace = incident::MakeTrace();
  for (model::LossRow& loss : trace.losses) loss.events = 0;

  CHECK(Has(Report(trace), "LOST: an unknown number of records"));
}

TEST_CASE("bytes overwritten in the copy are not given as the size of all lost records", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.losses = {{0, model::LossReason::kOverwritten, trace.window_begin_ns, trace.window_begin_ns + 1, 190'644, 0},
                  {1, model::LossReason::kCopying, trace.window_begin_ns, trace.window_begin_ns + 1, 0, 24 << 10}};

  CHECK(Has(Report(trace), "LOST: at least 190,644 records\n"));
}

TEST_CASE("open requests without room are not counted as events", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.losses = {{model::kNone, model::LossReason::kOpenRequests, trace.window_begin_ns, trace.window_end_ns, 2915, 0},
                  {0, model::LossReason::kReserve, trace.window_begin_ns, trace.window_begin_ns + 1, 12, 0}};

  CHECK(Has(Report(trace), "LOST: 12 records, 2,915 open requests\n"));
}

TEST_CASE("holders of a lock are shown for the request's part of the wait only", "[report]") {
  Trace trace = incident::MakeTrace();
  const auto slow = std::find_if(trace.requests.begin(), trace.requests.end(),
                                 [](const auto& request) { return request.id == incident::kSlowRequest; });
  // The wait begins 100 ms before the request, and the lock goes through two hands before it.
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.sites[trace.events.site[event]].kind != SiteKind::kWait) continue;
    const int64_t end_ns = trace.EventEnd(event);
    slow->begin_ns = trace.events.begin_ns[event] + 5 * incident::kMs;
    slow->duration_ns = end_ns + incident::kMs - slow->begin_ns;
    slow->stages.clear();
    for (const int64_t before_ms : {10, 3, 2}) {
      AddRelease(end_ns - before_ms * incident::kMs, &trace);
    }
    trace.events.request[trace.events.size() - 2] = 0;
    break;
  }
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });

  const std::string text = Report(trace);

  // 7 ms of the 12 are the request's: the release 10 ms before the end was before it.
  CHECK(Has(text, "waited     7.00 ms for lock cache"));
  CHECK(Has(text, "4.00 ms of it held by idle #4"));
  CHECK(Has(text, "1.00 ms of it held by"));
  CHECK(!Has(text, "7.00 ms of it held by"));
}

TEST_CASE("firings beyond an incident's list are counted", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.attributes.push_back({trace.strings.Add("incident.firings_unlisted"), trace.strings.Add("7936")});

  CHECK(Has(Report(trace), "and 7,936 after the first 1, not listed"));
}

TEST_CASE("the longest open requests are named with their current stage", "[report]") {
  Trace trace = incident::MakeTrace();
  int opened = 0;
  for (model::RequestRow& request : trace.requests) {
    if (opened == 7 || request.stages.empty()) continue;
    request.duration_ns = request.stages.back().duration_ns = model::kOpen;
    request.end_known = false;
    ++opened;
  }

  const std::string text = Report(trace);

  CHECK(Has(text, "STILL OPEN when the snapshot was taken: 1 scope, 7 requests"));
  CHECK(Has(text, "/classify, in stage forward\n"));
  CHECK(Has(text, "and 2 requests more\n"));
}

TEST_CASE("every reason for a loss fits the tables", "[report]") {
  for (int reason = 1; reason <= 10; ++reason) {
    const std::string name = model::LossReasonName(static_cast<model::LossReason>(reason));
    CHECK(name != "unknown");
    CHECK(name.size() <= 20);
  }
}

TEST_CASE("the report after a firing without a request has the slowest requests and the open scopes", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.firings[0].request_id = 0;
  trace.firings[0].cause = trace.strings.Add("stall scope forward");

  const std::string text = Report(trace);

  CHECK(Has(text, "Pitot incident: stall scope forward"));
  CHECK(Has(text, "SLOWEST REQUESTS of the window (nothing fired on a request)"));
  CHECK(Has(text, "STILL OPEN when the snapshot was taken: 1 scope"));
}

TEST_CASE("equal firings are one line with their number, and firings without a request have their detail", "[report]") {
  Trace trace = incident::MakeTrace();
  const model::FiringRow slow = trace.firings[0];
  trace.firings.insert(trace.firings.end(), 3, slow);
  for (const char* detail :
       {"scope forward open for 1.20 s on thread #3", "scope decode open for 1.20 s on thread #1"}) {
    model::FiringRow stall = slow;
    stall.request_id = 0;
    stall.cause = trace.strings.Add("stall");
    stall.detail = trace.strings.Add(detail);
    trace.firings.push_back(stall);
  }

  const std::string text = Report(trace);

  CHECK(Has(text, "latency /classify  request 0000000000008f0c  (4 times)\n"));
  CHECK(Has(text, "stall: scope forward open for 1.20 s on thread #3\n"));
  CHECK(Has(text, "stall: scope decode open for 1.20 s on thread #1\n"));
  CHECK(Has(text, "(and 3"));
}

TEST_CASE("an open wait is shown once for its thread", "[report]") {
  Trace trace = incident::MakeTrace();
  // The wait of the slow request's thread is still open.
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.sites[trace.events.site[event]].kind == SiteKind::kWait) trace.events.duration_ns[event] = model::kOpen;
  }
  REQUIRE(model::FindInconsistency(trace) == "");

  const std::string text = Report(trace);

  CHECK(Has(text, "and is still waiting"));
  CHECK(!Has(text, "still open waits"));
}

TEST_CASE("requests as slow as one that fired are listed, even if a cool-down kept them from firing", "[report]") {
  Trace trace = incident::MakeTrace();
  for (model::RequestRow& request : trace.requests) {
    if (request.id == 0x102) request.duration_ns = request.stages[2].duration_ns = 50 * incident::kMs;
  }

  const std::string text = Report(trace);

  CHECK(Has(text, "AS SLOW, but not listed above: 1 request"));
  CHECK(Has(text, "0000000000000102"));
}

TEST_CASE("an open request and a request without stages or a begin are reported", "[report]") {
  Trace trace = incident::MakeTrace();
  for (model::RequestRow& request : trace.requests) {
    if (request.id != incident::kSlowRequest) continue;
    request.duration_ns = model::kOpen;
    request.end_known = false;
    request.stages.back().duration_ns = model::kOpen;
    request.end_thread = model::kNone;
  }
  CHECK(Has(Report(trace), "390.0 ms so far  /classify  open"));

  for (model::RequestRow& request : trace.requests) request.stages.clear();
  CHECK(Has(Report(trace), "whole request"));
}

TEST_CASE("a failed request has the reason in its facts, and an ok one has no such line", "[report]") {
  Trace trace = incident::MakeTrace();
  CHECK_FALSE(Has(Report(trace), "   reason "));
  for (model::RequestRow& request : trace.requests) {
    if (request.id != incident::kSlowRequest) continue;
    request.outcome = pitot::Outcome::kFailed;
    request.reason = trace.strings.Add("KV cache full");
  }

  const std::string text = Report(trace);

  CHECK(Has(text, "/classify  failed  request 0000000000008f0c\n"));
  CHECK(Has(text, "   reason     KV cache full\n"));
}

TEST_CASE("a request with an id of the host's own is named by it, and its facts have both ids", "[report]") {
  Trace trace = incident::MakeTrace();
  for (model::RequestRow& request : trace.requests) {
    if (request.id == incident::kSlowRequest) request.host_id = trace.strings.Add("cmpl-17");
  }

  const std::string text = Report(trace);

  CHECK(Has(text, "/classify  ok  request cmpl-17\n"));
  CHECK(Has(text, "latency /classify  request cmpl-17\n"));
  CHECK(Has(text, "   id         cmpl-17 (Pitot's: 0000000000008f0c)\n"));
  CHECK(Times(text, "8f0c") == 1);
}

TEST_CASE("names of any length and many threads keep the report within its columns", "[report]") {
  Trace trace = incident::MakeTrace();
  const model::StringId name = trace.strings.Add(std::string(3000, 'n'));
  for (model::SiteRow& site : trace.sites) site.name = name;
  for (model::RequestRow& request : trace.requests)
    request.route = request.labels[0].value = request.stages[0].name = name;
  for (model::ThreadRow& thread : trace.threads) thread.name = name;
  trace.process_name = trace.attributes[0].key = trace.attributes[0].value = trace.firings[0].cause = name;
  for (uint32_t i = 0; i < 500; ++i) {
    trace.threads.push_back(trace.threads[3]);
    trace.threads.back().number = 10 + i;
    trace.threads.back().first_event = trace.events.size();
  }

  CHECK(Report(trace).size() < 20000);
}

TEST_CASE("a report has the causes of stopped threads, the longest waits for a CPU first", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.window_end_ns = trace.window_begin_ns + 1000 * incident::kMs;
  const auto add = [&](const std::string& name, double from, double to) {
    AddState(name.c_str(), "ns", {{0, from}, {900, to}}, &trace);
  };
  add("host: voluntary switches", 100, 1'340);
  add("host: involuntary switches", 7, 9);
  add("host: major faults", 0, 3);
  add("host: minor faults", 0, 0);
  add("host: throttled by the CPU quota", 5, 42'700'005);
  add("host: periods throttled by the CPU quota", 0, 4);
  add("host: CPU pressure (some)", 0, 250'000'000);
  add("host: I/O pressure (some)", 0, 0);
  add("host: I/O pressure (full)", 0, 0);
  add("host: resident memory", 64 << 20, 512 << 20);
  add("host: mean CPU frequency", 2400, 1800);
  add("host: lowest CPU frequency", 2400, 1200);
  trace.threads[1].tid = 71;
  trace.threads[2].tid = 72;
  add("thread 71: on-CPU time", 0, 10'000'000);
  add("thread 71: run-queue delay", 0, 2'000'000);
  add("thread 72: on-CPU time", 0, 20'000'000);
  add("thread 72: run-queue delay", 1'000'000, 4'000'000);
  add("thread 72: involuntary switches", 1, 6);

  const std::string report = Report(trace), line = OneLine(report);

  CHECK(Has(line, "HOST process went to sleep 1,240 times, lost its CPU 2 times; 3 page faults waited for a disk"));
  CHECK(Has(line, "CPU quota throttled for 42.7 ms in 4 periods"));
  CHECK(Has(line, "pressure CPU 25.0 %, I/O 0.0 % (all at once 0.0 %) of the window"));
  CHECK(Has(line, "memory 512 MiB resident (64 MiB..512 MiB in the window)"));
  CHECK(Has(line, "CPU clocks mean 1800 MHz (1800..2400), the lowest CPU's 1200 MHz"));
  CHECK(Has(line, "threads, by wait for a CPU run queue on CPU slept lost CPU disk faults " +
                      std::string(trace.strings[trace.threads[2].name]) + " #3 3.00 ms 20.0 ms - 5 - " +
                      std::string(trace.strings[trace.threads[1].name]) + " #2 2.00 ms 10.0 ms - - -"));
}

TEST_CASE("a report has the time stolen by the hypervisor if it is 1 % of the CPUs' time or more", "[report]") {
  const auto report_of = [](double stolen_ns, const char* cpus) {
    Trace trace = incident::MakeTrace();
    trace.window_end_ns = trace.window_begin_ns + 2000 * incident::kMs;
    AddState("host: CPU time stolen by the hypervisor", "ns", {{0, 5e9}, {1000, 5e9 + stolen_ns}}, &trace);
    if (cpus != nullptr) trace.attributes.push_back({trace.strings.Add("host.cpus"), trace.strings.Add(cpus)});
    return OneLine(Report(trace));
  };

  CHECK(Has(report_of(40e6, "2"), "stolen the hypervisor took 40.0 ms of the machine's 2 CPUs, 1.0 % of their time"));
  CHECK(Has(report_of(300e6, "2"), "stolen the hypervisor took 300.0 ms of the machine's 2 CPUs, 7.5 % of their time"));
  CHECK_FALSE(Has(report_of(39e6, "2"), "stolen the"));
  CHECK_FALSE(Has(report_of(300e6, "64"), "stolen the"));
  // The number of CPUs is missing in an older dump, and invalid in a damaged one.
  CHECK(Has(report_of(300e6, nullptr),
            "stolen the hypervisor took 300.0 ms of the machine's CPUs (their number is not recorded)"));
  CHECK(Has(report_of(300e6, "-3"),
            "stolen the hypervisor took 300.0 ms of the machine's CPUs (their number is not recorded)"));
}

TEST_CASE("stolen time counts as that of a second in a window shorter than the interval of readings", "[report]") {
  Trace trace;  // of 100 ms
  trace.window_end_ns = 100 * incident::kMs;
  AddState("host: CPU time stolen by the hypervisor", "ns", {{0, 0}, {50, 9e6}}, &trace);
  trace.attributes.push_back({trace.strings.Add("host.cpus"), trace.strings.Add("1")});

  const std::string report = Report(trace);

  CHECK(Has(report, "HOST"));
  CHECK_FALSE(Has(report, "hypervisor took"));
}

TEST_CASE("a report without evidence from the host has no HOST section", "[report]") {
  CHECK_FALSE(Has(Report(incident::MakeTrace()), "HOST"));
}

TEST_CASE("the report says when kernels were profiled, and during which requests", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  const uint64_t fired = trace.firings[0].request_id;
  const model::RequestRow& slow = *std::find_if(trace.requests.begin(), trace.requests.end(),
                                                [fired](const model::RequestRow& row) { return row.id == fired; });
  const model::StringId name = trace.strings.Add("profiling kernels");
  trace.overheads.push_back({slow.begin_ns, 1'000'000, name});
  const auto by_begin = [](const model::OverheadRow& a, const model::OverheadRow& b) {
    return a.begin_ns < b.begin_ns;
  };
  std::stable_sort(trace.overheads.begin(), trace.overheads.end(), by_begin);
  const std::string text = OneLine(Report(trace));
  CHECK(Has(text, "profiles kernels were being profiled from "));
  CHECK(Has(text, ": launches took longer meanwhile 1)"));
  CHECK(Has(text, "overheads module loading 4.00 ms (2 times), buffer flush 1.00 ms"));

  for (int i = 0; i < 6; ++i) trace.overheads.push_back({trace.window_end_ns + i, 1000, name});
  CHECK(Has(OneLine(Report(trace)), "and 3 runs more"));
}

TEST_CASE("a trace with nothing else of GPUs reports when kernels were profiled", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.overheads.push_back({trace.window_begin_ns, 1'000'000, trace.strings.Add("profiling kernels")});
  CHECK(Has(OneLine(Report(trace)), "GPU profiles kernels were being profiled from "));
}

TEST_CASE("a report says the same of several requests once", "[report]") {
  const std::string text = Report(MakeTwoSlow());

  CHECK(Times(text, "median of this window: 12 ok requests of the same route and size\n") == 1);
  CHECK(Times(text, "all threads at that time: * worked for it, > held or handed over") == 1);
  CHECK(Times(text, "all threads at that time\n") == 1);
  CHECK(Times(text, "http-2 #2: in scopes") == 1);
  CHECK(Has(text, "     as under 1): http-2 #2, executor #3\n"));
}

TEST_CASE("a thread's other work next to a later request is shown", "[report]") {
  Trace trace = MakeTwoSlow();
  model::RequestRow& later = trace.requests.back();  // from 620 to 661.3 ms; the other from 610 to 651.3 ms
  later.begin_ns += 10 * incident::kMs;
  for (model::Stage& stage : later.stages) stage.begin_ns += 10 * incident::kMs;
  for (const int64_t at_ms : {612, 655}) {
    AddRelease(trace.window_begin_ns + at_ms * incident::kMs, &trace);
    trace.events.duration_ns.back() = 2 * incident::kMs;
    trace.events.site.back() = trace.events.site[0];
  }

  const std::string text = Report(trace);

  CHECK(Times(text, "idle #4: in scopes 2.00 ms") == 2);
  CHECK(Has(text, "     as under 1): executor #3, http-2 #2\n"));
}

TEST_CASE("what fired first is said in the head, and of other requests with them", "[report]") {
  const std::string text = Report(MakeTwoSlow());

  CHECK(Times(text, "41.3 ms, above p99.9 = 31.2 ms of 1,203 requests of its size") == 1);
  CHECK(Has(text, "   fired      latency /classify: 41.3 ms, too\n"));
}

TEST_CASE("the three slowest requests have a line each before the appendix, and all have one in it", "[report]") {
  Trace trace = incident::MakeTrace();
  for (uint64_t id = 0x9001; id <= 0x9004; ++id) {
    trace.requests.push_back(trace.requests.back());
    trace.requests.back().id = id;
    trace.firings.push_back(trace.firings[0]);
    trace.firings.back().request_id = id;
  }
  const std::string few = Report(incident::MakeTrace()), many = Report(trace);
  const std::string front = many.substr(0, base::FindAppendix(many));

  CHECK(Times(few, "largest difference") == 1);
  CHECK(Has(few, "\n1)   41.3 ms  20.1 ms  queue +20.3 ms              ok           0000000000008f0c  /classify\n"));
  CHECK(Has(front, "\n  fired      02:31:16.775  latency /classify  request 0000000000008f0c, and 4 more\n"));
  CHECK(Has(front, "REQUESTS THAT FIRED, slowest first (the first 3 of 5)\n"));
  CHECK(Has(front, "\n3) "));
  CHECK(!Has(front, "\n4) "));
  CHECK(Times(many, "largest difference") == 2);
  CHECK(Has(many, "\n5)   41.3 ms  20.1 ms"));
  CHECK(Has(many, "\nFIRED\n\n   02:31:16.775  latency /classify  request 0000000000008f0c\n"));
  CHECK(Has(many, "latency /classify  request 0000000000009004\n"));
}

TEST_CASE("a long detail of what fired goes on in the next lines, whole and once", "[report]") {
  Trace trace = incident::MakeTrace();
  std::string detail;
  for (int word = 0; word < 30; ++word) detail += "word" + std::to_string(word) + " ";
  trace.firings[0].detail = trace.strings.Add(detail + "end");

  const std::string report = OneLine(Report(trace));
  CHECK(Has(report, "Pitot incident: latency /classify " + detail + "end "));
  CHECK(Times(report, "word29") == 1);
}

TEST_CASE("scopes without others in them are shown once", "[report]") {
  const std::string text = Report(incident::MakeTrace());

  CHECK_FALSE(Has(text, "self       forward 16.0 ms\n"));
  CHECK(Has(text, "longest    forward 16.0 ms at +24.0 ms\n"));
  CHECK(Has(text, "self       decode 1.50 ms, resize 1.50 ms\n"));
  CHECK(Has(text, "self       store 16.0 ms\n"));  // it began before the request
}

TEST_CASE("an open scope among a thread's longest is shown once for it", "[report]") {
  Trace trace = incident::MakeTrace();
  trace.events.duration_ns[0] = model::kOpen;  // decode
  for (model::RequestRow& request : trace.requests) {
    if (request.id == incident::kSlowRequest) request.duration_ns = request.stages.back().duration_ns = model::kOpen;
    if (request.id == incident::kSlowRequest) request.end_known = false;
  }
  REQUIRE(model::FindInconsistency(trace) == "");

  const std::string text = Report(trace);

  CHECK(Has(text, "longest    decode 390.0 ms so far at +0 us"));
  CHECK_FALSE(Has(text, "still open decode"));
}

TEST_CASE("a lock that one thread released several times in a row has one holder", "[report]") {
  Trace trace = incident::MakeTrace();
  for (const int64_t at_ms : {616, 618, 620}) AddRelease(trace.window_begin_ns + at_ms * incident::kMs, &trace);
  CHECK(Has(OneLine(Report(trace)), "; 6.00 ms of it held by idle #4"));
}

TEST_CASE("attributes that the report has elsewhere are not said again", "[report]") {
  Trace trace = incident::MakeGpuTrace();
  trace.gpu = {};
  trace.gpu_losses.clear();
  trace.depths = {{trace.window_begin_ns, trace.window_end_ns, Depth::kScopes}};
  for (model::StreamRow& stream : trace.streams) stream.first_event = stream.event_count = 0;
  const auto add = [&](const char* key, const char* value) {
    trace.attributes.push_back({trace.strings.Add(key), trace.strings.Add(value)});
  };
  add("incident.cause", "latency /classify");
  add("cupti.version", "26");
  add("cupti.not_recorded", "paused by the host; to record kernels: Recorder::Resume(\"cupti\")");
  add("depth.of_window", "scopes (fixed by the host)");
  add("depth.of_request.0000000000008f0c", "scopes (fixed by the host)");
  add("depth.of_request.0000000000008f0d", "scopes (fixed by the host)");
  add("depth.of_request.0000000000008f0e", "kernels (armed)");

  const std::string text = Report(trace), line = OneLine(text);

  CHECK(Has(text, "\n  unrecorded kernels: paused by the host; to record kernels: "));
  CHECK(Times(OneLine(text.substr(base::FindAppendix(text))), "paused by the host; to record kernels") == 1);
  CHECK(Has(line, "cupti.not_recorded see GPU above "));
  CHECK_FALSE(Has(line, "incident.cause"));
  CHECK(Times(line, "scopes (fixed by the host)") == 1);
  CHECK(Has(line, "depth.of_request as depth.of_window, for 2 requests "));
  CHECK(Has(line, "depth.of_request.0000000000008f0e kernels (armed) "));
}
