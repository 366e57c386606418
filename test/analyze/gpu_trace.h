// SPDX-License-Identifier: Apache-2.0
//
// Small traces in microseconds, of one thread and one GPU unless more are asked for, for the tests of analyzers.
#ifndef PITOT_TEST_ANALYZE_GPU_TRACE_H_
#define PITOT_TEST_ANALYZE_GPU_TRACE_H_

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyze/overheard.h"
#include "pitot/analyze/analyze.h"
#include "pitot/model/trace.h"

namespace pitot::test {

// Rows are added in order: events, calls and each stream's work by their beginnings. Rows added after UseThread or
// UseStream belong to that thread or stream, in order.
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

  // The next rows are of a new thread, or of a new stream of this number of a device.
  void UseThread() {
    thread_ = static_cast<uint32_t>(trace.threads.size());
    trace.threads.resize(thread_ + 1);
    trace.threads[thread_].number = thread_ + 1;
    trace.threads[thread_].first_event = trace.events.size();
  }
  void UseStream(uint32_t number, uint32_t device = 0) {
    stream_ = static_cast<uint32_t>(trace.streams.size());
    trace.streams.resize(stream_ + 1);
    trace.streams[stream_].device = device;
    trace.streams[stream_].stream = number;
    trace.streams[stream_].first_event = trace.gpu.size();
  }
  // The next events and calls are of this request; kNone: of none.
  void For(uint32_t request) { request_ = request; }
  uint32_t Request(int64_t begin_us, int64_t duration_us) {
    model::RequestRow request;
    request.id = trace.requests.size() + 1;
    request.begin_ns = begin_us * 1000;
    request.duration_ns = duration_us * 1000;
    request.end_known = true;
    trace.requests.push_back(request);
    return static_cast<uint32_t>(trace.requests.size() - 1);
  }
  // A batch of the first request alone, as often as it has members.
  uint32_t Batch(const std::string& executor, int64_t begin_us, int64_t duration_us, uint32_t members) {
    if (trace.requests.empty()) Request(0, trace.window_end_ns / 1000);
    model::BatchRow batch;
    batch.id = trace.batches.size() + 1;
    batch.executor = trace.strings.Add(executor);
    batch.thread = 0;
    batch.begin_ns = begin_us * 1000;
    batch.duration_ns = duration_us * 1000;
    batch.first_member = static_cast<uint32_t>(trace.members.size());
    batch.member_count = members;
    const auto row = static_cast<uint32_t>(trace.batches.size());
    for (uint32_t i = 0; i < members; ++i) trace.members.push_back({row, 0, batch.begin_ns, 0});
    trace.batches.push_back(batch);
    return row;
  }
  // Samples by counter and time.
  uint32_t Counter(const std::string& name, const std::string& unit) {
    trace.counters.push_back({model::kNone, trace.strings.Add(name), trace.strings.Add(unit)});
    return static_cast<uint32_t>(trace.counters.size() - 1);
  }
  void Sample(uint32_t counter, int64_t at_us, double value) {
    trace.samples.counter.push_back(counter);
    trace.samples.at_ns.push_back(at_us * 1000);
    trace.samples.value.push_back(value);
  }
  // By name.
  using Args = std::vector<std::pair<std::string, uint64_t>>;
  uint32_t Event(SiteKind kind, const std::string& name, int64_t begin_us, int64_t duration_us, const Args& args = {},
                 const std::string& shapes = "") {
    model::SiteRow site;
    site.kind = kind;
    site.name = trace.strings.Add(name);
    const auto first_arg = static_cast<uint32_t>(trace.arg_values.size());
    const auto add = [&](const std::string& arg, ArgType type, uint64_t value) {
      site.arg_names.push_back(trace.strings.Add(arg));
      site.arg_types.push_back(type);
      trace.arg_values.push_back(value);
    };
    for (const auto& [arg, value] : args) add(arg, ArgType::kInt, value);
    if (!shapes.empty()) add("shapes", ArgType::kString, trace.strings.Add(shapes));
    trace.events.begin_ns.push_back(begin_us * 1000);
    trace.events.duration_ns.push_back(duration_us * 1000);
    trace.events.site.push_back(static_cast<uint32_t>(trace.sites.size()));
    trace.events.thread.push_back(thread_);
    trace.events.request.push_back(request_);
    trace.events.batch.push_back(model::kNone);
    trace.events.args.push_back(site.arg_names.empty() ? model::kNone : first_arg);
    trace.sites.push_back(site);
    ++trace.threads[thread_].event_count;
    return trace.events.size() - 1;
  }
  uint32_t Call(const std::string& name, int64_t begin_us, int64_t duration_us) {
    trace.calls.begin_ns.push_back(begin_us * 1000);
    trace.calls.duration_ns.push_back(duration_us * 1000);
    trace.calls.thread.push_back(thread_);
    trace.calls.request.push_back(request_);
    trace.calls.batch.push_back(model::kNone);
    trace.calls.name.push_back(trace.strings.Add(name));
    trace.calls.stream.push_back(model::kNone);
    trace.calls.device.push_back(model::kNone);
    return trace.calls.size() - 1;
  }
  uint32_t Gpu(model::GpuKind kind, const std::string& name, int64_t begin_us, int64_t duration_us, uint32_t call,
               uint64_t bytes = 0) {
    model::GpuColumns& gpu = trace.gpu;
    gpu.begin_ns.push_back(begin_us * 1000);
    gpu.duration_ns.push_back(duration_us * 1000);
    gpu.kind.push_back(kind);
    gpu.stream.push_back(stream_);
    gpu.name.push_back(trace.strings.Add(name));
    gpu.call.push_back(call);
    gpu.shape.push_back(model::kNone);
    gpu.bytes.push_back(bytes);
    gpu.graph.push_back(0);
    gpu.node.push_back(0);
    gpu.scope_path.push_back(0);
    ++trace.streams[stream_].event_count;
    return gpu.size() - 1;
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

  // `make` makes the catalogue.
  analyze::AnalysisReport Run(const std::string& analyzer, analyze::AnalyzeOptions options = {},
                              std::vector<std::unique_ptr<Analyzer>> (*make)() = OverheardCatalogue) const {
    REQUIRE(FindInconsistency(trace) == "");
    analyze::AnalysisReport report;
    options.only = {analyzer};
    REQUIRE(Analyze(trace, make(), options, &report).ok());
    REQUIRE(std::string(report.analyzers.at(0).status.message()) == "");
    return report;
  }

  model::Trace trace;

 private:
  uint32_t thread_ = 0, stream_ = 0, request_ = model::kNone;
};

// A measure; in us if it is a time.
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
