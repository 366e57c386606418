// SPDX-License-Identifier: Apache-2.0
//
// The collector next to PyTorch's profiler, and to others who take CUPTI.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "collect/cupti/rig.h"

namespace {

namespace cupti = pitot::cupti;
namespace model = pitot::model;
using cupti::CudaState;
using cupti::KinetoState;
using fakes::Attribute;
using fakes::CountNamed;
using fakes::Find;
using fakes::g_cuda;
using fakes::g_kineto;
using fakes::GpuHost;
using fakes::HasLoss;
using fakes::ImpatientHost;
using fakes::Profile;
using model::kNone;
using pitot::Depth;
using pitot::StatusCode;

}  // namespace

TEST_CASE("a stop or hand-over of CUPTI just after PyTorch's profiler has ended leaves nothing on", "[cupti]") {
  const bool stops = GENERATE(true, false);
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({});
  g_kineto = KinetoState::kActive;
  REQUIRE(fakes::WaitUntil([&] { return host.collector->Depths() == 0; }));
  REQUIRE(host.cuda.kinds_enabled() != 0);

  g_kineto = KinetoState::kIdle;
  if (stops)
    host.recorder.Stop();
  else
    CHECK(host.collector->Pause().ok());

  CHECK(host.cuda.kinds_enabled() == 0);
  CHECK(host.cuda.callbacks_enabled() == 0);
}

TEST_CASE("the host may hand CUPTI to another and take it back", "[cupti]") {
  GpuHost host;
  host.options.pre_window_ms = 2'000;  // earlier records soon leave it
  REQUIRE(host.StartAt(Depth::kKernels));
  REQUIRE(host.collector->Pause().ok());
  CHECK_FALSE(host.cuda.HasSubscriber());
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  CHECK(Attribute(host.Incident(), "cupti") == "paused by the host");
  CHECK(fakes::WaitUntil([&] {
    return Attribute(host.Incident(), "cupti.not_recorded") ==
           "paused by the host; to record kernels: call Recorder::Resume(\"cupti\")";
  }));
  host.cuda.RegisterOther();
  host.collector->SetDepth(Depth::kKernels);
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  REQUIRE(host.collector->Resume().ok());
  host.cuda.Run({.name = "after"});

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "after") == 1);
  CHECK(Attribute(trace, "cupti") == "");
}

TEST_CASE("nobody subscribes with LibTorch in the process, and calls are tied through records", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  CHECK_FALSE(host.cuda.HasSubscriber());
  {
    PITOT_SCOPE("forward");
    host.cuda.Run({.name = "gemm"});
  }
  const model::Trace trace = host.Incident();

  const uint32_t kernel = Find(trace, "gemm");
  REQUIRE(kernel != kNone);
  const uint32_t call = trace.gpu.call[kernel];
  REQUIRE(call != kNone);
  CHECK(trace.strings[trace.calls.name[call]] == "cudaLaunchKernel");
  REQUIRE(trace.calls.thread[call] != kNone);
  CHECK(trace.threads[trace.calls.thread[call]].tid == gettid());
  CHECK(Attribute(trace, "cupti.calls") == "API records");
}

TEST_CASE("a host that forgoes PyTorch's profiler has callbacks and the scopes of graphs next to LibTorch, too",
          "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  host.cupti_options.allow_torch_profiler = false;
  REQUIRE(host.StartAt(Depth::kKernels));
  CHECK(host.cuda.HasSubscriber());
  {
    PITOT_SCOPE("forward");
    host.cuda.CaptureNode(1);
  }
  host.cuda.Replay(host.cuda.Instantiate(1), "node");
  host.Round();
  CHECK(host.cuda.HasSubscriber());

  const model::Trace trace = host.Incident();

  const uint32_t node = Find(trace, "node");
  REQUIRE(node != kNone);
  CHECK(trace.strings[trace.gpu.scope_path[node]] == "forward");
  CHECK(Attribute(trace, "cupti.calls") == "API callbacks");
}

TEST_CASE("one record is kept of a runtime's call and the driver's inside it, with the work of both", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "first"});  // makes the context
  host.cuda.Run({.name = "of the runtime", .has_driver_call = true});
  host.cuda.Run({.name = "of the driver", .has_driver_call = true, .is_of_driver = true});

  const model::Trace trace = host.Incident();

  CHECK(model::FindInconsistency(trace) == "");
  CHECK(trace.calls.size() == 3);
  for (const char* const name : {"of the runtime", "of the driver"}) {
    INFO(name);
    const uint32_t kernel = Find(trace, name);
    REQUIRE(kernel != kNone);
    REQUIRE(trace.gpu.call[kernel] != kNone);
    CHECK(trace.strings[trace.calls.name[trace.gpu.call[kernel]]] == "cudaLaunchKernel");
  }
}

