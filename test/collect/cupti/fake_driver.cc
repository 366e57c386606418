// SPDX-License-Identifier: Apache-2.0
//
// The library, with the driver's functions.
#include "collect/cupti/fake_driver.h"

#include <cstdio>
#include <cstring>

namespace {

constexpr int kSuccess = 0, kNotInitialized = 3, kInvalidDevice = 101;
fakes::FakeDriver g_driver;

// The result of a call about a device.
int ResultOf(int device) {
  if (!g_driver.is_initialised) return kNotInitialized;
  return device >= 0 && device < fakes::FakeDriver::kDevices ? kSuccess : kInvalidDevice;
}

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT fakes::FakeDriver* fake_driver() { return &g_driver; }

FAKE_EXPORT int cuDriverGetVersion(int* version) {
  *version = g_driver.version;
  return g_driver.version != 0 ? kSuccess : kNotInitialized;
}
FAKE_EXPORT int cuDeviceGetCount(int* count) {
  if (g_driver.is_initialised) *count = fakes::FakeDriver::kDevices;
  return g_driver.is_initialised ? kSuccess : kNotInitialized;
}
FAKE_EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ResultOf(ordinal);
}
FAKE_EXPORT int cuDeviceGetName(char* name, int size, int device) {
  if (ResultOf(device) == kSuccess) std::snprintf(name, static_cast<size_t>(size), "Fake %d", device);
  return ResultOf(device);
}
FAKE_EXPORT int cuDeviceGetUuid(unsigned char* uuid, int device) {
  if (ResultOf(device) == kSuccess) std::memset(uuid, 0xa0 + device, 16);
  return ResultOf(device);
}
FAKE_EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  constexpr int kMultiprocessors = 16, kThreads = 39;
  *value = attribute == kMultiprocessors ? 100 + device : attribute == kThreads ? 2048 : 0;
  return ResultOf(device);
}
FAKE_EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned int* flags, int* is_active) {
  if (ResultOf(device) == kSuccess) *flags = 0, *is_active = g_driver.active[device];
  return ResultOf(device);
}
