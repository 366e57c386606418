// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/driver.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <type_traits>

#include "base/gpu_uuid.h"
#include "base/loader_lock.h"
#include "base/mutex.h"

namespace pitot::cupti {
namespace {

constexpr char kKernelDriver[] = "/proc/driver/nvidia/version";

// Functions of the driver's API, with the numbers of cuda.h.
struct Driver {
  int (*get_count)(int* count);
  int (*get)(int* device, int ordinal);
  int (*get_name)(char* name, int size, int device);
  int (*get_attribute)(int* value, int attribute, int device);
  int (*primary_state)(int device, unsigned int* flags, int* is_active);
  int (*get_version)(int* version);                     // may be null
  int (*get_uuid)(unsigned char uuid[16], int device);  // may be null
};

bool Find(void* handle, Driver* driver) {
  const auto find = [handle](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
    return *function != nullptr;
  };
  find("cuDriverGetVersion", &driver->get_version);
  if (!find("cuDeviceGetUuid_v2", &driver->get_uuid)) find("cuDeviceGetUuid", &driver->get_uuid);
  return find("cuDeviceGetCount", &driver->get_count) && find("cuDeviceGet", &driver->get) &&
         find("cuDeviceGetName", &driver->get_name) && find("cuDeviceGetAttribute", &driver->get_attribute) &&
         find("cuDevicePrimaryCtxGetState", &driver->primary_state);
}

constinit base::Mutex g_mutex;
constinit Driver g_driver PITOT_GUARDED_BY(g_mutex){};
constinit bool g_is_found PITOT_GUARDED_BY(g_mutex) = false;

// False: it is not loaded, or lacks a function. Once found it is held open: it stays as long as the process.
bool FindDriver(Driver* driver) {
  const base::MutexLock lock(&g_mutex);
  if (!g_is_found) {
    const base::LoaderUse use;
    void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) return false;
    g_is_found = Find(handle, &g_driver);
    if (!g_is_found) dlclose(handle);
  }
  *driver = g_driver;
  return g_is_found;
}

}  // namespace

CudaState AskCuda() noexcept {
  Driver driver{};
  int count = 0;
  // Before cuInit it answers "not initialised".
  if (!FindDriver(&driver) || driver.get_count(&count) != 0) return CudaState::kUntouched;
  for (int i = 0; i < count; ++i) {
    int device = 0, is_active = 0;
    unsigned int flags = 0;
    if (driver.get(&device, i) == 0 && driver.primary_state(device, &flags, &is_active) == 0 && is_active != 0)
      return CudaState::kInUse;
  }
  return CudaState::kInitialised;
}

int MajorOfKernelDriver(std::string_view text) noexcept {
  for (size_t end = text.find('.'); end != std::string_view::npos; end = text.find('.', end + 1)) {
    size_t begin = end;
    while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
    int branch = 0;
    std::from_chars(text.data() + begin, text.data() + end, branch);
    // The first branches of CUDA 13, 12 and 11, according to CUDA's release notes.
    if (branch >= 450) return branch >= 580 ? 13 : branch >= 525 ? 12 : 11;
  }
  return 0;
}

int DriverMajor() noexcept {
  Driver driver{};
  int version = 0;
  if (FindDriver(&driver) && driver.get_version != nullptr && driver.get_version(&version) == 0 && version >= 1000)
    return version / 1000;
  char text[256];
  const int file = open(kKernelDriver, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text, sizeof text);
  close(file);
  return size > 0 ? MajorOfKernelDriver({text, static_cast<size_t>(size)}) : 0;
}

DeviceFacts DescribeDevice(uint32_t ordinal) {
  DeviceFacts facts;
  facts.name = "GPU " + std::to_string(ordinal);
  Driver driver{};
  int device = 0;
  if (!FindDriver(&driver) || driver.get(&device, static_cast<int>(ordinal)) != 0) return facts;
  char name[128] = "";
  if (driver.get_name(name, sizeof name - 1, device) == 0 && name[0] != '\0') facts.name = name;
  unsigned char uuid[16];
  if (driver.get_uuid != nullptr && driver.get_uuid(uuid, device) == 0) facts.uuid = base::GpuUuidText(uuid);
  const auto ask = [&](int attribute, uint32_t* out) {
    int value = 0;
    if (driver.get_attribute(&value, attribute, device) == 0 && value > 0) *out = static_cast<uint32_t>(value);
  };
  ask(kMultiprocessors, &facts.multiprocessors);
  ask(kThreads, &facts.threads_per_multiprocessor);
  ask(kBlocks, &facts.blocks_per_multiprocessor);
  ask(kRegistersOfMultiprocessor, &facts.registers_per_multiprocessor);
  ask(kShared, &facts.shared_bytes_per_multiprocessor);
  return facts;
}

}  // namespace pitot::cupti
