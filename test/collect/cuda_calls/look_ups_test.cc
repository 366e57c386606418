// SPDX-License-Identifier: Apache-2.0
//
// Libraries that look CUDA's functions up by name.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "collect/cuda_calls/fake_cudart.h"
#include "collect/cuda_calls/fake_driver.h"
#include "collect/cuda_calls/rig.h"
#include "trace/own_look_up.h"

namespace {

using cuda_calls_test::Calls;
using cuda_calls_test::Names;
using cuda_calls_test::Pointer;
using cuda_calls_test::Rig;
using cuda_calls_test::Watched;
using fakes::Attribute;

struct Libraries {
  Libraries() {
    REQUIRE(driver != nullptr);
    REQUIRE(library != nullptr);
    runtime = reinterpret_cast<fakes::RuntimeInside (*)()>(dlsym(library, "CudaRuntimeInside"))();
    last = reinterpret_cast<const fakes::DriverCall* (*)()>(dlsym(driver, "fake_driver_last"))();
  }
  ~Libraries() {
    dlclose(library);
    dlclose(driver);
  }
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  void* const driver = dlopen(PITOT_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  void* const library = dlopen(PITOT_RUNTIME_INSIDE, RTLD_NOW | RTLD_LOCAL);
  fakes::RuntimeInside runtime{};
  const fakes::DriverCall* last = nullptr;
};

}  // namespace

TEST_CASE("calls of a library with the runtime inside are recorded, if it begins after the collector", "[cuda_calls]") {
  const Libraries libraries;
  Rig rig;
  REQUIRE(rig.Add().ok());
  const Watched watched;
  libraries.runtime.begin(libraries.driver);
  CHECK(dlerror() == nullptr);  // the fake has few functions; the library asked for others
  CHECK(libraries.runtime.launch(Pointer(7)) == 0);
  CHECK(std::string_view(libraries.last->function) == "cuLaunchKernel");
  CHECK(libraries.runtime.synchronize(Pointer(7)) == 0);
  CHECK(libraries.runtime.synchronize_context(Pointer(3)) == 0);
  CHECK(std::string_view(libraries.last->function) == "cuCtxSynchronize_v2");
  CHECK(libraries.last->parameter == Pointer(3));
  CHECK(Watched::streams == std::vector<void*>{Pointer(7)});
  CHECK(Watched::waits == std::vector<void*>{Pointer(7), pitot::trace::kNoStream});  // it named another context
  const pitot::model::Trace trace = rig.Incident();
  CHECK(Calls(trace) == Names{"cuStreamSynchronize", "cuCtxSynchronize"});
  CHECK(Attribute(trace, "cuda_calls.looked_up") != "");
  CHECK(Attribute(trace, "cuda_calls.not_recorded").empty());
}

TEST_CASE("a looked-up function of the driver leads through the collector", "[cuda_calls]") {
  const Libraries libraries;
  Rig rig;
  REQUIRE(rig.Add().ok());
  const auto synchronize =
      reinterpret_cast<int (*)(void*)>(libraries.runtime.find(libraries.driver, "cuStreamSynchronize"));
  REQUIRE(synchronize != nullptr);
  CHECK(synchronize(Pointer(4)) == 0);
  CHECK(libraries.last->parameter == Pointer(4));
  CHECK(Calls(rig.Incident()) == Names{"cuStreamSynchronize"});
}

TEST_CASE("other answers of dlsym are the system's, and so are its errors", "[cuda_calls]") {
  const Libraries libraries;
  void* const next = libraries.runtime.find_next("cudaMalloc");
  REQUIRE(next != nullptr);
  REQUIRE(dlsym(RTLD_NEXT, "cudaMalloc") == nullptr);  // from here it finds another
  Rig rig;
  REQUIRE(rig.Add().ok());
  CHECK(libraries.runtime.find_next("cudaMalloc") == next);
  CHECK(libraries.runtime.find(RTLD_DEFAULT, "getpagesize") == dlsym(RTLD_DEFAULT, "getpagesize"));
  dlerror();
  CHECK(libraries.runtime.find(libraries.driver, "cuNoSuchFunction") == nullptr);
  const char* const error = dlerror();
  REQUIRE(error != nullptr);
  CHECK(std::string_view(error).find("cuNoSuchFunction") != std::string_view::npos);
}

TEST_CASE("Pitot itself gets the driver's own functions", "[cuda_calls]") {
  const Libraries libraries;
  Rig rig;
  REQUIRE(rig.Add().ok());
  // This program's own dlsym leads to the wrapper, as that of a program with Pitot inside.
  REQUIRE(dlsym(libraries.driver, "cuStreamSynchronize") ==
          libraries.runtime.find(libraries.driver, "cuStreamSynchronize"));
  int (*synchronize)(void*) = nullptr;
  REQUIRE(pitot::trace::FindOwn(libraries.driver, "cuStreamSynchronize", &synchronize));
  CHECK(reinterpret_cast<void*>(synchronize) != libraries.runtime.find(libraries.driver, "cuStreamSynchronize"));
  synchronize(nullptr);
  CHECK(Calls(rig.Incident()).empty());
}

TEST_CASE("a launch for which the runtime calls the driver counts once, without the calls recorded in it",
          "[cuda_calls]") {
  const Libraries libraries;
  const auto kernel = reinterpret_cast<int (*)()>(dlsym(libraries.library, "LaunchThroughDriver"));
  REQUIRE(kernel != nullptr);
  void* const runtime = dlopen(PITOT_NOW_CALLER, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(runtime != nullptr);
  const fakes::Caller caller = reinterpret_cast<fakes::Caller (*)()>(dlsym(runtime, "cuda_caller"))();
  Rig rig;
  REQUIRE(rig.Add().ok());
  libraries.runtime.begin(libraries.driver);
  *caller.inside = kernel;  // launches, and waits for 2 ms
  {
    pitot::Batch batch = pitot::Batch::Begin("net");
    caller.launch(nullptr, {}, {}, nullptr, 0, nullptr);
  }
  *caller.inside = nullptr;
  const pitot::model::Trace trace = rig.Incident();
  dlclose(runtime);
  CHECK(Calls(trace) == Names{"cuStreamSynchronize"});
  REQUIRE(trace.batches.size() == 1);
  CHECK(trace.batches[0].launches == 1);
  CHECK(trace.calls.duration_ns[0] >= 2'000'000);
  CHECK(trace.batches[0].launch_ns <= trace.batches[0].duration_ns - trace.calls.duration_ns[0]);
}
