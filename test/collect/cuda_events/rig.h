// SPDX-License-Identifier: Apache-2.0
//
// A host with the fake CUDA.
#ifndef PITOT_TEST_COLLECT_CUDA_EVENTS_RIG_H_
#define PITOT_TEST_COLLECT_CUDA_EVENTS_RIG_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "collect/cuda_events/collector.h"
#include "collect/cuda_events/fake_cuda.h"
#include "fakes/trace_text.h"
#include "fakes/wait_until.h"
#include "session/host.h"

namespace fakes {

inline constexpr int64_t kMs = 1'000'000;

struct EventHost : session_test::Host {
  explicit EventHost(const char* library = PITOT_FAKE_CUDA) : cuda(*LoadFakeCuda(library)) {
    cuda.Reset();
    context = cuda.MakeContext();
    stream = cuda.MakeStream();
    environment.library = library;
    options.depth = pitot::Depth::kScopes;
    options.max_incidents_per_cause_and_hour = 1'000'000;
    // Long enough, however slow the machine is.
    options.pre_window_ms = 600'000;
    environment.keep_patience_ns = environment.stop_patience_ns = 60'000 * kMs;
  }
  pitot::Status Add() {
    auto made = pitot::cuda_events::MakeCollector(event_options, environment);
    collector = made.get();
    return recorder.Add(std::move(made));
  }
  // Has the collector's thread do all there is to do.
  void Round() { collector->Keep(INT64_MAX, pitot::KeepFor::kSample); }
  // Runs the collector and makes its pool. Leaves at most one scope "warm up".
  bool StartTiming() { return Start() && Add().ok() && WarmUp(); }
  bool WarmUp() {
    const size_t before = cuda.StampsOn(stream).size();
    return WaitUntil([&] {
      const pitot::CudaEventScope scope(stream, "warm up");
      return cuda.StampsOn(stream).size() != before;
    });
  }
  // Waits until nothing is in flight: the collector's thread then asks the driver for nothing.
  bool Settle() {
    return WaitUntil([&] { return Attribute(Incident(), "cuda_events.under_way").empty(); });
  }
  // A scope around work of this length.
  void Run(const char* name, int64_t duration_ns = 0) {
    const pitot::CudaEventScope scope(stream, name);
    cuda.Enqueue(stream, duration_ns);
  }
  pitot::model::Trace Incident() { return TriggerAndFlush() ? traces().back() : pitot::model::Trace(); }
  // Gets the first trace with at least so many spans of this name.
  bool AwaitSpans(const char* name, uint32_t count, pitot::model::Trace* trace) {
    return WaitUntil([&] {
      *trace = Incident();
      return Count(*trace, name) >= count;
    });
  }

  static uint32_t Find(const pitot::model::Trace& trace, std::string_view name) {
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
      if (trace.gpu.kind[row] == pitot::model::GpuKind::kSpan && trace.strings[trace.gpu.name[row]] == name) return row;
    }
    return pitot::model::kNone;
  }
  static uint32_t Count(const pitot::model::Trace& trace, std::string_view name) {
    uint32_t count = 0;
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) count += trace.strings[trace.gpu.name[row]] == name;
    return count;
  }
  static int NumberOf(const pitot::model::Trace& trace, std::string_view key) {
    return std::atoi(Attribute(trace, key).c_str());
  }

  FakeCuda& cuda;
  void* context = nullptr;
  void* stream = nullptr;
  pitot::Collector* collector = nullptr;
  pitot::CudaEventOptions event_options;
  pitot::cuda_events::Environment environment;
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_CUDA_EVENTS_RIG_H_
