// SPDX-License-Identifier: Apache-2.0
//
// When CUPTI is called for the first time: from then on the process pays for it.
#include <dlfcn.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "collect/cupti/rig.h"
#include "fakes/child.h"

namespace {

namespace cupti = pitot::cupti;
using cupti::KinetoState;
using fakes::Attribute;
using fakes::CountNamed;
using fakes::CountSaid;
using fakes::g_kineto;
using fakes::GpuHost;
using pitot::CuptiAttach;
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
    cupti_options.attach = CuptiAttach::kWhenAsked;
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
  host.cupti_options.attach = CuptiAttach::kAtStart;
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK(host.collector->Depths() == 0);
  const auto trace = host.Incident();
  CHECK_THAT(Attribute(trace, "cupti.lasting_cost_forecast"), Catch::StartsWith("not known yet: no kernels"));
  CHECK(Attribute(trace, "cupti.lasting_cost").find("kernels were recorded") == std::string::npos);
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

TEST_CASE("at the automatic depth no function of CUPTI is ever called", "[cupti]") {
  LazyHost host;
  host.options.depth = Depth::kAuto;
  SECTION("by default") {}
  SECTION("whatever lasting cost is accepted") { host.cupti_options.lasting_cost_percent = 100; }
  SECTION("next to LibTorch") { g_kineto = KinetoState::kUnused; }
  SECTION("if PyTorch's profiler need not have CUPTI") { host.cupti_options.allow_torch_profiler = false; }
  SECTION("if a tool may have CUPTI") { setenv("CUDA_INJECTION64_PATH", "/nowhere/libtool.so", 1); }
  const bool has_started = host.Start() && host.Add().ok();
  unsetenv("CUDA_INJECTION64_PATH");
  REQUIRE(has_started);
  for (int i = 0; i < 3; ++i) {
    host.collector->Arm(true);
    host.cuda.Run({.name = "unseen"});
    CHECK(host.collector->Depths() == 0);
    host.collector->Keep(0, pitot::KeepFor::kSample);
    const auto trace = host.Incident();
    CHECK(Attribute(trace, "cupti.not_recorded") ==
          "CUPTI was not called, because this costs every launch for the life of the process; to record kernels: "
          "Recorder::SetDepth(pitot::Depth::kKernels), or CuptiOptions::attach = kAtStart");
    CHECK(trace.gpu.size() == 0);
    CHECK(host.recorder.Pause("cupti").ok());
    CHECK(host.recorder.Resume("cupti").ok());
    CHECK(host.recorder.SetDepth(Depth::kScopes).ok());
    CHECK(host.recorder.SetDepth(Depth::kAuto).ok());
  }
  CHECK(host.collector->HeldBytes() == 0);
  host.recorder.Stop();
  CHECK(host.cuda.calls() == 0);
}

TEST_CASE("libcupti is not opened before the host asks for kernels", "[cupti]") {
  LazyHost host;
  const std::string library = std::string(host.directory.path()) + "/libcupti_of_nobody.so";
  std::filesystem::copy_file(PITOT_FAKE_CUPTI, library);
  const auto is_open = [&] {
    void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
    return handle != nullptr && dlclose(handle) == 0;
  };
  host.cupti_options.library = library.c_str();
  host.options.depth = Depth::kAuto;
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  host.Incident();
  CHECK(host.recorder.Pause("cupti").ok());
  CHECK(host.recorder.Resume("cupti").ok());
  CHECK_FALSE(is_open());
  CHECK(host.recorder.SetDepth(Depth::kKernels).ok());
  CHECK(is_open());
}

TEST_CASE("a CUPTI that the host has asked for also serves the automatic depth", "[cupti]") {
  LazyHost host;
  host.options.depth = Depth::kAuto;
  host.cupti_options.lasting_cost_percent = 100;
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  CHECK(host.recorder.SetDepth(Depth::kKernels).ok());
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  CHECK(host.recorder.SetDepth(Depth::kAuto).ok());
  CHECK(host.collector->Depths() == fakes::kDepths);
}

TEST_CASE("a call of CUPTI put off for PyTorch's profiler is not made at the automatic depth", "[cupti]") {
  LazyHost host;
  host.environment.surroundings.long_idle_ns = int64_t{1} << 60;
  host.options.depth = Depth::kAuto;
  host.cupti_options.lasting_cost_percent = 100;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  CHECK(host.recorder.SetDepth(Depth::kKernels).ok());
  CHECK(host.recorder.SetDepth(Depth::kAuto).ok());
  g_kineto = KinetoState::kUnused;  // nothing is in the way any more
  host.Round();
  CHECK(host.collector->Depths() == 0);
  CHECK_THAT(Attribute(host.Incident(), "cupti.not_recorded"), Catch::StartsWith("CUPTI was not called"));
  CHECK(CallsThatBegin(host) == 0);
}

TEST_CASE("a collector that may never call CUPTI says so at any depth", "[cupti]") {
  LazyHost host;
  host.cupti_options.attach = CuptiAttach::kNever;
  host.options.depth = Depth::kKernels;
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  CHECK(host.recorder.SetDepth(Depth::kGraphs).ok());
  CHECK(host.recorder.Resume("cupti").ok());
  CHECK(Attribute(host.Incident(), "cupti.not_recorded") ==
        "CuptiOptions::attach is kNever; to record kernels: set it to kWhenAsked or kAtStart");
  CHECK(host.cuda.calls() == 0);
}

TEST_CASE("a libcupti missing when the host asks is named in incidents, and Resume tries again", "[cupti]") {
  LazyHost host;
  const std::string library = std::string(host.directory.path()) + "/libcupti_late.so";
  host.cupti_options.library = library.c_str();
  REQUIRE(host.StartAt(Depth::kKernels));
  CHECK_THAT(Attribute(host.Incident(), "cupti.not_recorded"),
             Catch::Contains("cannot load CUPTI") && Catch::EndsWith("name another in CuptiOptions::library"));
  CHECK(host.recorder.Resume("cupti").code() == pitot::StatusCode::kNotFound);
  std::filesystem::copy_file(PITOT_FAKE_CUPTI, library);
  CHECK(host.recorder.Resume("cupti").ok());
  CHECK(Attribute(host.Incident(), "cupti.not_recorded").find("cannot load") == std::string::npos);
}

TEST_CASE("a second collector asked for kernels names the first, and records once that has stopped", "[cupti]") {
  LazyHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  const auto first = cupti::MakeCollector(fakes::SmallMemory(), fakes::Surroundings());
  first->ExpectDepth(Depth::kKernels);
  REQUIRE(first->Start().ok());
  first->SetDepth(Depth::kKernels);
  host.collector->SetDepth(Depth::kKernels);
  CHECK(Attribute(host.Incident(), "cupti.not_recorded") ==
        "this process has a CUPTI collector already; to record kernels: call Recorder::Resume(\"cupti\")");
  first->Stop();
  CHECK(host.recorder.Resume("cupti").ok());
  host.cuda.Run({.name = "seen"});
  CHECK(CountNamed(host.Incident(), "seen") == 1);
}

TEST_CASE("the child of a fork does not begin to call CUPTI for its parent's collector", "[cupti]") {
  LazyHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  const int code = fakes::InChild([&] {
    host.collector->SetDepth(Depth::kKernels);
    host.collector->Keep(0, pitot::KeepFor::kIncident);
    if (host.collector->Resume().code() != pitot::StatusCode::kNotRunning) return 1;
    host.recorder.Stop();
    return host.cuda.calls() != 0 ? 2 : 0;
  });
  CHECK(code == 0);
}

TEST_CASE("options that contradict each other are refused before CUPTI is opened", "[cupti]") {
  LazyHost host;
  std::string named;
  SECTION("graphs as a whole, without a call at the start") {
    host.cupti_options.graph_level = true;
    named = "CuptiOptions::graph_level needs CuptiOptions::attach = kAtStart";
  }
  SECTION("no such time of the first call") {
    host.cupti_options.attach = static_cast<CuptiAttach>(7);
    named = "CuptiOptions::attach is 7";
  }
  REQUIRE(host.Start());
  const pitot::Status status = host.recorder.Add(cupti::MakeCollector(host.cupti_options, host.environment));
  CHECK(status.code() == pitot::StatusCode::kInvalidArgument);
  CHECK_THAT(status.message(), Catch::StartsWith(named));
  CHECK(host.cuda.calls() == 0);
}

TEST_CASE("Add calls CUPTI if the host says so, or has fixed a depth with kernels", "[cupti]") {
  LazyHost host;
  SECTION("the host says so") { host.cupti_options.attach = CuptiAttach::kAtStart; }
  SECTION("a depth with graphs") { host.options.depth = Depth::kGraphs; }
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  CHECK(CallsThatBegin(host) > 0);
}

TEST_CASE("a CUPTI that refuses a late call is named, and used again once nobody is in the way", "[cupti]") {
  LazyHost host;
  host.cuda.SubscribeOther("Nsight Systems");
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK_THAT(Attribute(host.Incident(), "cupti.not_recorded"), Catch::StartsWith("CUPTI was not called"));
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
  host.cupti_options.attach = CuptiAttach::kWhenAsked;
  host.environment.surroundings.long_idle_ns = 1'000'000'000;
  host.environment.read_clocks = []() noexcept {
    const cupti::ClockPair pair = cupti::ReadClockPair();
    last_ns = pair.monotonic_ns;
    return pair;
  };
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));  // put off: a profile may be about to begin
  host.collector->SetDepth(Depth::kScopes);
  const int64_t long_ns = pitot::base::ClockNs(CLOCK_MONOTONIC) + 2 * host.environment.surroundings.long_idle_ns;
  REQUIRE(fakes::WaitUntil([&] { return last_ns > long_ns; }));  // the thread rests
  g_kineto = KinetoState::kAbsent;
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
    host.cupti_options.attach = is_late ? CuptiAttach::kWhenAsked : CuptiAttach::kAtStart;
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

TEST_CASE("a depth fixed during a pause has CUPTI called by Resume", "[cupti]") {
  LazyHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  REQUIRE(host.recorder.Pause("cupti").ok());
  host.collector->SetDepth(Depth::kKernels);
  CHECK(Attribute(host.Incident(), "cupti.not_recorded") ==
        "paused by the host; to record kernels: call Recorder::Resume(\"cupti\")");
  CHECK(CallsThatBegin(host) == 0);
  REQUIRE(host.recorder.Resume("cupti").ok());
  host.cuda.Run({.name = "after"});
  CHECK(CountNamed(host.Incident(), "after") == 1);
}
