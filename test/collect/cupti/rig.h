// SPDX-License-Identifier: Apache-2.0
//
// A host with the fake CUDA.
#ifndef PITOT_TEST_COLLECT_CUPTI_RIG_H_
#define PITOT_TEST_COLLECT_CUPTI_RIG_H_

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "collect/cupti/collector.h"
#include "collect/cupti/engine.h"
#include "collect/cupti/fake_cupti.h"
#include "collect/cupti/recording.h"
#include "fakes/trace_text.h"
#include "fakes/wait_until.h"
#include "session/host.h"

namespace fakes {

// Depths offered by the collector if nothing is in its way.
inline constexpr uint32_t kDepths = pitot::BitOf(pitot::Depth::kGraphs) | pitot::BitOf(pitot::Depth::kKernels);

// Callbacks that stay on: fatal errors, four of graphs, two of destruction. They cost nothing until that happens.
inline constexpr size_t kQuietCallbacks = 7;

// The answers of the process.
inline std::atomic<pitot::cupti::KinetoState> g_kineto{pitot::cupti::KinetoState::kAbsent};
inline std::atomic<pitot::cupti::CudaState> g_cuda{pitot::cupti::CudaState::kUntouched};
inline std::atomic<bool> g_has_recorded{false};

inline pitot::CuptiOptions SmallMemory() {
  pitot::CuptiOptions options;
  options.library = PITOT_FAKE_CUPTI;
  options.memory_bytes = 8 << 20;
  options.lasting_cost_percent = 100;  // Depths then depends only on CUPTI's owner
  const bool is_late = std::getenv("PITOT_FAKE_CUPTI_LATE") != nullptr;
  options.attach = is_late ? pitot::CuptiAttach::kWhenAsked : pitot::CuptiAttach::kAtStart;
  return options;
}

inline pitot::cupti::Environment Surroundings() {
  pitot::cupti::Environment environment = {{[]() noexcept { return g_kineto.load(); },
                                            []() noexcept { return g_cuda.load(); }, 100'000'000, &g_has_recorded}};
  // Long enough, however slow the machine is.
  environment.keep_patience_ns = environment.patience_ns = 60'000'000'000;
  return environment;
}

// Clocks that stand still until a test moves them, so the collector's readings are exact.
class FakeClocks {
 public:
  // At 0 ms, slightly in the future however slow the machine is: incidents have nothing from before the recorder.
  FakeClocks() {
    begin_ns_ = now_ns_ = pitot::base::ClockNs(CLOCK_MONOTONIC) + 2'000'000'000;
    ahead_ns_ = pitot::base::ClockNs(CLOCK_REALTIME) - now_ns_;
  }
  void SetMs(int64_t at_ms) { now_ns_ = begin_ns_ + at_ms * 1'000'000; }
  void StepBy(int64_t ns) { ahead_ns_ += ns; }
  // CUPTI's stamp for that time, by the present CLOCK_REALTIME.
  int64_t Stamp(int64_t at_ms) const { return begin_ns_ + at_ms * 1'000'000 + ahead_ns_; }
  // The CPU's counter counts nanoseconds.
  int64_t Cycles(int64_t at_ms) const { return kFirstCycle + at_ms * 1'000'000; }
  int64_t MsOf(int64_t monotonic_ns) const { return (monotonic_ns - begin_ns_) / 1'000'000; }
  // Reads them, for Environment.
  static pitot::cupti::ClockPair Read() noexcept {
    const int64_t ns = now_ns_;
    return {ns + ahead_ns_, ns, static_cast<uint64_t>(kFirstCycle + ns - begin_ns_)};
  }