TEST_CASE("PyTorch's profiler gets CUPTI whole when it begins, and Pitot comes back when it ends", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  // Like Kineto: kinds, then callbacks.
  host.cuda.RegisterOther();
  g_kineto = KinetoState::kActive;
  host.collector->SetDepth(Depth::kScopes);
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  REQUIRE(fakes::WaitUntil([&] { return Attribute(host.Incident(), "cupti") != ""; }));
  CHECK(Attribute(host.Incident(), "cupti") == "stepped aside for PyTorch's profiler");
  host.cuda.Run({.name = "profiled"});
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  host.collector->SetDepth(Depth::kKernels);
  g_kineto = KinetoState::kIdle;
  REQUIRE(fakes::WaitUntil([&] {
    host.cuda.Run({.name = "after"});
    return CountNamed(host.Incident(), "after") != 0;
  }));

  const model::Trace trace = host.Incident();

  CHECK(Attribute(trace, "cupti") == "");
  CHECK(CountNamed(trace, "profiled") == 0);
}

TEST_CASE("an unseen profile of PyTorch's is made up for", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "before"});
  // As Kineto leaves it.
  host.cuda.RegisterOther();
  host.cuda.DisableAll();
  CHECK(fakes::WaitUntil([&] {
    host.cuda.Run({.name = "after"});
    return CountNamed(host.Incident(), "after") != 0;
  }));
}

TEST_CASE("an unseen profile is made up for at once when the depth rises, unless the profiler is about to begin",
          "[cupti]") {
  for (const bool is_long_idle : {true, false}) {
    GpuHost host;
    host.environment.surroundings.long_idle_ns = is_long_idle ? 0 : int64_t{1} << 60;
    g_kineto = KinetoState::kIdle;
    REQUIRE(host.StartAt(Depth::kScopes));
    host.cuda.Run({});
    REQUIRE(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == 0 && host.cuda.buffers_out() == 0; }));
    host.cuda.RegisterOther();
    host.collector->SetDepth(Depth::kKernels);
    host.cuda.Run({.name = "after"});
    host.cuda.Run({.name = "after"});
    CHECK(CountNamed(host.Incident(), "after") == (is_long_idle ? 2 : 0));
    CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  }
}

TEST_CASE("buffers taken while one is being filled are noticed, too", "[cupti]") {
  GpuHost host;
  host.environment.silence_ns = 50'000'000;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.is_running = true});
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.buffers_out() != 0; }));
  host.cuda.RegisterOther();
  CHECK(fakes::WaitUntil([&] {
    for (int i = 0; i < 100; ++i) host.cuda.Run({.name = "after"});
    return CountNamed(host.Incident(), "after") != 0;
  }));
}

TEST_CASE("calls are not taken all at once at the automatic depth if a profile begins and ends within a look",
          "[cupti]") {
  GpuHost host;
  host.cupti_options.lasting_cost_percent = 1;
  host.environment.look_ns = int64_t{1} << 60, host.environment.between_looks_ns = 1;  // one look, forever
  host.environment.surroundings.long_idle_ns = int64_t{1} << 60;
  g_kineto = KinetoState::kUnused;
  REQUIRE(host.StartAt(Depth::kScopes));
  host.collector->ExpectDepth(Depth::kAuto);
  host.collector->SetDepth(Depth::kScopes);
  host.cuda.Run({});
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == 0; }));
  REQUIRE(fakes::WaitUntil([&] {
    host.collector->Depths();  // as the governor asks, so that it looks
    return host.cuda.callbacks_enabled() != 0;
  }));
  Profile(host);
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kRuntime));
  CHECK(host.collector->Depths() == 0);
  // Nor if kernels were wanted until then; a host that fixes them has them.
  host.collector->SetDepth(Depth::kKernels);
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kRuntime));
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  host.collector->ExpectDepth(Depth::kKernels);
  host.collector->SetDepth(Depth::kKernels);
  CHECK(host.cuda.IsEnabled(cupti::kRuntime));
}

