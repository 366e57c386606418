// SPDX-License-Identifier: Apache-2.0
//
// Completes fake_cuda.cc's driver: one device, with its primary context in use. The device has no UUID, so its counters
// are not shared with other processes.
#define EXPORT extern "C" [[gnu::visibility("default")]]

EXPORT int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
EXPORT int cuDeviceGetCount(int* count) { return *count = 1, 0; }
EXPORT int cuDeviceGet(int* device, int) { return *device = 1, 0; }
EXPORT int cuDeviceGetAttribute(int* value, int, int) { return *value = 9, 0; }
EXPORT int cuDevicePrimaryCtxGetState(int, unsigned int* flags, int* is_active) {
  return *flags = 0, *is_active = 1, 0;
}
