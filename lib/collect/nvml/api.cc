// SPDX-License-Identifier: Apache-2.0
#include "collect/nvml/api.h"

#include <dlfcn.h>

#include "base/loader_lock.h"
#include "base/message.h"

namespace pitot::nvml {
namespace {

using base::Error;

template <class Function> bool Find(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  return *function != nullptr;
}

// The first missing function of the required ones; null: all are there.
const char* FindRequired(void* handle, Api* api) {
  if (!Find(handle, "nvmlInit_v2", &api->init)) return "nvmlInit_v2";
  if (!Find(handle, "nvmlShutdown", &api->shutdown)) return "nvmlShutdown";
  if (!Find(handle, "nvmlDeviceGetCount_v2", &api->get_count)) return "nvmlDeviceGetCount_v2";
  if (!Find(handle, "nvmlDeviceGetHandleByIndex_v2", &api->get_handle)) return "nvmlDeviceGetHandleByIndex_v2";
  return nullptr;
}

void FindOthers(void* handle, Api* api) {
  Find(handle, "nvmlSystemGetDriverVersion", &api->get_driver_version);
  Find(handle, "nvmlDeviceGetName", &api->get_name);
  Find(handle, "nvmlDeviceGetUUID", &api->get_uuid);
  Find(handle, "nvmlDeviceGetPciInfo_v3", &api->get_pci_info);
  Find(handle, "nvmlDeviceGetUtilizationRates", &api->get_utilization);
  Find(handle, "nvmlDeviceGetMemoryInfo", &api->get_memory);
  Find(handle, "nvmlDeviceGetComputeRunningProcesses_v2", &api->get_processes);
  Find(handle, "nvmlDeviceGetClockInfo", &api->get_clock);
  Find(handle, "nvmlDeviceGetPowerUsage", &api->get_power);
  Find(handle, "nvmlDeviceGetTemperature", &api->get_temperature);
  // The second is the older name of the same function.
  if (!Find(handle, "nvmlDeviceGetCurrentClocksEventReasons", &api->get_clock_event_reasons))
    Find(handle, "nvmlDeviceGetCurrentClocksThrottleReasons", &api->get_clock_event_reasons);
  Find(handle, "nvmlDeviceGetFieldValues", &api->get_fields);
  Find(handle, "nvmlDeviceGetTotalEccErrors", &api->get_ecc_errors);
  Find(handle, "nvmlEventSetCreate", &api->event_set_create);
  Find(handle, "nvmlEventSetFree", &api->event_set_free);
  Find(handle, "nvmlEventSetWait_v2", &api->event_set_wait);
  Find(handle, "nvmlDeviceRegisterEvents", &api->register_events);
  Find(handle, "nvmlGpmQueryDeviceSupport", &api->gpm_query_support);
  Find(handle, "nvmlGpmSampleAlloc", &api->gpm_sample_alloc);
  Find(handle, "nvmlGpmSampleFree", &api->gpm_sample_free);
  Find(handle, "nvmlGpmSampleGet", &api->gpm_sample_get);
  Find(handle, "nvmlGpmMetricsGet", &api->gpm_metrics_get);
}

}  // namespace

Status LoadNvml(const std::string& path, Api* api) {
  *api = {};
  const base::LoaderUse use;
  const char* const file = path.empty() ? "libnvidia-ml.so.1" : path.c_str();
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return Error(StatusCode::kNotFound,
                 "cannot load NVML, a part of NVIDIA's driver (install it; in a container, give it the driver's "
                 "utilities: NVIDIA_DRIVER_CAPABILITIES=utility): %s",
                 why != nullptr ? why : file);
  }
  if (const char* missing = FindRequired(handle, api))
    return Error(StatusCode::kUnavailable, "%s is not NVML or is older than its version 2: it has no %s", file,
                 missing);
  FindOthers(handle, api);
  return {};
}

std::string ResultName(Result result) {
  switch (result) {
    case kSuccess:
      return "SUCCESS";
    case kUninitialized:
      return "UNINITIALIZED";
    case kInvalidArgument:
      return "INVALID_ARGUMENT";
    case kNotSupported:
      return "NOT_SUPPORTED";
    case kNoPermission:
      return "NO_PERMISSION";
    case kNotFound:
      return "NOT_FOUND";
    case kInsufficientSize:
      return "INSUFFICIENT_SIZE";
    case kDriverNotLoaded:
      return "DRIVER_NOT_LOADED";
    case kTimeout:
      return "TIMEOUT";
    case kFunctionNotFound:
      return "FUNCTION_NOT_FOUND";
    case kGpuIsLost:
      return "GPU_IS_LOST";
    case kResetRequired:
      return "RESET_REQUIRED";
    case kOperatingSystem:
      return "OPERATING_SYSTEM";
    case kLibraryDriverMismatch:
      return "LIB_RM_VERSION_MISMATCH";
    case kInUse:
      return "IN_USE";
    case kMemory:
      return "MEMORY";
    case kNoData:
      return "NO_DATA";
    case kInsufficientResources:
      return "INSUFFICIENT_RESOURCES";
    case kArgumentVersionMismatch:
      return "ARGUMENT_VERSION_MISMATCH";
    case kDeprecated:
      return "DEPRECATED";
    case kNotReady:
      return "NOT_READY";
    case kGpuNotFound:
      return "GPU_NOT_FOUND";
    case kInvalidState:
      return "INVALID_STATE";
    case kUnknown:
      return "UNKNOWN";
  }
  return "error " + std::to_string(static_cast<int>(result));
}

}  // namespace pitot::nvml