TEST_CASE("calls are not taken all at once at the automatic depth if LibTorch is loaded while kernels are recorded",
          "[cupti]") {
  GpuHost host;
  g_cuda = CudaState::kInUse;
  host.cupti_options.lasting_cost_percent = 20;
  REQUIRE(host.StartAt(Depth::kScopes));
  const bool is_governed = GENERATE(true, false);
  host.collector->ExpectDepth(is_governed ? Depth::kAuto : Depth::kKernels);
  host.collector->SetDepth(Depth::kKernels);
  REQUIRE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  g_kineto = KinetoState::kUnused;
  host.Round();
  CHECK(host.cuda.IsEnabled(cupti::kRuntime) != is_governed);
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel) != is_governed);
}

TEST_CASE("PyTorch's profiler is left alone while it begins for the first time", "[cupti]") {
  GpuHost host;
  host.environment.surroundings.long_idle_ns = int64_t{1} << 60;
  g_kineto = KinetoState::kUnused;
  REQUIRE(host.StartAt(Depth::kScopes));
  host.cuda.Run({});
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == 0 && host.cuda.buffers_out() == 0; }));
  host.cuda.RegisterOther();
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "profiled"});
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  CHECK(CountNamed(host.Incident(), "profiled") == 0);  // it went to the profiler
}

TEST_CASE("calls next to LibTorch are recorded from before CUDA is used, added after it was, and after a profile",
          "[cupti]") {
  const auto when = GENERATE(as<std::string>(), "before CUDA is used", "after it was", "after a profile",
                             "after a profile that nobody saw");
  INFO(when);
  GpuHost host;
  host.environment.surroundings.long_idle_ns = 0;
  g_kineto = KinetoState::kUnused;
  const bool is_late = when == "after it was";
  if (is_late) g_cuda = CudaState::kInUse, host.cuda.Run({.name = "first"});
  REQUIRE(host.StartAt(is_late ? Depth::kKernels : Depth::kScopes));
  if (!is_late) host.cuda.Run({.name = "first"});  // makes the context
  REQUIRE(fakes::WaitUntil([&] { return is_late || host.cuda.callbacks_enabled() == 0; }));
  if (when == "after a profile") Profile(host);
  if (when == "after a profile that nobody saw") host.cuda.RegisterOther(), g_kineto = KinetoState::kIdle;
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "of a call that is not kept", .api = "cudaGetDeviceCount"});
  host.cuda.Run({.name = "gemm"});

  const model::Trace trace = host.Incident();

  const uint32_t kernel = Find(trace, "gemm");
  REQUIRE(kernel != kNone);
  REQUIRE(trace.gpu.call[kernel] != kNone);
  CHECK(trace.strings[trace.calls.name[trace.gpu.call[kernel]]] == "cudaLaunchKernel");
  CHECK(Attribute(trace, "cupti.calls") == "API records");
  REQUIRE(Find(trace, "of a call that is not kept") != kNone);
  CHECK(trace.gpu.call[Find(trace, "of a call that is not kept")] == kNone);
  host.collector->SetDepth(Depth::kScopes);
  CHECK(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() + host.cuda.kinds_enabled() == 0; }));
}

TEST_CASE("calls are not kept if CUPTI does not leave them out of a whole kind", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;  // it has profiled
  REQUIRE(host.StartAt(Depth::kScopes));
  host.cuda.Refuse("cuptiActivityEnableRuntimeApi");
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "of a call that is not kept", .api = "cudaGetDeviceCount"});
  host.cuda.Run({.name = "gemm"});

  const model::Trace trace = host.Incident();

  REQUIRE(Find(trace, "gemm") != kNone);
  CHECK(trace.gpu.call[Find(trace, "gemm")] != kNone);
  CHECK(trace.calls.size() == 1);
}

TEST_CASE("a recorder started while PyTorch's profiler runs waits for it", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kActive;
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  host.collector->SetDepth(Depth::kKernels);
  for (const char* function : {"cuptiSubscribe", "cuptiActivityRegisterCallbacks", "cuptiActivityEnable"}) {
    INFO(function);
    CHECK(host.cuda.calls_of(function) == 0);
  }
  CHECK(Attribute(host.Incident(), "cupti") == "PyTorch's profiler has CUPTI");
  g_kineto = KinetoState::kIdle;
  CHECK(fakes::WaitUntil([&] { return host.cuda.IsEnabled(cupti::kConcurrentKernel); }));
}

TEST_CASE("LibTorch loaded later gets the subscription", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  CHECK(host.cuda.HasSubscriber());
  g_kineto = KinetoState::kIdle;
  // JIT is switched on last.
  REQUIRE(fakes::WaitUntil([&] { return !host.cuda.HasSubscriber() && host.cuda.IsEnabled(cupti::kJit); }));
  host.cuda.Run({.name = "gemm"});
  const model::Trace trace = host.Incident();
  REQUIRE(Find(trace, "gemm") != kNone);
  CHECK(trace.gpu.call[Find(trace, "gemm")] != kNone);
}

