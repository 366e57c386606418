// SPDX-License-Identifier: Apache-2.0
//
// The collector of CUDA calls, between libraries of a program and a fake runtime.
#include "collect/cuda_calls/collector.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/call_class.h"
#include "base/clock.h"
#include "collect/cuda_calls/fake_cudart.h"
#include "collect/cuda_calls/rig.h"
#include "fakes/child.h"
#include "fakes/trace_text.h"
#include "fakes/wait_until.h"
#include "trace/launch_hook.h"
#include "trace/profile_runs.h"

namespace {

using cuda_calls_test::Calls;
using cuda_calls_test::Names;
using cuda_calls_test::Pointer;
using cuda_calls_test::Rig;
using cuda_calls_test::Watched;
using fakes::Attribute;
using fakes::Caller;
using pitot::StatusCode;
namespace model = pitot::model;

constexpr int kToHost = 2;  // cudaMemcpyDeviceToHost

class Library {
 public:
  explicit Library(const char* path) : handle_(dlopen(path, RTLD_LAZY | RTLD_LOCAL)) {
    INFO((handle_ == nullptr ? dlerror() : ""));
    REQUIRE(handle_ != nullptr);
    caller = reinterpret_cast<Caller (*)()>(dlsym(handle_, "cuda_caller"))();
    *caller.result = 0;
    *caller.spins_ns = 0;
  }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  Caller caller{};

 private:
  void* const handle_;
};

// Records the calls of the hook.
struct Hooked {
  static void Before(pitot::trace::Launch* launch) noexcept {
    launch->is_taken = true;
    begun.push_back(*launch);
  }
  static void After(pitot::trace::Launch* launch, int result) noexcept {
    CHECK(launch->is_taken);
    results.push_back(result);
  }
  static void Copy() noexcept { ++copies; }
  static void Interrupt(pitot::trace::Interruption what) noexcept { interruptions.push_back(what); }
  Hooked() {
    begun.clear();
    results.clear();
    interruptions.clear();
    copies = 0;
    pitot::trace::g_launch_hook.store(&kHook);
  }
  ~Hooked() { pitot::trace::g_launch_hook.store(nullptr); }
  Hooked(const Hooked&) = delete;
  Hooked& operator=(const Hooked&) = delete;

  static constexpr pitot::trace::LaunchHook kHook = {Before, After, Copy, Interrupt};
  inline static std::vector<pitot::trace::Launch> begun;
  inline static std::vector<int> results;
  inline static std::vector<pitot::trace::Interruption> interruptions;
  inline static int copies = 0;
};

// Has the streams 6 and 8 of GPU 3.
struct Spans final : pitot::Collector {
  const char* Name() const noexcept override { return cuda_calls_test::kSpans; }
  pitot::Status Start() noexcept override { return {}; }
  void Stop() noexcept override {}
  void Keep(int64_t, pitot::KeepFor) noexcept override {}
  void AddTo(pitot::TraceBuilder& trace) override {
    pitot::GpuDevice device;
    device.ordinal = 3;
    const uint32_t row = trace.AddDevice(device);
    for (const uint32_t stream : {6u, 8u}) trace.AddStream(row, 1, stream);
  }
};

// "stream 6", "GPU 3" or "" for each call.
std::vector<std::string> Targets(const model::Trace& trace) {
  std::vector<std::string> targets;
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    const uint32_t stream = trace.calls.stream[call], device = trace.calls.device[call];
    targets.push_back(stream != model::kNone   ? "stream " + std::to_string(trace.streams[stream].stream)
                      : device != model::kNone ? "GPU " + std::to_string(trace.devices[device].ordinal)
                                               : "");
  }
  return targets;
}

}  // namespace

