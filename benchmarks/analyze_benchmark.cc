// SPDX-License-Identifier: Apache-2.0
//
// The cost of reading a trace of PyTorch's profiler, of indexing it, of running the whole catalogue of analyzers, and
// of converting it.
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "base/columns.h"
#include "benchmarks/rounds.h"
#include "pitot/analyze/analyze.h"
#include "pitot/analyze/top.h"
#include "pitot/model/indexes.h"
#include "pitot/read/kineto.h"
#include "pitot/serialize/kineto.h"
#include "pitot/serialize/otlp.h"
#include "pitot/serialize/perfetto.h"
#include "pitot/serialize/pprof.h"
#include "pitot/serialize/xspace.h"
#include "tables/parquet.h"
#include "tables/tables.h"

namespace pitot::benchmarks {
namespace {

constexpr uint64_t kRows = 1'000'000;

// `rows` events as Kineto writes them, with a step around every thousand operators. An operator calling another, a
// launch, its kernel and the two ends of the arrow count for six.
std::string MakeJson(uint64_t rows) {
  std::string json =
      "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"GPU\", \"numSms\": 132}],\n"
      "\"traceEvents\": [\n";
  const uint64_t launches = rows / 6;
  for (uint64_t i = 0; i < launches; ++i) {
    const double us = 1e6 + 20.125 * static_cast<double>(i);
    const unsigned long long id = i + 1;
    if (i % 1000 == 0)
      json +=
          base::Format(R"({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%llu", "pid": 10, "tid": 10, )"
                       R"("ts": %.3f, "dur": 20125.000, "args": {"External id": %llu}},)"
                       "\n",
                       id, us, id);
    for (const char* const name : {"aten::conv2d", "aten::cudnn_convolution"})
      json += base::Format(R"({"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 10, "tid": 10, "ts": %.3f, )"
                           R"("dur": 18.001, "args": {"External id": %llu, "Record function id": 0, )"
                           R"("Input Dims": [[8, 64, 56, 56], [64, 64, 3, 3], []], "Ev Idx": %llu}},)"
                           "\n",
                           name, us, id, id);
    json +=
        base::Format(R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 10, "tid": 10, )"
                     R"("ts": %.3f, "dur": 5.250, "args": {"External id": %llu, "cbid": 211, "correlation": %llu}},)"
                     "\n"
                     R"({"ph": "s", "id": %llu, "pid": 10, "tid": 10, "ts": %.3f, "cat": "ac2g", "name": "ac2g"},)"
                     "\n",
                     us + 3, id, id, id, us + 3);
    json += base::Format(
        R"({"ph": "X", "cat": "kernel", "name": "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_%llu>")"
        R"(, "pid": 0, "tid": 7, "ts": %.3f, "dur": %llu.125, "args": {"External id": %llu, "queued": 0, )"
        R"("device": 0, "context": 1, "stream": 7, "correlation": %llu, "registers per thread": 90, )"
        R"("shared memory": 49152, "blocks per SM": 0.5925926, "grid": [%llu, 1, 1], "block": [128, 1, 1], )"
        R"("est. achieved occupancy %%": 19}},)"
        "\n",
        id % 40, us + 6, 5 + id % 14, id, id, 1 + id % 500);
    json += base::Format(R"({"ph": "f", "id": %llu, "pid": 0, "tid": 7, "ts": %.3f, "cat": "ac2g", "name": "ac2g", )"
                         R"("bp": "e"},)"
                         "\n",
                         id, us + 6);
  }
  json += "{}]}";
  return json;
}

// The trace read from `rows` events, once.
const model::Trace& TraceOf(uint64_t rows) {
  static const model::Trace read = [rows] {
    const std::string json = MakeJson(rows);
    model::Trace trace;
    KinetoReport report;
    ParseKineto(json.data(), json.size(), &trace, &report);
    return trace;
  }();
  return read;
}

void ReadJson(benchmark::State& state, Rounds& rounds) {
  const std::string json = MakeJson(Scaled(2 * kRows));
  for (auto _ : state) {
    model::Trace trace;
    KinetoReport report;
    const double begin_ns = ThreadCpuNs();
    if (!ParseKineto(json.data(), json.size(), &trace, &report).ok())
      return state.SkipWithError("the trace was not read");
    const model::Indexes indexes(trace);
    const double ns = ThreadCpuNs() - begin_ns;
    rounds.Add(ns / static_cast<double>(json.size()), ns * 1e-9);  // ns a byte are s a GB
  }
}

// Rows of events, calls and GPU, in ms a million.
double PerMillion(const model::Trace& trace, double ns) {
  const double rows = static_cast<double>(trace.events.size()) + trace.calls.size() + trace.gpu.size();
  return ns * 1e-6 * static_cast<double>(kRows) / rows;
}

