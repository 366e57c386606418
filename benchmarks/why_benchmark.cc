// SPDX-License-Identifier: Apache-2.0
//
// Why a request was slow, on a trace of a million events. Measures the index of all walks, and the verdict on one
// request, which walks 512 others for lack of a baseline. Also all analyzers, and the difference from another trace.
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "benchmarks/register.h"
#include "benchmarks/rounds.h"
#include "pitot/analyze/analyze.h"
#include "pitot/analyze/diff.h"
#include "pitot/analyze/verdict.h"
#include "pitot/model/trace.h"

namespace pitot::benchmarks {
namespace {

using model::kNone;
using model::Trace;

constexpr int64_t kUs = 1000, kRequestNs = 1000 * kUs;
constexpr int64_t kScopes = 20;  // of a request on its executor; every fourth has a call and a kernel

// Requests one after the other: read on one thread, a queue, a batch on another, and kernels with a wait for them.
Trace MakeTrace(uint64_t events) {
  Trace trace;
  const auto string = [&](const char* text) { return trace.strings.Add(text); };
  const auto requests = static_cast<uint32_t>(events / (kScopes + 2));
  trace.window_end_ns = (requests + 1) * kRequestNs;
  const auto site = [&](const char* name) {
    trace.sites.push_back({});
    trace.sites.back().name = string(name);
    return static_cast<uint32_t>(trace.sites.size() - 1);
  };
  const uint32_t read = site("read"), parse = site("parse"), layer = site("layer");
  const auto thread = [&](uint32_t number, const char* name) {
    trace.threads.push_back({});
    trace.threads.back().number = number;
    trace.threads.back().name = string(name);
    trace.threads.back().first_event = trace.events.size();
  };
  const auto event = [&](uint32_t of, int64_t begin_ns, int64_t ns, uint32_t request, uint32_t batch) {
    trace.events.begin_ns.push_back(begin_ns);
    trace.events.duration_ns.push_back(ns);
    trace.events.site.push_back(of);
    trace.events.thread.push_back(static_cast<uint32_t>(trace.threads.size()) - 1);
    trace.events.request.push_back(request);
    trace.events.batch.push_back(batch);
    trace.events.args.push_back(kNone);
    ++trace.threads.back().event_count;
  };
  thread(1, "http");
  for (uint32_t i = 0; i < requests; ++i) {
    event(read, i * kRequestNs, 100 * kUs, i, kNone);
    event(parse, i * kRequestNs + 20 * kUs, (30 + i % 50) * kUs, i, kNone);
  }
  thread(2, "executor");
  trace.devices.push_back({});
  trace.streams.push_back({0, 1, 7, 0, 0, 0});
  const model::StringId launch = string("cudaLaunchKernel"), sync = string("cudaStreamSynchronize");
  const model::StringId kernel = string("gemm"), route = string("/classify"), executor = string("resnet50");
  const model::StringId queue = string("images");
  const auto call = [&](model::StringId name, int64_t begin_ns, int64_t ns, uint32_t batch, uint32_t stream) {
    trace.calls.begin_ns.push_back(begin_ns);
    trace.calls.duration_ns.push_back(ns);
    trace.calls.thread.push_back(1);
    trace.calls.request.push_back(kNone);
    trace.calls.batch.push_back(batch);
    trace.calls.name.push_back(name);
    trace.calls.stream.push_back(stream);
    trace.calls.device.push_back(kNone);
  };
  for (uint32_t i = 0; i < requests; ++i) {
    const int64_t begin_ns = i * kRequestNs, take_ns = begin_ns + (120 + i % 7) * kUs;
    const int64_t end_ns = take_ns + kScopes * 20 * kUs + 100 * kUs;
    model::RequestRow request;
    request.id = i + 1;
    request.route = route;
    request.begin_ns = begin_ns;
    request.duration_ns = end_ns - begin_ns;
    request.end_known = true;
    request.begin_thread = 0;
    request.end_thread = 1;
    trace.requests.push_back(request);
    trace.batches.push_back({i + 1, executor, 1, take_ns, end_ns - take_ns, 0, 0, i, 1});
    trace.members.push_back({i, i, take_ns, 0});
    trace.handoffs.push_back({i, queue, 0, 1, begin_ns + 100 * kUs, take_ns, i});
    int64_t gpu_ns = take_ns;
    for (int64_t k = 0; k < kScopes; ++k) {
      const int64_t at_ns = take_ns + k * 20 * kUs;
      event(layer, at_ns, 19 * kUs, kNone, i);
      if (k % 4 != 0) continue;
      call(launch, at_ns + 5 * kUs, 4 * kUs, i, kNone);
      trace.gpu.begin_ns.push_back(gpu_ns = std::max(gpu_ns, at_ns + 10 * kUs));
      trace.gpu.duration_ns.push_back((60 + (i + k) % 9) * kUs);
      gpu_ns += trace.gpu.duration_ns.back();
      trace.gpu.kind.push_back(model::GpuKind::kKernel);
      trace.gpu.stream.push_back(0);
      trace.gpu.name.push_back(kernel);
      trace.gpu.call.push_back(trace.calls.size() - 1);
      trace.gpu.shape.push_back(kNone);
      trace.gpu.bytes.push_back(0);
      trace.gpu.graph.push_back(0);
      trace.gpu.node.push_back(0);
      trace.gpu.scope_path.push_back(0);
      ++trace.streams[0].event_count;
    }
    call(sync, take_ns + kScopes * 20 * kUs, std::max<int64_t>(gpu_ns + 5 * kUs - take_ns - kScopes * 20 * kUs, 1000),
         i, 0);
  }
  return trace;
}

size_t HeapBytes() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

void Index(benchmark::State& state, Rounds& rounds) {
  const Trace trace = MakeTrace(Scaled(1'000'000));
  if (const std::string wrong = FindInconsistency(trace); !wrong.empty()) return state.SkipWithError(wrong.c_str());
  for (auto _ : state) {
    const size_t before = HeapBytes();
    const double begin_ns = ThreadCpuNs();
    analyze::BlameIndex index;
    if (!analyze::BlameIndex::Make(trace, {}, &index).ok()) return state.SkipWithError("no index");
    const double took_ns = ThreadCpuNs() - begin_ns;
    state.counters["MB"] = static_cast<double>(HeapBytes() - before) * 1e-6;
    rounds.Add(took_ns * 1e-6, took_ns * 1e-9);
  }
}

void Verdict(benchmark::State& state, Rounds& rounds) {
  const Trace trace = MakeTrace(Scaled(1'000'000));
  analyze::BlameIndex index;
  if (!analyze::BlameIndex::Make(trace, {}, &index).ok()) return state.SkipWithError("no index");
  const uint32_t request = static_cast<uint32_t>(trace.requests.size()) / 2;
  for (auto _ : state) {
    const double begin_ns = ThreadCpuNs();
    analyze::RequestBlame blame;
    analyze::Baseline baseline;
    analyze::Verdict verdict;
    const bool is_done = FindBlame(index, request, &blame).ok() && LearnBaseline(index, request, {}, &baseline).ok() &&
                         FindVerdict(index, blame, baseline, blame.end_ns, {}, &verdict).ok();
    if (!is_done) return state.SkipWithError("no verdict");
    const double took_ns = ThreadCpuNs() - begin_ns;
    state.counters["segments"] = static_cast<double>(blame.segments.size());
    state.counters["compared_with"] = verdict.baseline_size;
    rounds.Add(took_ns * 1e-6, took_ns * 1e-9);
  }
}

// For a server's trace, so that analyzers of requests find some.
void Catalogue(benchmark::State& state, Rounds& rounds) {
  const Trace trace = MakeTrace(Scaled(1'000'000));
  for (auto _ : state) {
    const double begin_ns = ThreadCpuNs();
    analyze::AnalysisReport report;
    if (!Analyze(trace, analyze::MakeCatalogue(), {}, &report).ok()) return state.SkipWithError("not analyzed");
    const double took_ns = ThreadCpuNs() - begin_ns;
    for (const analyze::AnalyzerReport& analyzer : report.analyzers) {
      if (!analyzer.status.ok()) return state.SkipWithError(analyzer.status.message());
      state.counters[analyzer.name] = std::round(static_cast<double>(analyzer.cpu_ns) * 1e-6);
    }
    rounds.Add(took_ns * 1e-6, took_ns * 1e-9);
  }
}

void Compare(benchmark::State& state, Rounds& rounds) {
  const Trace trace = MakeTrace(Scaled(1'000'000));
  for (auto _ : state) {
    const double begin_ns = ThreadCpuNs();
    analyze::Diff diff;
    if (!FindDiff(trace, trace, {}, &diff).ok()) return state.SkipWithError("not compared");
    const double took_ns = ThreadCpuNs() - begin_ns;
    rounds.Add(took_ns * 1e-6, took_ns * 1e-9);
  }
}

}  // namespace

void RegisterWhy() {
  Register("why: index of 1,000,000 events", 8, Index, "ms", 500);
  Register("why: verdict on one request of them", 8, Verdict, "ms", 100);
  Register("why: whole catalogue on them", 8, Catalogue, "ms", 2000);
  Register("why: difference from as many", 8, Compare, "ms", 4000);
}

}  // namespace pitot::benchmarks
