// SPDX-License-Identifier: Apache-2.0
//
// Questions to CUDA's driver, over one that needs no GPU.
#include "collect/cupti/driver.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

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

// Used by all of this program.
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

TEST_CASE("a context made by a host itself cannot be distinguished from a driver only initialised", "[cupti]") {
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

TEST_CASE("the driver tells its CUDA before it is initialised", "[cupti]") {
  FakeDriver& driver = Load();
  for (const int major : {11, 12, 14}) {
    driver.version = major * 1000 + 40;
    CHECK(pitot::cupti::DriverMajor() == major);
  }
}

TEST_CASE("the kernel's driver has the CUDA of its branch", "[cupti]") {
  using pitot::cupti::MajorOfKernelDriver;
  const char* const kGcc = "\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";
  const auto of = [&](const std::string& version) { return MajorOfKernelDriver(version + kGcc); };
  CHECK(of("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024") == 11);
  CHECK(of("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023") == 12);
  CHECK(of("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.51.03  Release Build  (dvs-builder)") == 12);
  CHECK(of("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.159.04  Release Build") == 13);
  CHECK(of("NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.157  Wed Oct 12 09:19:07 UTC 2022") == 0);
  CHECK(MajorOfKernelDriver("") == 0);
  CHECK(MajorOfKernelDriver(".") == 0);
}

TEST_CASE("the driver's facts are kept apart by device, and missing ones are unknown", "[cupti]") {
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
