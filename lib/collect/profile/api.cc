// SPDX-License-Identifier: Apache-2.0
#include "collect/profile/api.h"

#include <dlfcn.h>

#include "base/cupti_library.h"
#include "base/message.h"
#include "trace/own_look_up.h"

namespace pitot::profile {
namespace {

using base::Error;

Status UseCupti(void* handle, Api* api) {
  trace::FindOwn(handle, "cuptiGetResultString", &api->get_result_string);
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto* function) {
    if (!trace::FindOwn(handle, name, function) && missing == nullptr) missing = name;
  };
  counters::FindHostFunctions(find, api);
  find("cuptiProfilerGetCounterAvailability", &api->get_availability);
  find("cuptiRangeProfilerEnable", &api->enable);
  find("cuptiRangeProfilerDisable", &api->disable);
  find("cuptiRangeProfilerGetCounterDataSize", &api->get_data_size);
  find("cuptiRangeProfilerCounterDataImageInitialize", &api->initialize_data);
  find("cuptiRangeProfilerSetConfig", &api->set_config);
  find("cuptiRangeProfilerStart", &api->start);
  find("cuptiRangeProfilerStop", &api->stop);
  find("cuptiRangeProfilerDecodeData", &api->decode);
  find("cuptiRangeProfilerGetCounterDataInfo", &api->get_data_info);
  if (missing == nullptr) return {};
  return Error(StatusCode::kUnavailable, "this process's CUPTI has no %s: use the one of CUDA 12.6 or later", missing);
}

// The runtime's own function knows its symbols; another copy of the runtime refuses them.
int FunctionOfSymbol(void* launch, void** function, const void* symbol) {
  constexpr int kCudaErrorSymbolNotFound = 500;
  Dl_info info{};
  if (dladdr(launch, &info) == 0 || info.dli_fname == nullptr) return kCudaErrorSymbolNotFound;
  void* const runtime = dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (runtime == nullptr) return kCudaErrorSymbolNotFound;
  int (*get)(void**, const void*) = nullptr;
  const bool is_there = trace::FindOwn(runtime, "cudaGetFuncBySymbol", &get);
  dlclose(runtime);  // it stays loaded: the program uses it
  return is_there ? get(function, symbol) : kCudaErrorSymbolNotFound;
}

}  // namespace

Status LoadCupti(const std::string& path, int driver_major, Api* api) {
  *api = {};
  void* handle = nullptr;
  if (Status status = base::OpenCupti(path, driver_major, "ProfileOptions::library", &handle); !status.ok())
    return status;
  return UseCupti(handle, api);
}

Status FindDriver(Driver* driver) {
  *driver = {};
  void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr)
    return Status(StatusCode::kNotFound, "this process has not used CUDA: profile once the server launches kernels");
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto* function) {
    if (!trace::FindOwn(handle, name, function) && missing == nullptr) missing = name;
  };
  find("cuDriverGetVersion", &driver->get_version);
  find("cuDeviceGet", &driver->get_device);
  find("cuDeviceGetAttribute", &driver->device_attribute);
  find("cuDevicePrimaryCtxGetState", &driver->primary_state);
  find("cuDevicePrimaryCtxRetain", &driver->primary_retain);
  find("cuDevicePrimaryCtxRelease_v2", &driver->primary_release);
  find("cuCtxPushCurrent_v2", &driver->push);
  find("cuCtxPopCurrent_v2", &driver->pop);
  find("cuCtxGetCurrent", &driver->get_current);
  find("cuStreamIsCapturing", &driver->is_capturing);
  find("cuFuncGetName", &driver->function_name);
  find("cuFuncGetAttribute", &driver->function_attribute);
  find("cuOccupancyMaxActiveBlocksPerMultiprocessor", &driver->most_blocks);
  trace::FindOwn(handle, "cuKernelGetName", &driver->kernel_name);
  trace::FindOwn(handle, "cuKernelGetFunction", &driver->kernel_function);
  driver->symbol_function = FunctionOfSymbol;
  dlclose(handle);  // it stays loaded: another holds it
  if (missing == nullptr) return {};
  return Error(StatusCode::kUnavailable, "the driver has no %s: profiling needs a driver of CUDA 12.3 or later",
               missing);
}

}  // namespace pitot::profile
