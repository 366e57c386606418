// SPDX-License-Identifier: Apache-2.0
//
// The file to name in OPENCL_LAYERS. The loader asks it for functions to call in place of the driver's. They are in the
// program, in pitot::opencl. In a program without it, and with a loader that is too old, this layer changes nothing.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pitot/export.h"

namespace {

// Constants of cl_layer.h.
constexpr uint32_t kApiVersion = 0x4240, kApiVersion100 = 100, kName = 0x4241;
constexpr int32_t kSuccess = 0, kInvalidValue = -30;

int32_t Give(const void* value, size_t bytes, size_t room, void* to, size_t* needed) {
  if (needed != nullptr) *needed = bytes;
  if (to == nullptr) return kSuccess;
  if (room < bytes) return kInvalidValue;
  std::memcpy(to, value, bytes);
  return kSuccess;
}

const void* const kNothing[1] = {nullptr};

}  // namespace

extern "C" {

PITOT_EXPORT int32_t clGetLayerInfo(uint32_t what, size_t room, void* to, size_t* needed) {
  if (what == kApiVersion) return Give(&kApiVersion100, sizeof kApiVersion100, room, to, needed);
  if (what == kName) return Give("pitot", sizeof "pitot", room, to, needed);
  return kInvalidValue;
}

PITOT_EXPORT int32_t clInitLayer(uint32_t entries, const void* const* next, uint32_t* own_entries,
                                 const void* const** own) {
  if (next == nullptr || own_entries == nullptr || own == nullptr) return kInvalidValue;
  using Function = const void* const* (*)(const void* const*, uint32_t, uint32_t*);
  const auto layer = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "pitot_opencl_layer"));
  *own_entries = 0;
  *own = layer != nullptr ? layer(next, entries, own_entries) : nullptr;
  if (*own == nullptr) *own = kNothing;
  return kSuccess;
}

}  // extern "C"
