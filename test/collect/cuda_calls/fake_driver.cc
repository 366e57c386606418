// SPDX-License-Identifier: Apache-2.0
//
// A fake driver with few of CUDA's functions.
#include "collect/cuda_calls/fake_driver.h"

#include <time.h>

#include <cstring>

namespace {

fakes::DriverCall g_last;

}  // namespace

extern "C" {

#define EXPORTED [[gnu::visibility("default")]]
EXPORTED const fakes::DriverCall* fake_driver_last() { return &g_last; }
EXPORTED int cuStreamSynchronize(void* stream) {
  g_last = {"cuStreamSynchronize", stream};
  timespec now{};
  const auto now_ns = [&] {
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
  };
  const int64_t until_ns = now_ns() + 2'000'000;
  while (stream == fakes::kWaitsFor2Ms && now_ns() < until_ns) {}
  return 0;
}
EXPORTED int cuCtxSynchronize_v2(void* context) {
  g_last = {"cuCtxSynchronize_v2", context};
  return 0;
}
EXPORTED int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void* stream,
                            void**, void**) {
  g_last = {"cuLaunchKernel", stream};
  return 0;
}
// As the driver: one name, and the version that the caller was built for.
EXPORTED int cuGetProcAddress_v2(const char* name, void** found, int version, uint64_t, void*) {
  *found = nullptr;
  if (std::strcmp(name, "cuStreamSynchronize") == 0) *found = reinterpret_cast<void*>(&cuStreamSynchronize);
  if (std::strcmp(name, "cuLaunchKernel") == 0) *found = reinterpret_cast<void*>(&cuLaunchKernel);
  if (std::strcmp(name, "cuCtxSynchronize") == 0 && version >= 13000)
    *found = reinterpret_cast<void*>(&cuCtxSynchronize_v2);
  return *found != nullptr ? 0 : 500;
}
}
