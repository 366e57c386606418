// SPDX-License-Identifier: Apache-2.0
//
// A driver of CUDA with what a profile of kernels asks. Its kernels run in the fake range profiler, if that is loaded.
#include <dlfcn.h>

#include <cstddef>

#include "collect/profile/fake_range.h"

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

char g_context[1];

// What a handle of a function points to: its name.
const char* NameOf(void* function) { return static_cast<const char*>(function); }

}  // namespace

EXPORT int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
EXPORT int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal == 0 ? 0 : 101; }
EXPORT int cuDeviceGetAttribute(int* value, int, int) { return *value = 64, 0; }
EXPORT int cuDevicePrimaryCtxGetState(int, unsigned int*, int* is_active) { return *is_active = 1, 0; }
EXPORT int cuDevicePrimaryCtxRetain(void** context, int) { return *context = g_context, 0; }
EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
EXPORT int cuCtxPushCurrent_v2(void*) { return 0; }
EXPORT int cuCtxPopCurrent_v2(void**) { return 0; }
EXPORT int cuCtxGetCurrent(void** context) { return *context = g_context, 0; }
EXPORT int cuStreamIsCapturing(void*, int* status) { return *status = 0, 0; }
EXPORT int cuFuncGetName(const char** name, void* function) { return *name = NameOf(function), 0; }
EXPORT int cuFuncGetAttribute(int* value, int attribute, void*) { return *value = attribute == 4 ? 168 : 0, 0; }
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, size_t) { return *blocks = 6, 0; }
EXPORT int cuLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                          void**, void**) {
  void* const cupti = dlopen(PITOT_FAKE_RANGE, RTLD_NOW | RTLD_NOLOAD);
  if (cupti == nullptr) return 0;
  reinterpret_cast<fakes::FakeRange* (*)()>(dlsym(cupti, "fake_range"))()->Launch(function);
  dlclose(cupti);
  return 0;
}
