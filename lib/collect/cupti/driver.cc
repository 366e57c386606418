// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/driver.h"

#include <dlfcn.h>

namespace pitot::cupti {
namespace {

// Of the driver's API, with the numbers of cuda.h.
struct Driver {
  int (*get_count)(int* count);
  int (*get)(int* device, int ordinal);
  int (*get_name)(char* name, int size, int device);
  int (*get_attribute)(int* value, int attribute, int device);
  int (*primary_state)(int device, unsigned int* flags, int* is_active);
};
enum DeviceAttribute : int {
  kMultiprocessors = 16,
  kThreads = 39,
  kShared = 81,
  kRegisters = 82,
  kBlocks = 106,
};

// False: it is not loaded, or lacks what is asked for.
bool FindDriver(Driver* driver) {
  void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  const auto find = [handle](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
    return *function != nullptr;
  };
  return find("cuDeviceGetCount", &driver->get_count) && find("cuDeviceGet", &driver->get) &&
         find("cuDeviceGetName", &driver->get_name) && find("cuDeviceGetAttribute", &driver->get_attribute) &&
         find("cuDevicePrimaryCtxGetState", &driver->primary_state);
}

}  // namespace

bool IsCudaInUse() noexcept {
  Driver driver{};
  int count = 0;
  // Before cuInit it answers "not initialised".
  if (!FindDriver(&driver) || driver.get_count(&count) != 0) return false;
  for (int i = 0; i < count; ++i) {
    int device = 0, is_active = 0;
    unsigned int flags = 0;
    if (driver.get(&device, i) == 0 && driver.primary_state(device, &flags, &is_active) == 0 && is_active != 0)
      return true;
  }
  return false;
}

DeviceFacts DescribeDevice(uint32_t ordinal) {
  DeviceFacts facts;
  facts.name = "GPU " + std::to_string(ordinal);
  Driver driver{};
  int device = 0;
  if (!FindDriver(&driver) || driver.get(&device, static_cast<int>(ordinal)) != 0) return facts;
  char name[128] = "";
  if (driver.get_name(name, sizeof name - 1, device) == 0 && name[0] != '\0') facts.name = name;
  const auto ask = [&](int attribute, uint32_t* out) {
    int value = 0;
    if (driver.get_attribute(&value, attribute, device) == 0 && value > 0) *out = static_cast<uint32_t>(value);
  };
  ask(kMultiprocessors, &facts.multiprocessors);
  ask(kThreads, &facts.threads_per_multiprocessor);
  ask(kBlocks, &facts.blocks_per_multiprocessor);
  ask(kRegisters, &facts.registers_per_multiprocessor);
  ask(kShared, &facts.shared_bytes_per_multiprocessor);
  return facts;
}

}  // namespace pitot::cupti