void Index(benchmark::State& state, Rounds& rounds) {
  const model::Trace& trace = TraceOf(Scaled(2 * kRows));
  for (auto _ : state) {
    const double begin_ns = ThreadCpuNs();
    const model::Indexes indexes(trace);
    const double ns = ThreadCpuNs() - begin_ns;
    rounds.Add(PerMillion(trace, ns), ns * 1e-9);
  }
}

void RunCatalogue(benchmark::State& state, Rounds& rounds) {
  const model::Trace& trace = TraceOf(Scaled(2 * kRows));
  for (auto _ : state) {
    const double begin_ns = ThreadCpuNs();
    analyze::AnalysisReport report;
    if (!Analyze(trace, analyze::MakeCatalogue(), {}, &report).ok())
      return state.SkipWithError("the trace was not analyzed");
    const double ns = ThreadCpuNs() - begin_ns;
    rounds.Add(PerMillion(trace, ns), ns * 1e-9);
  }
}

// `count` threads, each with an operator that makes a call. `sites`: as many operators have names of their own.
model::Trace TraceOfThreads(uint64_t count, uint64_t sites) {
  model::Trace trace;
  trace.window_end_ns = 1'000'000;
  for (uint64_t i = 0; i < sites; ++i) {
    trace.sites.push_back({});
    trace.sites.back().kind = SiteKind::kOperator;
    trace.sites.back().name = trace.strings.Add("aten::linear_" + std::to_string(i));
  }
  const model::StringId launch = trace.strings.Add("cudaLaunchKernel");
  for (uint32_t i = 0; i < count; ++i) {
    trace.threads.push_back({});
    trace.threads.back().number = i + 1;
    trace.threads.back().first_event = i;
    trace.threads.back().event_count = 1;
    trace.events.begin_ns.push_back(100);
    trace.events.duration_ns.push_back(50);
    trace.events.site.push_back(i % std::max(static_cast<uint32_t>(sites), 1u));
    trace.events.thread.push_back(i);
    trace.events.request.push_back(model::kNone);
    trace.events.batch.push_back(model::kNone);
    trace.events.args.push_back(model::kNone);
    trace.calls.begin_ns.push_back(110);
    trace.calls.duration_ns.push_back(1);
    trace.calls.thread.push_back(i);
    trace.calls.request.push_back(model::kNone);
    trace.calls.batch.push_back(model::kNone);
    trace.calls.name.push_back(launch);
    trace.calls.stream.push_back(model::kNone);
    trace.calls.device.push_back(model::kNone);
  }
  return trace;
}

void RunTop(benchmark::State& state, Rounds& rounds, const model::Trace& trace) {
  for (auto _ : state) {
    const double begin_ns = ThreadCpuNs();
    analyze::TopTable table;
    if (!FindTop(trace, {}, &table).ok()) return state.SkipWithError("the trace was not counted");
    const double ns = ThreadCpuNs() - begin_ns;
    rounds.Add(PerMillion(trace, ns), ns * 1e-9);
  }
}
void Top(benchmark::State& state, Rounds& rounds) { RunTop(state, rounds, TraceOf(Scaled(2 * kRows))); }
void TopOfThreads(benchmark::State& state, Rounds& rounds) {
  RunTop(state, rounds, TraceOfThreads(Scaled(kRows / 20), 1));
}
void TopOfThreadsAndSites(benchmark::State& state, Rounds& rounds) {
  RunTop(state, rounds, TraceOfThreads(Scaled(kRows / 20), Scaled(kRows / 20)));
}

// A field of /proc/self/status, in bytes.
double StatusBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stod(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

// The peak of resident memory beyond the trace while all analyzers run over it, as a multiple of the trace.
void PeakOfCatalogue(benchmark::State& state, Rounds& rounds) {
  malloc_trim(0);
  const double before = StatusBytes("VmRSS");
  model::Trace trace;
  {
    const std::string json = MakeJson(Scaled(2 * kRows));
    KinetoReport read;
    ParseKineto(json.data(), json.size(), &trace, &read);
  }
  for (auto _ : state) {
    malloc_trim(0);
    const double with_trace = StatusBytes("VmRSS");
    std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM begins anew
    analyze::AnalysisReport report;
    if (!Analyze(trace, analyze::MakeCatalogue(), {}, &report).ok())
      return state.SkipWithError("the trace was not analyzed");
    const double peak = StatusBytes("VmHWM");
    rounds.Add((peak - with_trace) / std::max(1.0, with_trace - before), 0);
  }
}

// Takes bytes and keeps none.
class NullSink final : public ByteSink {
 public:
  bool Write(const void*, uint64_t) noexcept override { return true; }
};

// All tables, one after another.
class AllTables final : public Serializer {
 public:
  const char* FileName() const noexcept override { return "tables"; }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    Status status;
    for (tables::Table& table : tables::TablesOf(trace)) {
      if (status.ok()) status = tables::MakeParquet(std::move(table))->Serialize(trace, sink);
    }
    return status;
  }
};

