// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/kineto.h"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

#include "base/loader_lock.h"
#include "base/safe_read.h"

namespace pitot::cupti {
namespace {

// Exports of libkineto, by their names in the Itanium C++ ABI.
using ApiFunction = void* (*)();           // libkineto::api(): the one object with the profiler
using IsActiveFunction = bool (*)(void*);  // libkineto::ActivityProfilerProxy::isActive()

struct Library {
  ApiFunction api = nullptr;
  IsActiveFunction is_active = nullptr;
  const void* vtable = nullptr;  // of ActivityProfilerProxy
};

constexpr const char* kApi = "_ZN9libkineto3apiEv";

// How many libraries were ever loaded and unloaded: a change is a reason to look again.
uint64_t LoaderEvents() {
  uint64_t events = 0;
  const base::LoaderUse use;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t size, void* out) {
        if (size >= offsetof(dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
          *static_cast<uint64_t*>(out) = info->dlpi_adds + info->dlpi_subs;
        return 1;
      },
      &events);
  return events;
}

// Looks in the global scope (a program linked with LibTorch), or in a library by its name (Python's).
Library Find() {
  Library found;
  const base::LoaderUse use;
  void* handle = dlopen(nullptr, RTLD_NOW);
  if (handle != nullptr && dlsym(handle, kApi) == nullptr) {
    dlclose(handle);
    handle = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  }
  if (handle == nullptr) return found;
  found.api = reinterpret_cast<ApiFunction>(dlsym(handle, kApi));
  found.is_active =
      reinterpret_cast<IsActiveFunction>(dlsym(handle, "_ZN9libkineto21ActivityProfilerProxy8isActiveEv"));
  found.vtable = dlsym(handle, "_ZTVN9libkineto21ActivityProfilerProxyE");
  dlclose(handle);  // it stays loaded: LibTorch cannot be unloaded
  return found;
}

// The profiler, once Kineto has made it: among the first words of the object, known by its table of virtual functions.
void* FindProfiler(const Library& library) {
  constexpr int kWords = 8;
  constexpr uintptr_t kVtableHead = 2 * sizeof(void*);  // before the first function
  void* words[kWords];
  if (!base::ReadMemory(reinterpret_cast<uintptr_t>(library.api()), words, sizeof words)) return nullptr;
  for (void* word : words) {
    uintptr_t parts[4];  // table, flag, configuration, controller
    if (word == nullptr || !base::ReadMemory(reinterpret_cast<uintptr_t>(word), parts, sizeof parts)) continue;
    if (parts[0] == reinterpret_cast<uintptr_t>(library.vtable) + kVtableHead)
      return parts[3] != 0 ? word : nullptr;  // without a controller it has never profiled
  }
  return nullptr;
}

}  // namespace

KinetoState AskKineto() noexcept {
  static Library library;
  static uint64_t looked_at = 0;
  if (library.api == nullptr) {
    const uint64_t events = LoaderEvents();
    if (events == looked_at) return KinetoState::kAbsent;
    looked_at = events;
    library = Find();
    if (library.api == nullptr) return KinetoState::kAbsent;
  }
  if (library.is_active == nullptr || library.vtable == nullptr) return KinetoState::kUnknown;
  // Once made it stays.
  static void* profiler = nullptr;
  if (profiler == nullptr) profiler = FindProfiler(library);
  if (profiler == nullptr) return KinetoState::kUnused;
  return library.is_active(profiler) ? KinetoState::kActive : KinetoState::kIdle;
}

}  // namespace pitot::cupti
