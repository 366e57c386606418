// SPDX-License-Identifier: Apache-2.0
//
// A recorder for the collector of CUDA calls, and a watcher of streams.
#ifndef PITOT_TEST_COLLECT_CUDA_CALLS_RIG_H_
#define PITOT_TEST_COLLECT_CUDA_CALLS_RIG_H_

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "collect/cuda_calls/collector.h"
#include "fakes/trace_text.h"
#include "session/host.h"
#include "trace/stream_use.h"

namespace cuda_calls_test {

namespace model = pitot::model;

inline constexpr std::string_view kFakes[] = {"libfake_cudart", "libfake_cuda_driver"};

inline void* Pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

struct Rig {
  Rig() {
    environment.providers = kFakes;
    environment.look_ns = 1'000'000;
    environment.slow_launch_ns = 3'600'000'000'000;  // a busy machine makes any launch slow
    REQUIRE(host.Start());
  }
  pitot::Status Add() { return host.recorder.Add(pitot::cuda_calls::MakeCollector(options, environment)); }
  model::Trace Incident() {
    REQUIRE(host.TriggerAndFlush());
    model::Trace trace = host.traces().back();
    CHECK(model::FindInconsistency(trace) == "");
    return trace;
  }

  session_test::Host host;
  pitot::CudaCallOptions options;
  pitot::cuda_calls::Environment environment;
};

inline std::vector<std::string> Calls(const model::Trace& trace) {
  std::vector<std::string> names;
  for (const model::StringId name : trace.calls.name) names.emplace_back(trace.strings[name]);
  return names;
}
using Names = std::vector<std::string>;

inline constexpr char kSpans[] = "spans";  // the collector with the streams' numbers

struct Watched {
  static void Launch(void* stream, void* graph) noexcept {
    streams.push_back(stream);
    if (graph != nullptr) graphs.push_back(graph);
  }
  static void Wait(void* stream) noexcept { waits.push_back(stream); }
  static void Destroy() noexcept { ++destroyed; }
  // Streams have their address as a number, in context 1.
  static void AddTarget(void* stream, pitot::DeviceCall* call) noexcept {
    const bool is_all = stream == pitot::trace::kEveryStream;
    call->collector = pitot::Intern(kSpans);
    call->context = 1;
    call->stream = is_all ? pitot::kAllStreams : static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream));
    targets.push_back(stream);
  }
  explicit Watched() {
    streams.clear();
    graphs.clear();
    waits.clear();
    targets.clear();
    destroyed = 0;
    pitot::trace::g_stream_watcher.store(&kWatcher);
  }
  ~Watched() { pitot::trace::g_stream_watcher.store(nullptr); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  static constexpr pitot::trace::StreamWatcher kWatcher = {Launch, Wait, Destroy, AddTarget};
  inline static std::vector<void*> streams, graphs, waits, targets;
  inline static int destroyed = 0;
};

}  // namespace cuda_calls_test

#endif  // PITOT_TEST_COLLECT_CUDA_CALLS_RIG_H_
