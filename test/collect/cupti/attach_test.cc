// SPDX-License-Identifier: Apache-2.0
//
// When CUPTI is called for the first time: from then on the process pays for it.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <thread>

#include "collect/cupti/rig.h"

namespace {

namespace cupti = pitot::cupti;
using cupti::KinetoState;
using fakes::Attribute;
using fakes::CountNamed;
using fakes::CountSaid;
using fakes::g_has_driver;
using fakes::g_kineto;
using fakes::GpuHost;
using pitot::Depth;

// Calls other than the library's answers about itself.
int CallsThatBegin(const GpuHost& host) {
  int calls = 0;
  for (const char* function :
       {"cuptiSubscribe", "cuptiSubscribe_v2", "cuptiUnsubscribe", "cuptiEnableCallback", "cuptiActivityEnable",
        "cuptiActivityDisable", "cuptiActivityEnableRuntimeApi", "cuptiActivityEnableDriverApi",
        "cuptiActivityRegisterCallbacks", "cuptiActivityFlushAll", "cuptiActivitySetAttribute",
        "cuptiActivityGetNumDroppedRecords", "cuptiSetThreadIdType"})
    calls += host.cuda.calls_of(function);
  return calls;
}

struct LazyHost : GpuHost {
  LazyHost() {
    cupti_options.attach_at_start = false;
    cupti_options.lasting_cost_percent = 1;
    environment.look_ns = environment.between_looks_ns = 1;  // a look lasts one round
  }
};

}  // namespace

TEST_CASE("CUPTI is not called before kernels are wanted", "[cupti]") {
  LazyHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  for (int i = 0; i < 3; ++i) host.cuda.Run({.name = "unseen"}), host.Round();
  CHECK(CallsThatBegin(host) == 0);
  CHECK(host.cuda.buffers_out() == 0);
  CHECK(Attribute(host.Incident(), "cupti.lasting_cost").empty());

  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "seen"});
  const auto trace = host.Incident();

  CHECK(CountNamed(trace, "unseen") == 0);
  CHECK(CountNamed(trace, "seen") == 1);
  CHECK(trace.gpu.call.size() == 1);
  CHECK(Attribute(trace, "cupti.calls") == "API callbacks");
  CHECK(Attribute(trace, "cupti.not_recorded").empty());
  CHECK_THAT(Attribute(trace, "cupti.lasting_cost"),
             Catch::Contains("CUPTI was called: this costs for the life of the process"));
  CHECK(host.cuda.broken_rules().empty());
}

TEST_CASE("the call of CUPTI is reported as a lasting cost though no kernel was recorded", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK_THAT(Attribute(host.Incident(), "cupti.lasting_cost"), Catch::StartsWith("CUPTI was called"));
}

TEST_CASE("a forecast is not reported as a lasting cost", "[cupti]") {
  LazyHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK(host.collector->Depths() == 0);
  host.Round();  // before any incident: CUPTI is not called
  const auto trace = host.Incident();
  CHECK(CallsThatBegin(host) == 0);
  CHECK_THAT(Attribute(trace, "cupti.lasting_cost_forecast"), Catch::StartsWith("not known yet: no kernels"));
  CHECK(Attribute(trace, "cupti.lasting_cost").empty());
}

TEST_CASE("a recorder that never wanted kernels has never called CUPTI", "[cupti]") {
  LazyHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK(host.recorder.Pause("cupti").ok());
  CHECK(host.recorder.Resume("cupti").ok());
  host.recorder.Stop();
  CHECK(CallsThatBegin(host) == 0);
  // The next one finds it untouched.
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "seen"});
  CHECK(CountNamed(host.Incident(), "seen") == 1);
}

TEST_CASE("CUPTI is first called after the first incident at the automatic depth", "[cupti]") {
  static std::atomic<int> rounds;
  rounds = 0;
  LazyHost host;
  host.environment.read_clocks = []() noexcept { return ++rounds, cupti::ReadClockPair(); };
  REQUIRE(host.StartAt(Depth::kScopes));
  host.collector->Keep(0, pitot::KeepFor::kSample);  // a sample is not an incident
  rounds = 0;
  REQUIRE(fakes::WaitUntil([&] { return host.collector->Depths() == 0 && rounds >= 5; }));
  CHECK(CallsThatBegin(host) == 0);
  CHECK_THAT(Attribute(host.Incident(), "cupti.not_recorded"),
             Catch::Contains("; to record kernels: wait for the next one, or set CuptiOptions::attach_at_start") ||
                 Catch::Contains("not forecast yet"));  // it has been called meanwhile
  CHECK(fakes::WaitUntil([&] { return host.collector->Depths() == 0 && CallsThatBegin(host) > 0; }));
}