 private:
  static constexpr int64_t kFirstCycle = 1'000'000'000'000;
  inline static std::atomic<int64_t> now_ns_, ahead_ns_, begin_ns_;
};

// A host with the fake CUDA.
struct GpuHost : session_test::Host {
  explicit GpuHost(const Generation& generation = kCupti13, const char* library = PITOT_FAKE_CUPTI)
      : cuda(*LoadFakeCupti(library)) {
    // A collector of a test with little patience must let go of CUPTI before it is replaced.
    WaitUntil([] { return !pitot::cupti::IsLeftBehind(); });
    cuda.Reset(generation);
    g_kineto = pitot::cupti::KinetoState::kAbsent;
    g_cuda = pitot::cupti::CudaState::kUntouched;
    g_has_recorded = false;
    cupti_options.library = library;
    options.depth = pitot::Depth::kScopes;  // the tests choose
    options.max_incidents_per_cause_and_hour = 1'000'000;
    options.pre_window_ms = 600'000;  // long enough, however slow the machine is
  }
  pitot::Status Add() {
    if (cupti_options.graph_level) cupti_options.attach = pitot::CuptiAttach::kAtStart;
    auto made = pitot::cupti::MakeCollector(cupti_options, environment);
    collector = made.get();
    return recorder.Add(std::move(made));
  }
  bool StartAt(pitot::Depth depth) {
    if (!Start() || !Add().ok()) return false;
    collector->SetDepth(depth);
    return true;
  }
  // Has everything decoded that CUPTI has.
  void Round() { collector->Keep(INT64_MAX, pitot::KeepFor::kSample); }
  pitot::model::Trace Incident() {
    REQUIRE(TriggerAndFlush());
    return traces().back();
  }

  FakeCupti& cuda;
  pitot::CuptiOptions cupti_options = SmallMemory();
  pitot::cupti::Environment environment = Surroundings();
  pitot::Collector* collector = nullptr;
};

// A host that soon notices missing buffers.
struct ImpatientHost : GpuHost {
  explicit ImpatientHost(uint64_t mebibytes) {
    environment.silence_ns = 50'000'000;
    // A size of no test before: otherwise the collector waits for buffers that the fake forgot.
    cupti_options.memory_bytes = mebibytes << 20;
  }
};

// The engine of a collector with so many buffers.
inline pitot::cupti::Engine* EngineOf(uint32_t buffers, const char* library = PITOT_FAKE_CUPTI) {
  pitot::cupti::Api api;
  pitot::cupti::Engine* engine = nullptr;
  REQUIRE(pitot::cupti::LoadCupti(library, &api).ok());
  REQUIRE(pitot::cupti::FindEngine(api, pitot::cupti::ProbeStrides(api), buffers, &engine).ok());
  return engine;
}

inline uint32_t CountNamed(const pitot::model::Trace& trace, std::string_view name) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < trace.gpu.size(); ++i) count += trace.strings[trace.gpu.name[i]] == name;
  return count;
}

inline bool HasLoss(const pitot::model::Trace& trace, std::string_view reason) {
  return std::any_of(trace.gpu_losses.begin(), trace.gpu_losses.end(),
                     [&](const auto& loss) { return trace.strings[loss.reason] == reason; });
}

inline uint32_t FindGraph(const pitot::model::Trace& trace) {
  const auto& kinds = trace.gpu.kind;
  const auto found = std::find(kinds.begin(), kinds.end(), pitot::model::GpuKind::kGraph);
  return found != kinds.end() ? static_cast<uint32_t>(found - kinds.begin()) : pitot::model::kNone;
}

inline uint32_t Find(const pitot::model::Trace& trace, std::string_view name) {
  for (uint32_t i = 0; i < trace.gpu.size(); ++i) {
    if (trace.strings[trace.gpu.name[i]] == name) return i;
  }
  return pitot::model::kNone;
}

// Number of lines with `part` in the host's log.
inline int64_t CountSaid(const session_test::Host& host, std::string_view part) {
  const auto lines = host.log.lines();
  return std::count_if(lines.begin(), lines.end(),
                       [&](const auto& line) { return line.text.find(part) != std::string::npos; });
}

// PyTorch's profiler begins and ends; it leaves on the kinds unknown to it.
inline void Profile(GpuHost& host) {
  host.cuda.Run({});
  g_kineto = pitot::cupti::KinetoState::kActive;
  host.Round();
  host.cuda.RegisterOther();
  host.cuda.Run({});
  g_kineto = pitot::cupti::KinetoState::kIdle;
  host.Round();
  host.Round();
}

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_CUPTI_RIG_H_
