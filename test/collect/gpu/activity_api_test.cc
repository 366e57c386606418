// SPDX-License-Identifier: Apache-2.0
//
// The default set in a process with a GPU. It samples counters, times layers and sees waits. It calls nothing of
// CUPTI's activity and callback API. The stand-in for CUPTI has all of this API next to PM sampling, and counts every
// call.
#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "collect/counters/fake_pm.h"
#include "collect/cuda_calls/fake_cudart.h"
#include "collect/cuda_events/fake_cuda.h"
#include "collect/cupti/fake_cupti.h"
#include "fakes/trace_text.h"
#include "fakes/wait_until.h"
#include "pitot/collect/cupti.h"
#include "pitot/collect/gpu.h"
#include "session/host.h"

namespace {

using fakes::Attribute;
using pitot::Depth;
using pitot::model::GpuKind;
using pitot::model::Trace;

// For the whole process: a call by RTLD_DEFAULT reaches it, too.
void* WholeCupti() {
  static void* const library = dlopen(PITOT_WHOLE_CUPTI, RTLD_NOW | RTLD_GLOBAL);
  REQUIRE(library != nullptr);
  return library;
}
template <class Function> Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}
fakes::Caller LoadCaller() {
  void* const library = dlopen(PITOT_DEFAULT_CALLER, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  return Find<fakes::Caller (*)()>(library, "cuda_caller")();
}

// A server with a GPU, for evidence of each kind.
struct Server : session_test::Host {
  Server() {
    pm.Reset();
    cupti.Reset(fakes::kCupti13);
    cuda.Reset();
    cuda.MakeContext();
    stream = cuda.MakeStream();
    options.depth = Depth::kAuto;
    options.pre_window_ms = 600'000;  // long enough, however slow the machine is
  }
  bool StartDefaults() {
    pitot::GpuOptions gpu;
    gpu.counters.library = PITOT_WHOLE_CUPTI;
    gpu.nvml.library = PITOT_TEST_FAKE_NVML;
    return Start() && pitot::gpu::Enable(recorder, gpu).ok();
  }
  uint64_t Decoded() {
    const std::lock_guard lock(pm.mutex);
    return pm.calls_of["cuptiPmSamplingDecodeData"];
  }
  // Works for a request, until there is evidence of each kind.
  Trace Serve() {
    const uint64_t decoded = Decoded();
    {
      const auto request = pitot::Request::Begin("/warm_up");  // counters rest without one
      REQUIRE(fakes::WaitUntil([&] { return Decoded() >= decoded + 2; }));
    }
    Trace trace;
    REQUIRE(fakes::WaitUntil([&] {
      {
        auto request = pitot::Request::Begin("/infer");
        auto batch = pitot::Batch::Begin("net");
        batch.Join(request.token());
        const pitot::CudaEventScope layer(stream, "layer");
        caller.launch(nullptr, {1, 1, 1}, {1, 1, 1}, nullptr, 0, stream);
        cuda.Enqueue(stream, 1'000'000);
        caller.synchronize(stream);
      }
      REQUIRE(TriggerAndFlush());
      trace = traces().back();
      return Spans(trace, "layer") != 0 && Spans(trace, "net") != 0;
    }));
    return trace;
  }
  static int Spans(const Trace& trace, std::string_view name) {
    int count = 0;
    for (uint32_t row = 0; row < trace.gpu.size(); ++row)
      count += trace.gpu.kind[row] == GpuKind::kSpan && trace.strings[trace.gpu.name[row]] == name;
    return count;
  }
  static bool HasWait(const Trace& trace) {
    for (const pitot::model::StringId name : trace.calls.name)
      if (trace.strings[name] == "cudaStreamSynchronize") return true;
    return false;
  }
  // Calls of the activity and callback API since the start. The version belongs to neither.
  int ActivityCalls() const {
    return cupti.calls() - cupti.calls_of("cuptiGetVersion") + rest_of_calls() - rest_before;
  }

  fakes::FakePm& pm = *Find<fakes::FakePm* (*)()>(WholeCupti(), "fake_pm")();
  fakes::FakeCupti& cupti = *Find<fakes::FakeCupti* (*)()>(WholeCupti(), "fake_cupti")();
  int (*const rest_of_calls)() = Find<int (*)()>(WholeCupti(), "rest_of_cupti_calls");
  const int rest_before = rest_of_calls();
  fakes::FakeCuda& cuda = *fakes::LoadFakeCuda(PITOT_WHOLE_CUDA);
  const fakes::Caller caller = LoadCaller();
  void* stream = nullptr;
};

constexpr const char* kCollectors[] = {"counters", "cuda_calls", "cuda_events", "nvml", "cupti"};

// Evidence of each kind, before and after a pause.
void UseDefaults(Server& server) {
  for (const bool was_paused : {false, true}) {
    INFO("after a pause: " << was_paused);
    const Trace trace = server.Serve();
    CHECK(Attribute(trace, "counters.0.not_recorded") == "");
    CHECK(Attribute(trace, "counters.0.interval_us") == "4000");
    CHECK(Server::HasWait(trace));
    for (const char* collector : kCollectors) server.recorder.Pause(collector);
    CHECK(server.TriggerAndFlush());
    for (const char* collector : kCollectors) server.recorder.Resume(collector);
  }
}

}  // namespace

