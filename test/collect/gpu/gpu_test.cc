// SPDX-License-Identifier: Apache-2.0
//
// The default set of collectors for GPUs. No test needs a GPU, and none fails with one.
#include "pitot/collect/gpu.h"

#include <dlfcn.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fakes/child.h"
#include "fakes/fork_patience.h"
#include "fakes/scale.h"
#include "session/host.h"

namespace {

std::atomic<const char*> g_nvml{nullptr};  // opened in place of the machine's NVML

}  // namespace

extern "C" void* dlopen(const char* file, int mode) noexcept {
  static const auto next = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  const char* const nvml = g_nvml.load();
  const bool is_nvml = nvml != nullptr && file != nullptr && std::strcmp(file, "libnvidia-ml.so.1") == 0;
  return next(is_nvml ? nvml : file, mode);
}

namespace {

// The machine has this NVML, until the end of the scope.
struct NvmlOfMachine {
  explicit NvmlOfMachine(const char* file) { g_nvml.store(file); }
  NvmlOfMachine(const NvmlOfMachine&) = delete;
  NvmlOfMachine& operator=(const NvmlOfMachine&) = delete;
  ~NvmlOfMachine() { g_nvml.store(nullptr); }
};

using pitot::GpuOptions;
using pitot::Status;
using pitot::StatusCode;

// With an NVML that works.
GpuOptions WithNvml() {
  GpuOptions options;
  options.nvml.library = PITOT_TEST_FAKE_NVML;
  return options;
}

// A status of kAlreadyRunning shows that the collector is there.
StatusCode AddAgain(session_test::Host& host, bool counters, bool events, bool nvml, bool calls = false) {
  GpuOptions options = WithNvml();
  options.with_counters = counters, options.with_cuda_events = events, options.with_nvml = nvml;
  options.with_cuda_calls = calls;
  return pitot::gpu::Enable(host.recorder, options).code();
}

}  // namespace

TEST_CASE("one call adds counters, CUDA calls, CUDA events and NVML", "[gpu]") {
  session_test::Host host;
  REQUIRE(host.Start());
  CHECK(pitot::gpu::Enable(host.recorder, WithNvml()).ok());
  CHECK(AddAgain(host, true, false, false) == StatusCode::kAlreadyRunning);
  CHECK(AddAgain(host, false, true, false) == StatusCode::kAlreadyRunning);
  CHECK(AddAgain(host, false, false, true) == StatusCode::kAlreadyRunning);
  CHECK(AddAgain(host, false, false, false, true) == StatusCode::kAlreadyRunning);
}

TEST_CASE("a collector that was not added can be paused, which does nothing", "[gpu]") {
  session_test::Host host;
  REQUIRE(host.Start());
  for (const auto& collector : {pitot::MakeCounterCollector(), pitot::MakeCudaCallCollector(),
                                pitot::MakeCudaEventCollector(), pitot::MakeNvmlCollector()}) {
    INFO(collector->Name());
    CHECK(host.recorder.Pause(collector->Name()).ok());
    CHECK(host.recorder.Resume(collector->Name()).ok());
  }
}

TEST_CASE("each of the collectors can be left out", "[gpu]") {
  session_test::Host host;
  REQUIRE(host.Start());
  CHECK(AddAgain(host, false, false, false) == StatusCode::kOk);
  CHECK(AddAgain(host, true, false, false) == StatusCode::kOk);
  CHECK(AddAgain(host, false, true, false) == StatusCode::kOk);
  CHECK(AddAgain(host, false, false, true) == StatusCode::kOk);
  CHECK(AddAgain(host, false, false, false, true) == StatusCode::kOk);
}

TEST_CASE("a wrong option adds no collector, so that it can be corrected", "[gpu]") {
  session_test::Host host;
  REQUIRE(host.Start());
  GpuOptions options = WithNvml();
  StatusCode code = StatusCode::kInvalidArgument;
  std::string said;
  SECTION("of counters") { options.counters.most_cpu_percent = 0, said = "CounterOptions::most_cpu_percent is 0"; }
  SECTION("of calls") { options.cuda_calls.slow_copy_us = 0, said = "CudaCallOptions::slow_copy_us is 0"; }
  SECTION("of events") { options.cuda_events.pairs_per_context = 0, said = "CudaEventOptions::pairs_per_context is 0"; }
  SECTION("of NVML") { options.nvml.rate_hz = 0, said = "NvmlOptions::rate_hz is 0"; }
  SECTION("a file of CUPTI that is missing") {
    options.counters.library = "/nowhere/libcupti.so";
    code = StatusCode::kNotFound, said = "CounterOptions::library is /nowhere/libcupti.so: No such file";
  }
  SECTION("a file of NVML that is missing") {
    options.nvml.library = "/nowhere/libnvidia-ml.so";
    code = StatusCode::kNotFound, said = "NvmlOptions::library is /nowhere/libnvidia-ml.so: No such file";
  }
  const Status status = pitot::gpu::Enable(host.recorder, options);
  CHECK(status.code() == code);
  CHECK_THAT(status.message(), Catch::StartsWith(said));
  CHECK(pitot::gpu::Enable(host.recorder, WithNvml()).ok());
}

TEST_CASE("the first wrong option is returned, and the log names each", "[gpu]") {
  session_test::Host host;
  REQUIRE(host.Start());
  GpuOptions options = WithNvml();
  options.counters.most_cpu_percent = 0;
  options.nvml.rate_hz = 0;
  const Status status = pitot::gpu::Enable(host.recorder, options);
  CHECK_THAT(status.message(), Catch::StartsWith("CounterOptions::most_cpu_percent"));
  CHECK(host.log.Has(pitot::LogLevel::kError, "CounterOptions::most_cpu_percent"));
  CHECK(host.log.Has(pitot::LogLevel::kError, "NvmlOptions::rate_hz"));
}

