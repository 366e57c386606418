// SPDX-License-Identifier: Apache-2.0
#include "collect/counters/api.h"

#include <dlfcn.h>

#include "base/cupti_library.h"
#include "base/gpu_uuid.h"
#include "base/loader_lock.h"
#include "base/message.h"

namespace pitot::counters {
namespace {

using base::Error;

template <class Function> bool Find(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  return *function != nullptr;
}

// The first missing function; null: all are there.
const char* FindFunctions(void* handle, Api* api) {
  Find(handle, "cuptiGetResultString", &api->get_result_string);
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto* function) {
    if (!Find(handle, name, function) && missing == nullptr) missing = name;
  };
  FindHostFunctions(find, api);
  find("cuptiPmSamplingGetCounterAvailability", &api->get_availability);
  find("cuptiPmSamplingEnable", &api->enable);
  find("cuptiPmSamplingSetConfig", &api->set_config);
  find("cuptiPmSamplingGetCounterDataSize", &api->get_data_size);
  find("cuptiPmSamplingCounterDataImageInitialize", &api->initialize_data);
  find("cuptiPmSamplingStart", &api->start);
  find("cuptiPmSamplingStop", &api->stop);
  find("cuptiPmSamplingDisable", &api->disable);
  find("cuptiPmSamplingDecodeData", &api->decode);
  find("cuptiPmSamplingGetCounterDataInfo", &api->get_data_info);
  find("cuptiPmSamplingCounterDataGetSampleInfo", &api->get_sample_info);
  return missing;
}

Status Use(void* handle, Api* api) {
  const char* const missing = FindFunctions(handle, api);
  if (missing == nullptr) return {};
  return Error(StatusCode::kUnavailable, "this process's CUPTI has no %s: use the one of CUDA 12.6 or later", missing);
}

// The driver's functions, if it is loaded.
struct Driver {
  int (*get_count)(int* count);
  int (*get)(int* device, int ordinal);
  int (*get_name)(char* name, int size, int device);
  int (*primary_state)(int device, unsigned int* flags, int* is_active);
  int (*get_version)(int* version);                     // of its CUDA: 12040 for 12.4
  int (*get_uuid)(unsigned char uuid[16], int device);  // may be null
};

bool FindDriver(Driver* driver) {
  const base::LoaderUse use;
  void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  const bool is_there = Find(handle, "cuDeviceGetCount", &driver->get_count) &&
                        Find(handle, "cuDeviceGet", &driver->get) &&
                        Find(handle, "cuDeviceGetName", &driver->get_name) &&
                        Find(handle, "cuDevicePrimaryCtxGetState", &driver->primary_state) &&
                        Find(handle, "cuDriverGetVersion", &driver->get_version);
  if (!Find(handle, "cuDeviceGetUuid_v2", &driver->get_uuid)) Find(handle, "cuDeviceGetUuid", &driver->get_uuid);
  dlclose(handle);  // it stays loaded: another holds it
  return is_there;
}

std::string IdOf(const Driver& driver, int device) {
  unsigned char uuid[16];
  if (driver.get_uuid == nullptr || driver.get_uuid(uuid, device) != 0) return "";
  return base::GpuUuidText(uuid);
}

// The major version of the driver's CUDA; 0: unknown.
int DriverMajor() {
  Driver driver{};
  int version = 0;
  return FindDriver(&driver) && driver.get_version(&version) == 0 ? version / 1000 : 0;
}

}  // namespace

Status LoadCupti(const std::string& path, Api* api) {
  *api = {};
  void* handle = nullptr;
  const int driver_major = path.empty() ? DriverMajor() : 0;
  if (Status status = base::OpenCupti(path, driver_major, "CounterOptions::library", &handle); !status.ok())
    return status;
  const base::LoaderUse use;
  return Use(handle, api);
}

Status UseAllGpus() {
  void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Error(StatusCode::kNotFound, "there is no NVIDIA driver here: %s", dlerror());
  Driver driver{};
  int (*initialize)(unsigned int) = nullptr;
  int (*retain)(void** context, int device) = nullptr;
  if (!FindDriver(&driver) || !Find(handle, "cuInit", &initialize) ||
      !Find(handle, "cuDevicePrimaryCtxRetain", &retain))
    return Status(StatusCode::kUnavailable, "libcuda.so.1 lacks a function: the driver is too old");
  int count = 0;
  if (const int result = initialize(0); result != 0 || driver.get_count(&count) != 0 || count == 0)
    return Error(StatusCode::kUnavailable, "CUDA finds no GPU here: cuInit answers %d", result);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0;
    void* context = nullptr;
    int result = driver.get(&device, ordinal);
    if (result == 0) result = retain(&context, device);
    if (result != 0)
      return Error(StatusCode::kUnavailable, "GPU %d cannot be used: cuDevicePrimaryCtxRetain answers %d", ordinal,
                   result);
  }
  return {};
}

std::vector<Gpu> FindGpus() {
  std::vector<Gpu> gpus;
  Driver driver{};
  int count = 0;
  if (!FindDriver(&driver) || driver.get_count(&count) != 0) return gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0, is_active = 0;
    unsigned int flags = 0;
    if (driver.get(&device, ordinal) != 0 || driver.primary_state(device, &flags, &is_active) != 0 || is_active == 0)
      continue;
    char name[256] = "";
    if (driver.get_name(name, sizeof name, device) != 0) name[0] = '\0';
    gpus.push_back({static_cast<uint32_t>(ordinal), name, IdOf(driver, device)});
  }
  return gpus;
}

}  // namespace pitot::counters