TEST_CASE("the default set calls nothing of CUPTI's activity and callback API, whatever the depth", "[gpu]") {
  Server server;
  REQUIRE(server.StartDefaults());
  UseDefaults(server);
  for (const Depth depth : {Depth::kScopes, Depth::kGraphs, Depth::kKernels, Depth::kAuto}) {
    CHECK(server.recorder.SetDepth(depth).ok());
    server.Serve();
  }
  server.recorder.Stop();
  CHECK(server.ActivityCalls() == 0);
  CHECK(server.pm.calls_of["cuptiPmSamplingStart"] > 0);
  CHECK(server.pm.calls_of["cuptiPmSamplingDisable"] > 0);
}

TEST_CASE("the CUPTI collector next to the default set calls that API only from a fixed depth on", "[gpu]") {
  Server server;
  REQUIRE(server.StartDefaults());
  pitot::CuptiOptions cupti;
  cupti.library = PITOT_WHOLE_CUPTI;
  REQUIRE(server.recorder.Add(pitot::MakeCuptiCollector(cupti)).ok());
  UseDefaults(server);
  CHECK(server.recorder.SetDepth(Depth::kScopes).ok());
  CHECK(server.recorder.SetDepth(Depth::kAuto).ok());
  server.Serve();
  CHECK(server.ActivityCalls() == 0);

  CHECK(server.recorder.SetDepth(Depth::kKernels).ok());
  CHECK(server.ActivityCalls() > 0);
  CHECK(server.cupti.calls_of("cuptiActivityRegisterCallbacks") > 0);
}

TEST_CASE("the stand-in for CUPTI counts each function of that API", "[gpu]") {
  const Server server;
  int calls = 0;
  for (const char* name : {"cuptiFinalize", "cuptiEnableDomain", "cuptiActivityFlush"}) {
    INFO(name);
    const auto function = Find<int (*)()>(RTLD_DEFAULT, name);
    REQUIRE(function != nullptr);
    function();
    CHECK(server.ActivityCalls() == ++calls);
  }
  const auto enable = Find<int (*)(uint32_t)>(RTLD_DEFAULT, "cuptiActivityEnable");
  REQUIRE(enable != nullptr);
  enable(3);
  CHECK(server.ActivityCalls() == ++calls);
}

TEST_CASE("the stand-in for CUPTI has every function that the libraries of Pitot know", "[gpu]") {
  std::set<std::string> names;
  for (void* const function :
       {reinterpret_cast<void*>(&pitot::MakeCuptiCollector), reinterpret_cast<void*>(&pitot::MakeCounterCollector)}) {
    Dl_info info{};
    REQUIRE(dladdr(function, &info) != 0);
    std::ifstream file(info.dli_fname, std::ios::binary);
    const std::string content(std::istreambuf_iterator<char>(file), {});
    const std::string begin("\0cupti", 6);  // of a text
    for (size_t at = content.find(begin); at != std::string::npos; at = content.find(begin, at + 1)) {
      const std::string name = content.c_str() + at + 1;
      const auto is_of_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
      const bool is_function = std::isupper(static_cast<unsigned char>(name[5])) != 0;
      if (is_function && std::all_of(name.begin(), name.end(), is_of_name)) names.insert(name);
    }
  }
  // Written in two parts, so that this test does not find its own.
  CHECK(names.count(std::string("cup") + "tiActivityGetNextRecord") == 1);
  CHECK(names.count(std::string("cup") + "tiPmSamplingSetConfig") == 1);
  for (const std::string& name : names) {
    INFO(name);
    CHECK(dlsym(WholeCupti(), name.c_str()) != nullptr);
  }
}
