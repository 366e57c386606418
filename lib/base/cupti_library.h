// SPDX-License-Identifier: Apache-2.0
//
// Where the process's CUPTI is, for the collectors that open it.
#ifndef PITOT_LIB_BASE_CUPTI_LIBRARY_H_
#define PITOT_LIB_BASE_CUPTI_LIBRARY_H_

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/loader_lock.h"
#include "base/message.h"
#include "pitot/status.h"

namespace pitot::base {

inline std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }
inline std::string DirectoryOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? "." : path.substr(0, slash));
}

// "libcupti.so.13", "libcupti-0123abcd.so.12": wheels rename their bundled libraries.
inline bool IsLibrary(std::string_view path, std::string_view name) {
  const std::string_view base = BaseName(path);
  return base.substr(0, name.size()) == name && base.size() > name.size() &&
         (base[name.size()] == '.' || base[name.size()] == '-') && base.find(".so") != std::string_view::npos;
}

// Files loaded into this process.
inline std::vector<std::string> LoadedFiles() {
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
inline int MajorOf(std::string_view path) {
  const size_t at = BaseName(path).find(".so.");
  return at == std::string_view::npos ? 0 : std::atoi(std::string(BaseName(path).substr(at + 4)).c_str());
}

// A CUPTI that is there already: a second copy would be another tool to the driver.
inline void* FindLoadedCupti(const std::vector<std::string>& files) {
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
// linked runtime, of the CUPTI for the driver's CUDA, `driver_major` (0: unknown). A driver works with an older CUPTI,
// but hardly with a newer one.
inline std::vector<std::string> CuptiCandidates(const std::vector<std::string>& files, int driver_major) {
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
  if (major != 0) driver_major = 0;
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

// Opens the CUPTI of the process: the file `path`, unless another is loaded; for "" the loaded one, otherwise a likely
// one. `option` is the option with the path, for messages. The handle stays open.
inline Status OpenCupti(const std::string& path, int driver_major, const char* option, void** handle) {
  const LoaderUse use;
  const std::vector<std::string> files = LoadedFiles();
  if (!path.empty()) {
    *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (*handle != nullptr) return {};
    if (void* const other = FindLoadedCupti(files)) {
      dlclose(other);
      return Error(StatusCode::kUnavailable,
                   "%s is %s, and this process has loaded another CUPTI: leave the option out to use that one", option,
                   path.c_str());
    }
    *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    return *handle != nullptr ? Status() : Error(StatusCode::kNotFound, "cannot load CUPTI: %s", dlerror());
  }
  *handle = FindLoadedCupti(files);
  for (const std::string& candidate : CuptiCandidates(files, driver_major)) {
    if (*handle != nullptr) return {};
    *handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (*handle != nullptr) return {};
  return Error(StatusCode::kNotFound,
               "there is no libcupti: install the one of the process's CUDA (package cuda-cupti, or the PyPI wheel "
               "nvidia-cuda-cupti), or name it in %s",
               option);
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_CUPTI_LIBRARY_H_