TEST_CASE("a host that accepts any lasting cost has kernels without an incident", "[cupti]") {
  LazyHost host;
  host.cupti_options.lasting_cost_percent = 100;
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK(host.collector->Depths() == fakes::kDepths);
  CHECK(CallsThatBegin(host) == 0);
}

TEST_CASE("CUPTI is called at the start if later would be too late, or could not cost", "[cupti]") {
  LazyHost host;
  SECTION("the host asks for it") { host.cupti_options.attach_at_start = true; }
  SECTION("graphs as a whole") { host.cupti_options.graph_level = true; }
  SECTION("the scopes of graphs' nodes") { host.cupti_options.allow_torch_profiler = false; }
  SECTION("there is no driver") { g_has_driver = false; }
  SECTION("a tool may have it") { setenv("CUDA_INJECTION64_PATH", "/nowhere/libtool.so", 1); }
  const bool has_begun = host.StartAt(Depth::kScopes) && CallsThatBegin(host) > 0;
  unsetenv("CUDA_INJECTION64_PATH");
  CHECK(has_begun);
}

TEST_CASE("a CUPTI that refuses a late call is named, and used again once nobody is in the way", "[cupti]") {
  LazyHost host;
  host.cuda.SubscribeOther("Nsight Systems");
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK(Attribute(host.Incident(), "cupti.not_recorded").empty());
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({});
  const auto trace = host.Incident();
  CHECK(trace.gpu.size() == 0);
  CHECK_THAT(Attribute(trace, "cupti.not_recorded"),
             Catch::StartsWith("another tool has CUPTI") && Catch::EndsWith("; to record kernels: run without it"));
  CHECK(CountSaid(host, "another tool has CUPTI") == 1);
  CHECK(host.collector->Depths() == 0);
  CHECK_FALSE(host.recorder.Resume("cupti").ok());
  host.cuda.UnsubscribeOther();
  CHECK(host.recorder.Resume("cupti").ok());
  host.cuda.Run({.name = "after"});
  CHECK(CountNamed(host.Incident(), "after") == 1);
}

TEST_CASE("Add reports CUPTI's refusal if the host has fixed a depth", "[cupti]") {
  LazyHost host;
  host.options.depth = Depth::kKernels;
  host.cuda.SubscribeOther("Nsight Systems");
  REQUIRE(host.Start());
  const pitot::Status status = host.Add();
  CHECK(status.code() == pitot::StatusCode::kUnavailable);
  CHECK_THAT(status.message(), Catch::Contains("another tool has CUPTI"));
}

TEST_CASE("a slow first call of CUPTI is not a hang", "[cupti]") {
  LazyHost host;
  host.environment.patience_ns = host.environment.keep_patience_ns = 50'000'000;
  REQUIRE(host.StartAt(Depth::kScopes));
  host.cuda.HangIn("cuptiSubscribe");
  std::thread caller([&] { host.collector->SetDepth(Depth::kKernels); });
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.is_hanging(); }));
  // Longer than any later call may take.
  const int64_t until_ns = pitot::base::ClockNs(CLOCK_MONOTONIC) + 3 * host.environment.patience_ns;
  REQUIRE(fakes::WaitUntil([&] { return pitot::base::ClockNs(CLOCK_MONOTONIC) >= until_ns; }));
  CHECK(Attribute(host.Incident(), "cupti.not_recorded").empty());
  host.cuda.HangIn("");
  caller.join();  // SetDepth has waited for it
  host.cuda.Run({.name = "first"});
  CHECK(fakes::WaitUntil([&] { return CountNamed(host.Incident(), "first") == 1; }));
}

TEST_CASE("buffers out with an earlier collector are awaited from the first call of CUPTI on", "[cupti]") {
  GpuHost host;
  host.cupti_options.memory_bytes = 27 << 20;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Refuse("cuptiActivityFlushAll");
  host.cuda.Run({});
  host.recorder.Stop();
  host.cuda.Refuse("");
  static std::atomic<int64_t> last_ns;
  last_ns = 0;
  host.cupti_options.attach_at_start = false;
  host.environment.surroundings.long_idle_ns = 1'000'000'000;
  host.environment.read_clocks = []() noexcept {
    const cupti::ClockPair pair = cupti::ReadClockPair();
    last_ns = pair.monotonic_ns;
    return pair;
  };
  REQUIRE(host.StartAt(Depth::kScopes));
  const int64_t long_ns = pitot::base::ClockNs(CLOCK_MONOTONIC) + 2 * host.environment.surroundings.long_idle_ns;
  REQUIRE(fakes::WaitUntil([&] { return last_ns > long_ns; }));  // the thread rests
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "after"});
  const auto trace = host.Incident();
  CHECK(CountNamed(trace, "after") == 1);
  CHECK(Attribute(trace, "cupti.foreign_buffers").empty());
  CHECK(trace.gpu_losses.empty());
}

