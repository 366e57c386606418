// SPDX-License-Identifier: Apache-2.0
//
// Small traces of one thread and one GPU, in microseconds, for the tests of analyzers.
#ifndef PITOT_TEST_ANALYZE_GPU_TRACE_H_
#define PITOT_TEST_ANALYZE_GPU_TRACE_H_

#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "pitot/analyze/analyze.h"
#include "pitot/model/trace.h"

namespace pitot::test {

// Rows are added in order: events, calls and each stream's work by their beginnings.
class GpuTrace {
 public:
  explicit GpuTrace(int64_t window_us) {
    trace.window_end_ns = window_us * 1000;
    trace.threads.resize(1);
    trace.threads[0].number = 1;
    trace.devices.resize(1);
    trace.devices[0].multiprocessors = 100;
    trace.streams.resize(1);
    trace.streams[0].device = 0;
    trace.streams[0].stream = 7;
  }

  uint32_t Event(SiteKind kind, const std::string& name, int64_t begin_us, int64_t duration_us) {
    model::SiteRow site;
    site.kind = kind;
    site.name = trace.strings.Add(name);
    trace.events.begin_ns.push_back(begin_us * 1000);
    trace.events.duration_ns.push_back(duration_us * 1000);
    trace.events.site.push_back(static_cast<uint32_t>(trace.sites.size()));
    trace.events.thread.push_back(0);
    trace.events.request.push_back(model::kNone);
    trace.events.batch.push_back(model::kNone);
    trace.events.args.push_back(model::kNone);
    trace.sites.push_back(site);
    return trace.threads[0].event_count++;
  }
  uint32_t Call(const std::string& name, int64_t begin_us, int64_t duration_us) {
    trace.calls.begin_ns.push_back(begin_us * 1000);
    trace.calls.duration_ns.push_back(duration_us * 1000);
    trace.calls.thread.push_back(0);
    trace.calls.request.push_back(model::kNone);
    trace.calls.batch.push_back(model::kNone);
    trace.calls.name.push_back(trace.strings.Add(name));
    trace.calls.stream.push_back(model::kNone);
    return trace.calls.size() - 1;
  }
  // On the first stream.
  uint32_t Gpu(model::GpuKind kind, const std::string& name, int64_t begin_us, int64_t duration_us, uint32_t call,
               uint64_t bytes = 0) {
    model::GpuColumns& gpu = trace.gpu;
    gpu.begin_ns.push_back(begin_us * 1000);
    gpu.duration_ns.push_back(duration_us * 1000);
    gpu.kind.push_back(kind);
    gpu.stream.push_back(0);
    gpu.name.push_back(trace.strings.Add(name));
    gpu.call.push_back(call);
    gpu.shape.push_back(model::kNone);
    gpu.bytes.push_back(bytes);
    gpu.graph.push_back(0);
    gpu.node.push_back(0);
    gpu.scope_path.push_back(0);
    return trace.streams[0].event_count++;
  }
  // A kernel and the call that launched it.
  uint32_t Launch(const std::string& name, int64_t call_us, int64_t call_duration_us, int64_t begin_us,
                  int64_t duration_us) {
    return Gpu(model::GpuKind::kKernel, name, begin_us, duration_us,
               Call("cudaLaunchKernel", call_us, call_duration_us));
  }
  void Shape(uint32_t gpu_row, const model::KernelShape& shape) {
    trace.gpu.shape[gpu_row] = static_cast<uint32_t>(trace.shapes.size());
    trace.shapes.push_back(shape);
  }

  analyze::AnalysisReport Run(const std::string& analyzer, analyze::AnalyzeOptions options = {}) const {
    REQUIRE(FindInconsistency(trace) == "");
    analyze::AnalysisReport report;
    options.only = {analyzer};
    REQUIRE(Analyze(trace, analyze::MakeCatalogue(), options, &report).ok());
    REQUIRE(std::string(report.analyzers.at(0).status.message()) == "");
    return report;
  }

  model::Trace trace;
};

// In us where it is a time.
inline double Measured(const analyze::AnalysisReport& report, const std::string& name,
                       const std::string& subject = "") {
  const analyze::MeasureRow* const row = report.Find(report.analyzers.at(0).name, name, subject);
  if (row == nullptr) FAIL("nothing measured: " << name);
  return row->unit == "ns" ? row->value / 1000 : row->value;
}
inline std::optional<analyze::FindingRow> Found(const analyze::AnalysisReport& report, const std::string& code) {
  for (const analyze::FindingRow& finding : report.analyzers.at(0).findings) {
    if (finding.code == code) return finding;
  }
  return std::nullopt;
}

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_GPU_TRACE_H_
