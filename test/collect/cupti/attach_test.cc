// SPDX-License-Identifier: Apache-2.0
//
// When CUPTI is called for the first time: whoever has called it pays for it from then on.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

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

// Beside what the library says of itself.
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
    environment.look_ns = environment.between_looks_ns = 1;  // a round
  }
};

}  // namespace

TEST_CASE("CUPTI is not called before kernels are wanted", "[cupti]") {
  LazyHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  for (int i = 0; i < 3; ++i) host.cuda.Run({.name = "unseen"}), host.Round();
  CHECK(CallsThatBegin(host) == 0);
  CHECK(host.cuda.buffers_out() == 0);

  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "seen"});
  const auto trace = host.Incident();

  CHECK(CountNamed(trace, "unseen") == 0);
  CHECK(CountNamed(trace, "seen") == 1);
  CHECK(trace.gpu.call.size() == 1);
  CHECK(Attribute(trace, "cupti.calls") == "API callbacks");
  CHECK(Attribute(trace, "cupti.not_recorded").empty());
  CHECK(host.cuda.broken_rules().empty());
}

TEST_CASE("a recorder that stops without having wanted kernels has never called CUPTI", "[cupti]") {
  LazyHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK(host.recorder.PauseCupti().ok());
  CHECK(host.recorder.ResumeCupti().ok());
  host.recorder.Stop();
  CHECK(CallsThatBegin(host) == 0);
  // The next one finds it as if there had been none.
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "seen"});
  CHECK(CountNamed(host.Incident(), "seen") == 1);
}

TEST_CASE("at the automatic depth CUPTI is first called after the first incident", "[cupti]") {
  static std::atomic<int> rounds;
  rounds = 0;
  LazyHost host;
  host.environment.read_clocks = []() noexcept { return ++rounds, cupti::ReadClockPair(); };
  REQUIRE(host.StartAt(Depth::kScopes));
  REQUIRE(fakes::WaitUntil([&] { return host.collector->Depths() == 0 && rounds >= 5; }));
  CHECK(CallsThatBegin(host) == 0);
  CHECK_THAT(Attribute(host.Incident(), "cupti.not_recorded"),
             Catch::Contains("; to record kernels: wait for the next one, or CuptiOptions::attach_at_start") ||
                 Catch::Contains("not forecast yet"));  // it has been called meanwhile
  CHECK(fakes::WaitUntil([&] { return host.collector->Depths() == 0 && CallsThatBegin(host) > 0; }));
}

TEST_CASE("who asks for kernels whatever they leave behind has them without an incident", "[cupti]") {
  LazyHost host;
  host.cupti_options.lasting_cost_percent = 100;
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK(host.collector->Depths() == fakes::kDepths);
  CHECK(CallsThatBegin(host) == 0);
}

TEST_CASE("CUPTI is called at the start where later would be too late, or could not cost", "[cupti]") {
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

TEST_CASE("a CUPTI that refuses when it is called late is named in incidents and in the log", "[cupti]") {
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
}

TEST_CASE("where PyTorch's profiler runs when kernels are first wanted Pitot waits for its end", "[cupti]") {
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

TEST_CASE("a profile that nobody saw before CUPTI was first called hides nothing", "[cupti]") {
  LazyHost host;
  g_kineto = KinetoState::kUnused;
  REQUIRE(host.StartAt(Depth::kScopes));
  host.cuda.RegisterOther();
  g_kineto = KinetoState::kIdle;
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "after"});
  CHECK(CountNamed(host.Incident(), "after") == 1);
}

TEST_CASE("a pause ends what was ready, and CUPTI is called after it only where kernels are wanted", "[cupti]") {
  LazyHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  REQUIRE(host.recorder.PauseCupti().ok());
  host.collector->SetDepth(Depth::kKernels);
  CHECK(CallsThatBegin(host) == 0);
  REQUIRE(host.recorder.ResumeCupti().ok());
  host.cuda.Run({.name = "after"});
  CHECK(CountNamed(host.Incident(), "after") == 1);
}
