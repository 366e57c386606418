// SPDX-License-Identifier: Apache-2.0
//
// Libraries that look CUDA's functions up by name.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "collect/cuda_calls/fake_driver.h"
#include "collect/cuda_calls/rig.h"

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
  CHECK(Watched::waits == std::vector<void*>{Pointer(7), pitot::trace::kEveryStream});
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

TEST_CASE("the collector of CUDA events gets the driver's own functions", "[cuda_calls]") {
  const Libraries libraries;
  Rig rig;
  REQUIRE(rig.Add().ok());
  pitot::trace::t_is_own_look_up = true;
  void* const found = libraries.runtime.find(libraries.driver, "cuStreamSynchronize");
  pitot::trace::t_is_own_look_up = false;
  CHECK(found != libraries.runtime.find(libraries.driver, "cuStreamSynchronize"));
  reinterpret_cast<int (*)(void*)>(found)(nullptr);
  CHECK(Calls(rig.Incident()).empty());
}
