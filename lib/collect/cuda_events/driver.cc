// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_events/driver.h"

#include <dlfcn.h>

#include "base/loader_lock.h"
#include "trace/own_look_up.h"

namespace pitot::cuda_events {
namespace {

template <class Function> const char* Find(void* handle, const char* name, Function* function) {
  return trace::FindOwn(handle, name, function) ? nullptr : name;
}

const char* FindRequired(void* handle, Driver* driver) {
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto* function) {
    if (missing == nullptr) missing = Find(handle, name, function);
  };
  find("cuCtxGetCurrent", &driver->get_context);
  find("cuCtxPushCurrent_v2", &driver->push_context);
  find("cuCtxPopCurrent_v2", &driver->pop_context);
  find("cuCtxGetDevice", &driver->get_device);
  find("cuEventCreate", &driver->create_event);
  find("cuEventRecord", &driver->record_event);
  find("cuEventQuery", &driver->query_event);
  find("cuEventElapsedTime", &driver->elapsed_time);
  find("cuEventDestroy_v2", &driver->destroy_event);
  find("cuStreamCreate", &driver->create_stream);
  find("cuStreamDestroy_v2", &driver->destroy_stream);
  find("cuThreadExchangeStreamCaptureMode", &driver->exchange_capture_mode);
  Find(handle, "cuCtxGetId", &driver->get_context_id);
  if (driver->get_context_id == nullptr) {
    find("cuMemAlloc_v2", &driver->allocate);
    find("cuMemFree_v2", &driver->free);
    find("cuPointerGetAttribute", &driver->get_pointer_attribute);
  }
  return missing;
}

}  // namespace

const char* FindDriver(const char* library, Driver* driver) noexcept {
  *driver = {};
  const base::LoaderUse use;
  // Never closed: the driver stays as long as the process.
  void* const handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return library;
  if (const char* const missing = FindRequired(handle, driver)) {
    dlclose(handle);
    return missing;
  }
  Find(handle, "cuStreamIsCapturing", &driver->is_capturing);
  Find(handle, "cuStreamGetId", &driver->get_stream_id);
  Find(handle, "cuDeviceGetName", &driver->get_device_name);
  Find(handle, "cuEventRecordWithFlags", &driver->record_node);
  Find(handle, "cuStreamGetCaptureInfo_v2", &driver->get_capture);
  Find(handle, "cuUserObjectCreate", &driver->create_object);
  Find(handle, "cuUserObjectRelease", &driver->release_object);
  Find(handle, "cuGraphRetainUserObject", &driver->hold_object);
  return nullptr;
}

}  // namespace pitot::cuda_events