std::unique_ptr<Serializer> MakeFormat(const std::string& name) {
  if (name == "perfetto") return MakePerfettoSerializer();
  if (name == "kineto") return MakeKinetoSerializer();
  if (name == "otlp") return MakeOtlpSerializer();
  if (name == "parquet") return std::make_unique<AllTables>();
  if (name == "pprof") return MakePprofSerializer();
  return MakeXSpaceSerializer();
}

// The CPU time of writing a format, and the peak of resident memory meanwhile.
void Convert(benchmark::State& state, Rounds& rounds, const char* format, bool is_memory) {
  const model::Trace& trace = TraceOf(Scaled(2 * kRows));
  const std::unique_ptr<Serializer> serializer = MakeFormat(format);
  for (auto _ : state) {
    NullSink sink;
    malloc_trim(0);
    const double with_trace = StatusBytes("VmRSS");
    std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM begins anew
    const double begin_ns = ThreadCpuNs();
    if (!serializer->Serialize(trace, sink).ok()) return state.SkipWithError("the trace was not written");
    const double ns = ThreadCpuNs() - begin_ns;
    const double mb = (StatusBytes("VmHWM") - with_trace) * 1e-6;
    rounds.Add(is_memory ? mb * PerMillion(trace, 1e6) : PerMillion(trace, ns), ns * 1e-9);
  }
}
template <const char* kFormat> void ConvertTime(benchmark::State& state, Rounds& rounds) {
  Convert(state, rounds, kFormat, false);
}
template <const char* kFormat> void ConvertMemory(benchmark::State& state, Rounds& rounds) {
  Convert(state, rounds, kFormat, true);
}
constexpr char kPerfetto[] = "perfetto", kKineto[] = "kineto", kOtlp[] = "otlp", kParquet[] = "parquet",
               kPprof[] = "pprof", kXSpace[] = "xspace";
void RegisterAll() {
  Register("analyze/read_json_per_gb", 5, ReadJson, "s", 10);
  Register("analyze/indexes_per_million_rows", 11, Index, "ms", 500);
  Register("analyze/catalogue_per_million_rows", 11, RunCatalogue, "ms", 2000);
  Register("analyze/top_per_million_rows", 11, Top, "ms", 1000);
  Register("analyze/top_of_50000_threads_per_million_rows", 11, TopOfThreads, "ms", 1000);
  Register("analyze/top_of_50000_threads_and_sites_per_million_rows", 11, TopOfThreadsAndSites, "ms", 2000);
  Register("convert/perfetto_per_million_rows", 5, ConvertTime<kPerfetto>, "ms", 1000);
  Register("convert/perfetto_memory_per_million_rows", 5, ConvertMemory<kPerfetto>, "MB", 64);
  Register("convert/kineto_per_million_rows", 5, ConvertTime<kKineto>, "ms", 1000);
  Register("convert/kineto_memory_per_million_rows", 5, ConvertMemory<kKineto>, "MB", 64);
  Register("convert/otlp_per_million_rows", 5, ConvertTime<kOtlp>, "ms", 1000);
  Register("convert/otlp_memory_per_million_rows", 5, ConvertMemory<kOtlp>, "MB", 64);
  Register("convert/parquet_per_million_rows", 5, ConvertTime<kParquet>, "ms", 1000);
  Register("convert/parquet_memory_per_million_rows", 5, ConvertMemory<kParquet>, "MB", 64);
  Register("convert/pprof_per_million_rows", 5, ConvertTime<kPprof>, "ms", 1000);
  Register("convert/pprof_memory_per_million_rows", 5, ConvertMemory<kPprof>, "MB", 64);
  Register("convert/xspace_per_million_rows", 5, ConvertTime<kXSpace>, "ms", 1000);
  Register("convert/xspace_memory_per_million_rows", 5, ConvertMemory<kXSpace>, "MB", 64);
  Register("analyze/peak_beyond_trace", 3, PeakOfCatalogue, "x the trace", 2);
}

}  // namespace
}  // namespace pitot::benchmarks

int main(int argc, char** argv) { return pitot::benchmarks::Run(argc, argv, pitot::benchmarks::RegisterAll); }