TEST_CASE("the hook of launches gets the kernel, its shape and its stream before the call, and the result after it",
          "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  CHECK_FALSE(pitot::trace::g_are_launches_seen.load());
  REQUIRE(rig.Add().ok());
  CHECK(pitot::trace::g_are_launches_seen.load());
  const Hooked hooked;
  *library.caller.result = 7;
  library.caller.launch(Pointer(11), {1, 2, 3}, {4, 5, 6}, nullptr, 512, Pointer(8));
  struct {
    unsigned grid[3] = {7, 8, 9}, block[3] = {10, 11, 12};
    size_t shared_bytes = 1024;
    void* stream = Pointer(9);
  } const config;
  library.caller.launch_ex(&config, Pointer(12), nullptr);
  library.caller.copy_async(nullptr, nullptr, 1, kToHost, nullptr);
  library.caller.launch_kernel(Pointer(13), {1, 2, 3}, {4, 5, 6}, nullptr, 0, nullptr);

  REQUIRE(Hooked::begun.size() == 3);
  CHECK(Hooked::results == std::vector<int>{7, 7, 7});
  CHECK(Hooked::begun[2].kernel == Pointer(13));
  CHECK(Hooked::begun[2].handle == pitot::trace::KernelHandle::kKernel);
  CHECK(Hooked::copies == 1);
  const pitot::trace::Launch &plain = Hooked::begun[0], &extended = Hooked::begun[1];
  CHECK(plain.kernel == Pointer(11));
  CHECK(plain.handle == pitot::trace::KernelHandle::kSymbol);
  CHECK(plain.original != nullptr);
  CHECK(plain.stream == Pointer(8));
  CHECK((plain.grid[0] == 1 && plain.grid[2] == 3 && plain.block[1] == 5 && plain.shared_bytes == 512));
  CHECK(extended.kernel == Pointer(12));
  CHECK(extended.handle == pitot::trace::KernelHandle::kSymbol);
  CHECK(extended.stream == Pointer(9));
  CHECK((extended.grid[0] == 7 && extended.block[2] == 12 && extended.shared_bytes == 1024));

  REQUIRE(rig.host.recorder.Pause("cuda_calls").ok());
  CHECK_FALSE(pitot::trace::g_are_launches_seen.load());
  library.caller.launch(Pointer(11), {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr);
  CHECK(Hooked::begun.size() == 3);
}

TEST_CASE("captures of graphs are counted, and the hook hears of each before it begins", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  REQUIRE(rig.Add().ok());
  library.caller.begin_capture(Pointer(8), 1);
  CHECK(library.caller.last->words[1] == 1);
  CHECK(pitot::trace::g_captures.load() == 1);
  {
    const Hooked hooked;
    *library.caller.result = 900;
    library.caller.begin_capture(Pointer(9), 0);
    CHECK(Hooked::interruptions == std::vector{pitot::trace::Interruption::kCapture});
    CHECK(pitot::trace::g_captures.load() == 1);  // the second was refused
  }
  *library.caller.result = 0;
  library.caller.end_capture(Pointer(8), nullptr);
  CHECK(pitot::trace::g_captures.load() == 0);
}

TEST_CASE("calls in which a thread waits are recorded with its request, whatever way their library is bound",
          "[cuda_calls]") {
  for (const char* path : {PITOT_LAZY_CALLER, PITOT_NOW_CALLER}) {
    const Library library(path);
    Rig rig;
    REQUIRE(rig.Add().ok());
    pitot::Request request = pitot::Request::Begin("/classify");
    CHECK(library.caller.synchronize(Pointer(0x50)) == 0);
    CHECK(library.caller.allocate(nullptr, 4096) == 0);
    CHECK(library.caller.compile(nullptr, 0, nullptr) == 0);
    const model::Trace trace = rig.Incident();

    INFO(path);
    CHECK(Calls(trace) == Names{"cudaStreamSynchronize", "cudaMalloc", "nvrtcCompileProgram"});
    REQUIRE(trace.calls.size() == 3);
    CHECK(trace.calls.request[0] != model::kNone);
    CHECK(Attribute(trace, "cuda_calls.libraries") != "");
    CHECK(Attribute(trace, "cuda_calls.not_recorded").empty());
  }
}

TEST_CASE("the runtime gets what the program passed, and the program what the runtime answered", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  REQUIRE(rig.Add().ok());
  const Caller& caller = library.caller;
  void* args[] = {nullptr};
  *caller.result = 719;
  CHECK(caller.launch(Pointer(1), {2, 0, 3}, {4, 0, 5}, args, 6, Pointer(7)) == 719);
  CHECK(std::string_view(caller.last->function) == "cudaLaunchKernel");
  const uintptr_t expected[] = {1, 2, 3, 4, 5, reinterpret_cast<uintptr_t>(args), 6, 7};
  CHECK(std::equal(std::begin(expected), std::end(expected), caller.last->words));
  CHECK(caller.copy_async(Pointer(1), Pointer(2), 3, kToHost, Pointer(5)) == 719);
  const uintptr_t copied[] = {1, 2, 3, kToHost, 5};
  CHECK(std::equal(std::begin(copied), std::end(copied), caller.last->words));
}

TEST_CASE("copies say their direction, and asynchronous ones are recorded only if they waited", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  {
    Rig rig;
    rig.options.slow_copy_us = 1'000'000;
    REQUIRE(rig.Add().ok());
    CHECK(library.caller.copy(nullptr, nullptr, 1, kToHost) == 0);
    CHECK(library.caller.copy_async(nullptr, nullptr, 1, 1, nullptr) == 0);
    CHECK(Calls(rig.Incident()) == Names{"cudaMemcpy DtoH"});
  }
  Rig rig;
  rig.options.slow_copy_us = 1;
  REQUIRE(rig.Add().ok());
  *library.caller.spins_ns = 100'000;
  CHECK(library.caller.copy_async(nullptr, nullptr, 1, 1, nullptr) == 0);
  CHECK(Calls(rig.Incident()) == Names{"cudaMemcpyAsync HtoD (blocking)"});
}

TEST_CASE("a wait for a stream or a device, and a copy that waited, say what they waited for", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  rig.options.slow_copy_us = 1;
  REQUIRE(rig.Add().ok());
  REQUIRE(rig.host.recorder.Add(std::make_unique<Spans>()).ok());
  const Watched watched;
  const Caller& caller = library.caller;
  void* memory = nullptr;
  *caller.spins_ns = 100'000;
  caller.synchronize(Pointer(6));
  caller.copy_async(nullptr, nullptr, 1, kToHost, Pointer(8));
  caller.synchronize_device();
  caller.synchronize(Pointer(9));  // has no row
  // These name no stream, or do not wait for it.
  caller.copy(nullptr, nullptr, 1, kToHost);
  caller.free(nullptr);
  caller.allocate_async(&memory, 8, Pointer(6));
  const model::Trace trace = rig.Incident();

  CHECK(Calls(trace) == Names{"cudaStreamSynchronize", "cudaMemcpyAsync DtoH (blocking)", "cudaDeviceSynchronize",
                              "cudaStreamSynchronize", "cudaMemcpy DtoH", "cudaFree", "cudaMallocAsync"});
  CHECK(Targets(trace) == Names{"stream 6", "stream 8", "GPU 3", "", "", "", ""});
}

TEST_CASE("a wait for an event has the stream that the event was recorded on last", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  REQUIRE(rig.Add().ok());
  REQUIRE(rig.host.recorder.Add(std::make_unique<Spans>()).ok());
  const Caller& caller = library.caller;
  {
    const Watched watched;
    caller.record_event(Pointer(101), Pointer(6));
    caller.record_event(Pointer(102), Pointer(6));
    caller.record_event(Pointer(102), Pointer(8));
    *caller.result = 1;
    caller.record_event(Pointer(102), Pointer(6));  // fails
    *caller.result = 0;
    caller.record_event(Pointer(103), Pointer(6));
    for (const uintptr_t event : {101, 102, 104}) caller.synchronize_event(Pointer(event));
    CHECK(Watched::waits.size() == 3);
    CHECK(Watched::streams.empty());
  }
  caller.record_event(Pointer(103), Pointer(8));  // nobody tells the number
  caller.synchronize_event(Pointer(103));
  const model::Trace trace = rig.Incident();

  CHECK(Calls(trace) == Names(4, "cudaEventSynchronize"));
  CHECK(Targets(trace) == Names{"stream 6", "stream 8", "", ""});
}

TEST_CASE("a later recording does not know the streams of events recorded before it", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  const Watched watched;
  for (const bool is_first : {true, false}) {
    Rig rig;
    REQUIRE(rig.Add().ok());
    REQUIRE(rig.host.recorder.Add(std::make_unique<Spans>()).ok());
    if (is_first) library.caller.record_event(Pointer(101), Pointer(6));
    library.caller.synchronize_event(Pointer(101));

    CHECK(Targets(rig.Incident()) == Names{is_first ? "stream 6" : ""});
  }
}

TEST_CASE("nobody asks for the stream of a launch, or of a copy that did not wait", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  rig.options.slow_copy_us = 1'000'000;
  REQUIRE(rig.Add().ok());
  const Watched watched;
  library.caller.launch(nullptr, {}, {}, nullptr, 0, Pointer(7));
  library.caller.copy_async(nullptr, nullptr, 1, kToHost, Pointer(8));

  CHECK(Watched::targets.empty());
}

TEST_CASE("an allocation from a pool is recorded only if it was slow, and is no launch", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  void* memory = nullptr;
  {
    Rig rig;
    rig.options.slow_copy_us = 1'000'000;
    REQUIRE(rig.Add().ok());
    {
      const auto batch = pitot::Batch::Begin("model");
      CHECK(library.caller.allocate_async(&memory, 8, nullptr) == 0);
    }
    const model::Trace trace = rig.Incident();
    CHECK(Calls(trace).empty());
    REQUIRE(trace.batches.size() == 1);
    CHECK(trace.batches[0].launches == 0);
  }
  Rig rig;
  rig.options.slow_copy_us = 1;
  REQUIRE(rig.Add().ok());
  *library.caller.spins_ns = 100'000;
  CHECK(library.caller.allocate_async(&memory, 8, nullptr) == 0);
  CHECK(Calls(rig.Incident()) == Names{"cudaMallocAsync"});
}

TEST_CASE("a library loaded later is found, and one that is unloaded harms nothing", "[cuda_calls]") {
  auto first = std::make_unique<Library>(PITOT_NOW_CALLER);
  Rig rig;
  REQUIRE(rig.Add().ok());
  first.reset();
  const Library later(PITOT_LAZY_CALLER);
  CHECK(fakes::WaitUntil([&] {
    CHECK(later.caller.synchronize(nullptr) == 0);
    return !Calls(rig.Incident()).empty();
  }));
}

TEST_CASE("a runtime that is loaded again and again is seen each time, and no library is kept loaded", "[cuda_calls]") {
  Rig rig;
  REQUIRE(rig.Add().ok());
  for (size_t i = 1; i <= 5; ++i) {
    const Library library(PITOT_LAZY_CALLER);
    CHECK(fakes::WaitUntil([&] {
      const size_t before = Calls(rig.Incident()).size();
      CHECK(library.caller.synchronize(nullptr) == 0);
      return Calls(rig.Incident()).size() == before + 1;
    }));
  }
  CHECK(dlopen(PITOT_LAZY_CALLER, RTLD_LAZY | RTLD_NOLOAD) == nullptr);
  CHECK(Attribute(rig.Incident(), "cuda_calls.entries_refused").empty());
}

TEST_CASE("two versions of the runtime in a process each get their own calls", "[cuda_calls]") {
  const Library one(PITOT_NOW_CALLER), other(PITOT_OTHER_CALLER);
  Rig rig;
  REQUIRE(rig.Add().ok());
  CHECK(one.caller.synchronize(Pointer(1)) == 0);
  CHECK(one.caller.last->version == 12);
  CHECK(other.caller.synchronize(Pointer(2)) == 0);
  CHECK(other.caller.last->version == 13);
  CHECK(Calls(rig.Incident()) == Names{"cudaStreamSynchronize", "cudaStreamSynchronize"});
}

TEST_CASE("launches are not recorded, but tell who watches streams", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  REQUIRE(rig.Add().ok());
  const Watched watched;
  const Caller& caller = library.caller;
  caller.launch(nullptr, {}, {}, nullptr, 0, Pointer(7));
  caller.launch_per_thread(nullptr, {}, {}, nullptr, 0, nullptr);
  struct {
    unsigned grid[3] = {}, block[3] = {};
    size_t shared_bytes = 0;
    void* stream = Pointer(9);
  } config;
  caller.launch_ex(&config, nullptr, nullptr);
  caller.copy_async(nullptr, nullptr, 0, 1, Pointer(8));
  caller.launch_graph(Pointer(11), Pointer(5));
  CHECK(Watched::streams == std::vector<void*>{Pointer(7), Pointer(2), Pointer(9), Pointer(8), Pointer(5)});
  CHECK(Watched::graphs == std::vector<void*>{Pointer(11)});
  caller.synchronize(Pointer(6));
  caller.free(nullptr);
  caller.destroy_stream(Pointer(7));
  CHECK(Watched::waits == std::vector<void*>{Pointer(6), pitot::trace::kNoStream});
  CHECK(Watched::destroyed == 1);
  CHECK(Calls(rig.Incident()) == Names{"cudaStreamSynchronize", "cudaFree"});
}

TEST_CASE("a batch has the number of its launches and their time, and none of them is recorded", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  rig.options.slow_copy_us = 1'000'000;
  REQUIRE(rig.Add().ok());
  const Caller& caller = library.caller;
  caller.launch(nullptr, {}, {}, nullptr, 0, nullptr);  // in no batch
  {
    pitot::Batch batch = pitot::Batch::Begin("net");
    *caller.spins_ns = 200'000;
    for (int i = 0; i < 3; ++i) caller.launch(nullptr, {}, {}, nullptr, 0, nullptr);
    caller.copy_async(nullptr, nullptr, 1, 1, nullptr);
    *caller.spins_ns = 0;
  }
  pitot::Batch::Begin("net").Finish();
  const model::Trace trace = rig.Incident();
  REQUIRE(trace.batches.size() == 2);
  CHECK(trace.batches[0].launches == 4);
  CHECK(trace.batches[0].launch_ns >= 800'000);
  CHECK(trace.batches[0].launch_ns <= trace.batches[0].duration_ns);
  CHECK(trace.batches[1].launches == 0);
  CHECK(trace.batches[1].launch_ns == 0);
  CHECK(Calls(trace).empty());
}

TEST_CASE("a slow launch is recorded, and counted without its time", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  rig.environment.slow_launch_ns = 100'000;
  REQUIRE(rig.Add().ok());
  {
    const auto batch = pitot::Batch::Begin("net");
    *library.caller.spins_ns = 100'000;
    library.caller.launch(nullptr, {}, {}, nullptr, 0, nullptr);
    *library.caller.spins_ns = 0;
  }
  const model::Trace trace = rig.Incident();
  CHECK(Calls(trace) == Names{"cudaLaunchKernel"});
  REQUIRE(trace.batches.size() == 1);
  CHECK(trace.batches[0].launches == 1);
  CHECK(trace.batches[0].launch_ns == 0);
  CHECK(trace.calls.batch[0] == 0);
}

TEST_CASE("a call for a kernel is recorded if it took long, as a load of code", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  rig.environment.slow_launch_ns = 100'000;
  REQUIRE(rig.Add().ok());
  void* kernel = nullptr;
  *library.caller.spins_ns = 100'000;
  CHECK(library.caller.get_kernel(&kernel, Pointer(7)) == 0);
  *library.caller.spins_ns = 0;
  CHECK(library.caller.last->words[1] == 7);
  const model::Trace trace = rig.Incident();
  REQUIRE(Calls(trace) == Names{"__cudaGetKernel (loading)"});
  CHECK(pitot::base::CallClassOf(Calls(trace)[0]) == pitot::base::CallClass::kLoad);
}

TEST_CASE("a call for a kernel that is there has no record", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  REQUIRE(rig.Add().ok());
  void* kernel = nullptr;
  CHECK(library.caller.get_kernel(&kernel, Pointer(7)) == 0);
  CHECK(Calls(rig.Incident()).empty());
}

TEST_CASE("after a stop, in a pause and in a forked child calls go through and are not recorded", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  REQUIRE(rig.Add().ok());
  REQUIRE(rig.host.recorder.Pause("cuda_calls").ok());
  CHECK(library.caller.synchronize(Pointer(3)) == 0);
  CHECK(library.caller.last->words[0] == 3);
  const model::Trace paused = rig.Incident();
  CHECK(Calls(paused).empty());
  CHECK(Attribute(paused, "cuda_calls.not_recorded").find("Recorder::Resume(\"cuda_calls\")") != std::string::npos);
  REQUIRE(rig.host.recorder.Resume("cuda_calls").ok());
  CHECK(library.caller.synchronize(nullptr) == 0);
  CHECK(Calls(rig.Incident()) == Names{"cudaStreamSynchronize"});
  CHECK(fakes::InChild([&] {
          const bool is_passed = library.caller.synchronize(Pointer(4)) == 0 && library.caller.last->words[0] == 4;
          return is_passed ? 0 : 1;
        }) == 0);
  rig.host.recorder.Stop();
  CHECK(library.caller.synchronize(Pointer(5)) == 0);
  CHECK(library.caller.last->words[0] == 5);
  // Another collector in the same process finds the tables changed already.
  REQUIRE(rig.host.Start());
  REQUIRE(rig.Add().ok());
  CHECK(library.caller.synchronize(nullptr) == 0);
  CHECK(Calls(rig.Incident()) == Names{"cudaStreamSynchronize"});
}

TEST_CASE("if no library imports functions of the loaded runtime, incidents say so", "[cuda_calls]") {
  const Library library(PITOT_NOW_CALLER);
  Rig rig;
  // This library is loaded, and nobody imports CUDA's functions from it. Entries that are bound already lead elsewhere.
  static constexpr std::string_view kOther[] = {"libm.so"};
  rig.environment.providers = kOther;
  rig.environment.functions = std::span<const pitot::cuda_calls::Function>();
  REQUIRE(rig.Add().ok());
  CHECK(library.caller.synchronize(nullptr) == 0);
  const model::Trace trace = rig.Incident();
  CHECK(Calls(trace).empty());
  CHECK(Attribute(trace, "cuda_calls.not_recorded").find("-cudart shared") != std::string::npos);
}

TEST_CASE("wrong options and a second collector are refused", "[cuda_calls]") {
  Rig rig;
  rig.options.slow_copy_us = 0;
  CHECK(rig.Add().code() == StatusCode::kInvalidArgument);
  rig.options.slow_copy_us = 1'000'001;
  CHECK(rig.Add().code() == StatusCode::kInvalidArgument);
  rig.options.slow_copy_us = 20;
  REQUIRE(rig.Add().ok());
  CHECK(rig.Add().code() == StatusCode::kAlreadyRunning);
}

TEST_CASE("an incident shows when kernels were profiled, also if that goes on", "[cuda_calls]") {
  Rig rig;
  REQUIRE(rig.Add().ok());
  { const pitot::trace::ProfileRun ended; }
  const pitot::trace::ProfileRun under_way;
  const model::Trace trace = rig.Incident();

  REQUIRE(trace.overheads.size() == 2);
  for (const model::OverheadRow& run : trace.overheads) {
    CHECK(trace.strings[run.name] == "profiling kernels");
    CHECK(run.begin_ns > trace.window_begin_ns);
    CHECK(run.duration_ns > 0);
  }
  CHECK(trace.overheads[0].begin_ns + trace.overheads[0].duration_ns <= trace.overheads[1].begin_ns);
  CHECK(trace.overheads[1].begin_ns + trace.overheads[1].duration_ns <= pitot::base::ClockNs(CLOCK_MONOTONIC));
  CHECK(Attribute(trace, "cuda_calls.profiles_left_out").empty());
}

TEST_CASE("an incident says that more profiles ran than it shows", "[cuda_calls]") {
  Rig rig;
  REQUIRE(rig.Add().ok());
  for (uint32_t i = 0; i <= pitot::trace::kMostProfileRuns; ++i) const pitot::trace::ProfileRun run;
  const model::Trace trace = rig.Incident();

  CHECK(trace.overheads.size() == pitot::trace::kMostProfileRuns);
  CHECK_FALSE(Attribute(trace, "cuda_calls.profiles_left_out").empty());
}