TEST_CASE("CUDA is asked whether it is in use when CUPTI is first called", "[cupti]") {
  LazyHost host;
  g_kineto = KinetoState::kUnused;
  REQUIRE(host.StartAt(Depth::kScopes));
  fakes::g_cuda = cupti::CudaState::kInUse;
  host.collector->SetDepth(Depth::kKernels);
  // Single calls no longer get records: whole kinds.
  CHECK(host.cuda.IsEnabled(cupti::kRuntime));
}

TEST_CASE("graphs captured before CUPTI was first called are reported to carry no scopes", "[cupti]") {
  for (const bool is_late : {false, true}) {
    LazyHost host;
    host.cupti_options.attach_at_start = !is_late;
    REQUIRE(host.StartAt(Depth::kScopes));
    const uint32_t graph = host.cuda.Instantiate(3);
    host.collector->SetDepth(Depth::kKernels);
    host.cuda.Replay(graph, "node");
    const auto trace = host.Incident();
    CHECK(CountNamed(trace, "node") == 3);
    CHECK((Attribute(trace, "cupti").find("captured before CUPTI was first called") != std::string::npos) == is_late);
  }
}

TEST_CASE("Pitot waits for the end of PyTorch's profiler if that runs when kernels are first wanted", "[cupti]") {
  LazyHost host;
  g_kineto = KinetoState::kUnused;
  REQUIRE(host.StartAt(Depth::kScopes));
  g_kineto = KinetoState::kActive;
  host.Round();
  CHECK(CallsThatBegin(host) == 0);
  host.collector->SetDepth(Depth::kKernels);
  CHECK(CallsThatBegin(host) == 0);
  CHECK_THAT(Attribute(host.Incident(), "cupti.not_recorded"), Catch::StartsWith("PyTorch's profiler has CUPTI"));
  g_kineto = KinetoState::kIdle;
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.IsEnabled(cupti::kConcurrentKernel); }));
  host.cuda.Run({.name = "after"});
  CHECK(CountNamed(host.Incident(), "after") == 1);
}

TEST_CASE("a profile possibly about to begin keeps its buffers, and Pitot begins when it is long idle", "[cupti]") {
  LazyHost host;
  host.environment.surroundings.long_idle_ns = int64_t{1} << 60;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kScopes));
  host.cuda.RegisterOther();  // without saying so yet
  host.collector->SetDepth(Depth::kKernels);
  CHECK(CallsThatBegin(host) == 0);
  CHECK_THAT(Attribute(host.Incident(), "cupti.not_recorded"),
             Catch::StartsWith("PyTorch's profiler has profiled") && Catch::EndsWith("was idle for 10 s"));
  host.collector->SetDepth(Depth::kScopes);
  CHECK(Attribute(host.Incident(), "cupti.not_recorded").empty());
  host.recorder.Stop();

  host.environment.surroundings.long_idle_ns = 100'000'000;
  REQUIRE(host.StartAt(Depth::kScopes));
  host.collector->SetDepth(Depth::kKernels);
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.IsEnabled(cupti::kConcurrentKernel); }));
  host.cuda.Run({.name = "after"});
  CHECK(CountNamed(host.Incident(), "after") == 1);
}

TEST_CASE("a look ordered while paused does not call CUPTI without an incident", "[cupti]") {
  static std::atomic<int> rounds;
  rounds = 0;
  LazyHost host;
  host.environment.read_clocks = []() noexcept { return ++rounds, cupti::ReadClockPair(); };
  REQUIRE(host.StartAt(Depth::kScopes));
  const auto rest = [&] {
    const int until = rounds + 4;
    REQUIRE(fakes::WaitUntil([&] { return host.collector->Depths() == 0 && rounds >= until; }));
  };
  REQUIRE(host.recorder.Pause("cupti").ok());
  rest();
  REQUIRE(host.recorder.Resume("cupti").ok());
  rest();
  CHECK(CallsThatBegin(host) == 0);
}

TEST_CASE("a pause ends readiness, and CUPTI is called after it only if kernels are wanted", "[cupti]") {
  LazyHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  REQUIRE(host.recorder.Pause("cupti").ok());
  host.collector->SetDepth(Depth::kKernels);
  CHECK(CallsThatBegin(host) == 0);
  REQUIRE(host.recorder.Resume("cupti").ok());
  host.cuda.Run({.name = "after"});
  CHECK(CountNamed(host.Incident(), "after") == 1);
}
