// SPDX-License-Identifier: Apache-2.0
//
// What is asked of CUDA's driver, over one that needs no GPU.
#include "collect/cupti/driver.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "collect/cupti/fake_driver.h"

namespace {

using fakes::FakeDriver;
using pitot::cupti::AskCuda;
using pitot::cupti::CudaState;
using pitot::cupti::DescribeDevice;
using pitot::cupti::DeviceFacts;

int g_searches = 0;  // for the driver, by name

FakeDriver& Load() {
  static FakeDriver* const driver = [] {
    void* const handle = dlopen(PITOT_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    return handle != nullptr ? reinterpret_cast<FakeDriver* (*)()>(dlsym(handle, "fake_driver"))() : nullptr;
  }();
  REQUIRE(driver != nullptr);
  *driver = {};
  return *driver;
}

}  // namespace

// Seen by all of this program.
extern "C" void* dlopen(const char* path, int flags) noexcept {
  static const auto real = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  g_searches += path != nullptr && std::strcmp(path, "libcuda.so.1") == 0;
  return real(path, flags);
}

TEST_CASE("CUDA is untouched until the driver is initialised, and in use once a device has its primary context",
          "[cupti]") {
  FakeDriver& driver = Load();
  CHECK(AskCuda() == CudaState::kUntouched);
  driver.is_initialised = true;
  CHECK(AskCuda() == CudaState::kInitialised);
  driver.active[1] = 1;
  CHECK(AskCuda() == CudaState::kInUse);
}

TEST_CASE("a context that a host made itself is not told from a driver that is only initialised", "[cupti]") {
  FakeDriver& driver = Load();
  driver.is_initialised = true;  // cuCtxCreate: no device has its primary context
  CHECK(AskCuda() == CudaState::kInitialised);
}

TEST_CASE("the driver is searched for until it is there, and not again", "[cupti]") {
  Load();
  AskCuda();
  const int before = g_searches;
  for (int i = 0; i < 100; ++i) AskCuda();
  DescribeDevice(0);
  CHECK(before <= 1);
  CHECK(g_searches == before);
}

TEST_CASE("what the driver says of each device is kept apart, and what it does not say is unknown", "[cupti]") {
  FakeDriver& driver = Load();
  driver.is_initialised = true;

  const DeviceFacts first = DescribeDevice(0), second = DescribeDevice(1), third = DescribeDevice(2);

  CHECK(first.name == "Fake 0");
  CHECK(first.multiprocessors == 100);
  CHECK(second.name == "Fake 1");
  CHECK(second.multiprocessors == 101);
  CHECK(second.threads_per_multiprocessor == 2048);
  CHECK(third.name == "GPU 2");
  CHECK(third.multiprocessors == 0);
}