TEST_CASE("a subscriber left behind by LibTorch does not keep GPUs from being recorded", "[cupti]") {
  GpuHost host;
  host.cuda.SubscribeOther("");
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "gemm"});
  CHECK(CountNamed(host.Incident(), "gemm") == 1);
}

TEST_CASE("kinds left on by PyTorch's profiler are off again at the depth of scopes", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "first"});
  g_kineto = KinetoState::kActive;
  REQUIRE(fakes::WaitUntil([&] { return host.collector->Depths() == 0; }));
  host.collector->SetDepth(Depth::kScopes);
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  g_kineto = KinetoState::kIdle;
  CHECK(fakes::WaitUntil([&] { return !host.cuda.IsEnabled(cupti::kConcurrentKernel); }));
  CHECK(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == 0; }));
  const model::Trace trace = host.Incident();
  REQUIRE_FALSE(trace.gpu_losses.empty());
  CHECK(trace.strings[trace.gpu_losses[0].reason] == "PyTorch's profiler had CUPTI");
}

TEST_CASE("CUPTI is not taken back once the recorder has stopped", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  REQUIRE(host.recorder.Pause("cupti").ok());
  host.recorder.Stop();
  CHECK(host.recorder.Resume("cupti").code() == StatusCode::kNotRunning);
  CHECK_FALSE(host.cuda.HasSubscriber());
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
}

TEST_CASE("buffers taken by another profiler are noticed, reported and taken back", "[cupti]") {
  ImpatientHost host(9);
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "before"});
  REQUIRE(CountNamed(host.Incident(), "before") == 1);
  host.cuda.RegisterOther();
  for (int i = 0; i < 2000; ++i) host.cuda.Run({.name = "taken"});

  REQUIRE(fakes::WaitUntil([&] {
    for (int i = 0; i < 100; ++i) host.cuda.Run({.name = "after"});  // the other's buffer must be full once
    return CountNamed(host.Incident(), "after") != 0;
  }));
  CHECK(HasLoss(host.Incident(), "another profiler took the buffers"));
}

TEST_CASE("a host that only synchronises is not taken for one with stolen buffers", "[cupti]") {
  ImpatientHost host(10);
  host.environment.silence_ns = 0;  // each round asks whether somebody took them
  REQUIRE(host.StartAt(Depth::kKernels));
  for (int i = 0; i < 2000; ++i) host.cuda.Synchronize();
  for (int i = 0; i < 3; ++i) host.Round();

  const model::Trace trace = host.Incident();

  CHECK(trace.calls.size() == 2000);
  CHECK_FALSE(HasLoss(trace, "another profiler took the buffers"));
  CHECK(host.collector->Depths() == fakes::kDepths);
}

TEST_CASE("buffers of others are neither read nor freed", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "ours"});
  host.cuda.GiveForeign(4096);

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "ours") == 1);
  CHECK(Attribute(trace, "cupti.foreign_buffers") == "1");
  CHECK(Attribute(trace, "cupti.unreadable_bytes") == "");
}

TEST_CASE("records of calls that do not come, because CUDA was in use unseen, are not promised, and had otherwise",
          "[cupti]") {
  const bool is_late = GENERATE(true, false);
  GpuHost host;
  host.environment.silence_ns = 1'000'000;
  g_kineto = KinetoState::kUnused;
  g_cuda = CudaState::kInitialised;
  if (is_late) host.cuda.Run({});  // in a context not reported by the driver
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "gemm"});

  const model::Trace trace = host.Incident();

  REQUIRE(Find(trace, "gemm") != kNone);
  CHECK((trace.gpu.call[Find(trace, "gemm")] == kNone) == is_late);
  CHECK(Attribute(trace, "cupti.calls") == (is_late ? "not recorded" : "API records"));
  const std::string why = Attribute(trace, "cupti");
  CHECK((why.find("GPU work is not tied to requests") != std::string::npos) == is_late);
  CHECK(fakes::WaitUntil([&] {
    host.cuda.Run({.name = "later"});
    const model::Trace later = host.Incident();
    for (uint32_t row = 0; row < later.gpu.size(); ++row) {
      if (later.strings[later.gpu.name[row]] == "later" && later.gpu.call[row] != kNone) return true;
    }
    return false;
  }));
}