TEST_CASE("after an error at the start of a collector the others stay", "[gpu]") {
  session_test::Host host;
  REQUIRE(host.Start());
  GpuOptions options;
  options.nvml.library = PITOT_TEST_LIBRARY;  // without NVML's functions
  CHECK(pitot::gpu::Enable(host.recorder, options).code() == StatusCode::kUnavailable);
  CHECK(AddAgain(host, false, true, false) == StatusCode::kAlreadyRunning);
  CHECK(AddAgain(host, false, false, true) == StatusCode::kOk);
}

TEST_CASE("a machine without a driver or GPU is not an error", "[gpu]") {
  const NvmlOfMachine nvml("/nowhere/libnvidia-ml.so.1");
  session_test::Host host;
  REQUIRE(host.Start());
  CHECK(pitot::gpu::Enable(host.recorder).ok());
  const std::vector<fakes::LogLine> lines = host.log.lines();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].level == pitot::LogLevel::kInfo);
  CHECK_THAT(lines[0].text, Catch::StartsWith("cannot load NVML") &&
                                Catch::Contains("until a driver is loaded, counters, waits and layers record nothing"));
}

TEST_CASE("a machine whose driver does not work is an error", "[gpu]") {
  const NvmlOfMachine nvml(PITOT_TEST_LIBRARY);  // without NVML's functions
  session_test::Host host;
  REQUIRE(host.Start());
  const Status status = pitot::gpu::Enable(host.recorder);
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK_THAT(status.message(), Catch::Contains("is not NVML"));
}

TEST_CASE("a file of NVML that is named and missing is an error", "[gpu]") {
  session_test::Host host;
  REQUIRE(host.Start());
  GpuOptions options;
  options.nvml.library = "/nowhere/libnvidia-ml.so";
  const Status status = pitot::gpu::Enable(host.recorder, options);
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK_THAT(status.message(), Catch::Contains("/nowhere/"));
}

TEST_CASE("a recorder that does not run takes none of the collectors", "[gpu]") {
  pitot::Recorder recorder;
  CHECK(pitot::gpu::Enable(recorder).code() == StatusCode::kNotRunning);
}

TEST_CASE("a stopped recorder's collectors can be added to the next one", "[gpu]") {
  for (int i = 0; i < 2; ++i) {
    session_test::Host host;
    REQUIRE(host.Start());
    CHECK(pitot::gpu::Enable(host.recorder, WithNvml()).ok());
    host.recorder.Stop();
  }
}

TEST_CASE("the child of a fork adds its own collectors", "[gpu]") {
  if (fakes::kThreadSanitizer) return;  // its runtime allows a child no threads
  session_test::Host host;
  REQUIRE(host.Start());
  REQUIRE(pitot::gpu::Enable(host.recorder, WithNvml()).ok());
  const fakes::ForkPatience patience;
  const int code = fakes::InChild([] {
    session_test::Host own;
    if (!own.Start()) return 1;
    const Status status = pitot::gpu::Enable(own.recorder, WithNvml());
    if (!status.ok()) std::fprintf(stderr, "in the child: %s\n", status.message());
    if (!status.ok()) return 2;
    own.recorder.Stop();
    return 0;
  });
  CHECK(code == 0);
}

TEST_CASE("children that are forked while the collectors begin load libraries", "[gpu][stress]") {
  if (fakes::kThreadSanitizer) return;  // its runtime may use the loader in the child
  const fakes::ForkPatience patience;
  std::vector<pid_t> children;
  for (int i = 0; i < fakes::Scaled(100); ++i) {
    session_test::Host host;
    REQUIRE(host.Start());
    REQUIRE(pitot::gpu::Enable(host.recorder, WithNvml()).ok());
    for (int j = 0; j < 4; ++j) {
      const auto load = [] { return dlopen(PITOT_TEST_LIBRARY, RTLD_NOW | RTLD_LOCAL) != nullptr ? 0 : 1; };
      children.push_back(fakes::StartChild(load, 20));
    }
  }
  for (const pid_t child : children) CHECK(fakes::WaitForChild(child) == 0);
}

TEST_CASE("neither CUPTI nor the CUDA driver is opened before the process uses a GPU", "[gpu]") {
  session_test::Host host;
  REQUIRE(host.Start());
  CHECK(pitot::gpu::Enable(host.recorder, WithNvml()).ok());
  REQUIRE(host.TriggerAndFlush());
  for (const char* library : {"libcuda.so.1", "libcupti.so.13", "libcupti.so.12"}) {
    INFO(library);
    CHECK(dlopen(library, RTLD_NOW | RTLD_NOLOAD) == nullptr);
  }
}

TEST_CASE("no library of the default set knows a function of CUPTI's activity or callback API", "[gpu]") {
  // CUPTI is opened at run time: a function that is called has its name in the library. Written in two parts, so that
  // this test does not find its own.
  const auto file_of = [](auto* function) {
    Dl_info info{};
    REQUIRE(dladdr(reinterpret_cast<void*>(function), &info) != 0);
    std::ifstream file(info.dli_fname, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string counters = file_of(&pitot::MakeCounterCollector);
  CHECK(counters.find(std::string("cuptiPm") + "SamplingStart") != std::string::npos);
  for (const std::string& library : {counters, file_of(&pitot::MakeCudaCallCollector),
                                     file_of(&pitot::MakeCudaEventCollector), file_of(&pitot::MakeNvmlCollector)}) {
    for (const char* name :
         {"Activity", "Subscribe", "EnableCallback", "EnableDomain", "EnableAllDomains", "Finalize"}) {
      INFO(name);
      CHECK(library.find(std::string("cupti") + name) == std::string::npos);
    }
  }
}
