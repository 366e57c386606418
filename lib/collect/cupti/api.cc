// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/api.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "base/message.h"
#include "collect/cupti/driver.h"

namespace pitot::cupti {
namespace {

using base::Error;

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }
std::string DirectoryOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? "." : path.substr(0, slash));
}

// "libcupti.so.13", "libcupti-0123abcd.so.12": wheels rename their bundled libraries.
bool IsLibrary(std::string_view path, std::string_view name) {
  const std::string_view base = BaseName(path);
  return base.substr(0, name.size()) == name && base.size() > name.size() &&
         (base[name.size()] == '.' || base[name.size()] == '-') && base.find(".so") != std::string_view::npos;
}

// Files loaded into this process.
std::vector<std::string> LoadedFiles() {
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        if (info->dlpi_name == nullptr || info->dlpi_name[0] == '\0') return 0;
        try {
          static_cast<std::vector<std::string>*>(context)->push_back(info->dlpi_name);
        } catch (...) {
          return 1;  // a file that is not listed is not found
        }
        return 0;
      },
      &files);
  return files;
}

// The version in a file's name: 13 for "libcudart.so.13", 0 without one.
int MajorOf(std::string_view path) {
  const size_t at = BaseName(path).find(".so.");
  return at == std::string_view::npos ? 0 : std::atoi(std::string(BaseName(path).substr(at + 4)).c_str());
}

// A CUPTI that is there already: a second copy would be another tool to the driver.
void* FindLoaded(const std::vector<std::string>& files) {
  // Not dlsym(RTLD_DEFAULT): it may find one known to us alone, for example if LibTorch came with a library that holds
  // Pitot.
  void* const program = dlopen(nullptr, RTLD_NOW);
  if (program != nullptr && dlsym(program, "cuptiGetVersion") != nullptr) return program;
  if (program != nullptr) dlclose(program);
  for (const std::string& file : files) {
    // LibTorch may contain it.
    if (!IsLibrary(file, "libcupti") && !IsLibrary(file, "libtorch_cpu")) continue;
    void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle != nullptr && dlsym(handle, "cuptiGetVersion") != nullptr) return handle;
    if (handle != nullptr) dlclose(handle);
  }
  return nullptr;
}

// Likely places of the CUPTI for the loaded CUDA, the likeliest first. If no CUDA is loaded, as with a statically
// linked runtime, of the CUPTI for the driver's. A driver works with an older CUPTI, but hardly with a newer one.
std::vector<std::string> Candidates(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  std::vector<std::string> directories{""};  // as the loader searches
  int major = 0;
  for (const std::string& file : files) {
    if (!IsLibrary(file, "libcudart") && !IsLibrary(file, "libtorch_cpu")) continue;
    const std::string directory = DirectoryOf(file);
    if (IsLibrary(file, "libcudart")) major = MajorOf(file);
    for (const char* below : {"", "/../../cuda_cupti/lib", "/../../nvidia/cuda_cupti/lib", "/../../nvidia/cu13/lib"})
      directories.push_back(directory + below + "/");
  }
  directories.insert(directories.end(), {"/usr/local/cuda/extras/CUPTI/lib64/", "/usr/local/cuda/lib64/"});
  const int driver_major = major == 0 ? DriverMajor() : 0;
  for (const bool is_newer : {false, true}) {
    for (const auto& [of_major, name] :
         {std::pair(13, "libcupti.so.13"), std::pair(12, "libcupti.so.12"), std::pair(11, "libcupti.so.11.8")}) {
      // A CUPTI of another CUDA would not work with the process's driver or, worse, would half work.
      if (major != 0 && major != of_major) continue;
      if ((driver_major != 0 && of_major > driver_major) != is_newer) continue;
      for (const std::string& directory : directories) names.push_back(directory + name);
    }
  }
  return names;
}

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
  if (void* const other = FindLoaded(LoadedFiles())) {
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
  if (!path.empty()) return LoadNamed(path, api);
  const std::vector<std::string> files = LoadedFiles();
  if (void* const handle = FindLoaded(files)) return Use(handle, api);
  for (const std::string& candidate : Candidates(files)) {
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
