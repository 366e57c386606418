// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/api.h"

#include <dlfcn.h>
#include <link.h>

#include <vector>

#include "base/cupti_library.h"
#include "base/loader_lock.h"
#include "base/message.h"
#include "collect/cupti/driver.h"

namespace pitot::cupti {
namespace {

using base::Error;

template <class Function> bool Find(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  return *function != nullptr;
}

// The first missing function of the required ones; null: all are there.
const char* FindFunctions(void* handle, Api* api) {
  Find(handle, "cuptiSubscribe_v2", &api->subscribe_v2);
  Find(handle, "cuptiGetCallbackName", &api->get_callback_name);
  Find(handle, "cuptiActivityEnableRuntimeApi", &api->activity_enable_runtime_api);
  Find(handle, "cuptiActivityEnableDriverApi", &api->activity_enable_driver_api);
  Find(handle, "cuptiActivityGetNumDroppedRecords", &api->activity_get_dropped);
  Find(handle, "cuptiSetThreadIdType", &api->set_thread_id_type);
  Find(handle, "cuptiGetGraphNodeId", &api->get_graph_node_id);
  Find(handle, "cuptiGetStreamIdEx", &api->get_stream_id);
  const auto is_missing = [handle](const char* name, auto* function) { return !Find(handle, name, function); };
  if (is_missing("cuptiGetVersion", &api->get_version)) return "cuptiGetVersion";
  if (is_missing("cuptiGetResultString", &api->get_result_string)) return "cuptiGetResultString";
  if (is_missing("cuptiSubscribe", &api->subscribe)) return "cuptiSubscribe";
  if (is_missing("cuptiUnsubscribe", &api->unsubscribe)) return "cuptiUnsubscribe";
  if (is_missing("cuptiEnableCallback", &api->enable_callback)) return "cuptiEnableCallback";
  if (is_missing("cuptiActivityEnable", &api->activity_enable)) return "cuptiActivityEnable";
  if (is_missing("cuptiActivityDisable", &api->activity_disable)) return "cuptiActivityDisable";
  if (is_missing("cuptiActivityRegisterCallbacks", &api->activity_register_callbacks))
    return "cuptiActivityRegisterCallbacks";
  if (is_missing("cuptiActivityFlushAll", &api->activity_flush_all)) return "cuptiActivityFlushAll";
  if (is_missing("cuptiActivityGetNextRecord", &api->activity_get_next_record)) return "cuptiActivityGetNextRecord";
  if (is_missing("cuptiActivitySetAttribute", &api->activity_set_attribute)) return "cuptiActivitySetAttribute";
  return nullptr;
}

// The file with a function's code.
std::string FileOf(const void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

Status Use(void* handle, Api* api) {
  if (const char* missing = FindFunctions(handle, api)) {
    link_map* map = nullptr;
    const bool is_known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr;
    const char* const what = api->get_version == nullptr ? " (it is not a libcupti): name one in CuptiOptions::library"
                                                         : ": use the one of CUDA 11.8 or later";
    return Error(StatusCode::kUnavailable, "the CUPTI library %s has no %s%s", is_known ? map->l_name : "", missing,
                 what);
  }
  api->path = FileOf(reinterpret_cast<void*>(api->get_version));
  if (const Result result = api->get_version(&api->version); result != kSuccess)
    return Error(StatusCode::kUnavailable, "%s: cuptiGetVersion failed: %s; run `pitot doctor`", api->path.c_str(),
                 ResultName(*api, result).c_str());
  return {};
}

// Loads the one file named by the host; it may be loaded already.
Status LoadNamed(const std::string& path, Api* api) {
  if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return Use(handle, api);
  if (void* const other = base::FindLoadedCupti(base::LoadedFiles())) {
    const std::string file = FileOf(dlsym(other, "cuptiGetVersion"));
    dlclose(other);
    return Error(StatusCode::kUnavailable,
                 "CuptiOptions::library is %s, and this process has loaded another CUPTI, %s: two would fight for the "
                 "driver%sleave the option out to use the loaded one, or do not load that one",
                 path.c_str(), file.c_str(), kRemedy);
  }
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return Error(StatusCode::kNotFound, "cannot load CUPTI: %s%sname another in CuptiOptions::library", dlerror(),
                 kRemedy);
  return Use(handle, api);
}

}  // namespace

Status LoadCupti(const std::string& path, Api* api) {
  *api = {};
  const int driver_major = path.empty() ? DriverMajor() : 0;  // it takes another lock
  const base::LoaderUse use;
  if (!path.empty()) return LoadNamed(path, api);
  const std::vector<std::string> files = base::LoadedFiles();
  if (void* const handle = base::FindLoadedCupti(files)) return Use(handle, api);
  for (const std::string& candidate : base::CuptiCandidates(files, driver_major)) {
    if (void* const handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) return Use(handle, api);
  }
  return Status(StatusCode::kNotFound,
                "there is no libcupti; to record kernels: install the CUPTI of the process's CUDA (package cuda-cupti, "
                "or the PyPI wheel "
                "nvidia-cuda-cupti), or name it in CuptiOptions::library");
}

std::string ResultName(const Api& api, Result result) {
  const char* text = nullptr;
  if (api.get_result_string != nullptr && api.get_result_string(result, &text) == kSuccess && text != nullptr)
    return text;
  return "CUPTI error " + std::to_string(static_cast<int>(result));
}

}  // namespace pitot::cupti
