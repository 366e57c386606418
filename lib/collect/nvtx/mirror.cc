// SPDX-License-Identifier: Apache-2.0
#include "collect/nvtx/mirror.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/message.h"
#include "base/mutex.h"
#include "collect/nvtx/abi.h"
#include "trace/mirror.h"
#include "trace/names.h"

namespace pitot::nvtx {
namespace {

using abi::Attributes;

// The tables for the tool to fill.
constexpr unsigned kMostSlots = 17;  // of any module, and one more
constinit abi::Slot g_slots[abi::kModules][kMostSlots] = {};
constinit abi::Slot* g_tables[abi::kModules][kMostSlots] = {};

constinit base::Mutex g_mutex;
constinit bool g_watches_forks PITOT_GUARDED_BY(g_mutex) = false;
constinit bool g_is_loaded PITOT_GUARDED_BY(g_mutex) = false;
constinit char g_path[1024] PITOT_GUARDED_BY(g_mutex) = {};

constinit void* g_domain = nullptr;  // written before the mirror is set
// The tool's handle of each name, by the name's number. Null: not requested yet; kNoString: there is none.
constinit std::atomic<void*> g_strings[trace::kMaxNames] = {};
void* const kNoString = &g_strings;

// This thread's scopes begun at the tool and not ended yet.
constinit thread_local uint32_t t_told = 0;

template <class Function> Function SlotOf(abi::Module module, uint32_t slot) noexcept {
  return reinterpret_cast<Function>(g_slots[module][slot]);
}

int GetModuleTable(uint32_t module, abi::SlotTable* table, unsigned* size) noexcept {
  if (module == 0 || module >= abi::kModules) return 0;
  if (table != nullptr) *table = g_tables[module];
  if (size != nullptr) *size = abi::kModuleSizes[module];
  return 1;
}

const void* GetTable(uint32_t id) noexcept {
  static constexpr abi::Callbacks kCallbacks = {sizeof kCallbacks, GetModuleTable};
  static constexpr abi::VersionInfo kVersionInfo = {sizeof kVersionInfo, abi::kVersion, 0, [](uint32_t) {}};
  if (id == abi::kCallbacks) return &kCallbacks;
  return id == abi::kVersionInfo ? &kVersionInfo : nullptr;
}

// The tool's handle of a name, or kNoString.
void* Register(Name name) noexcept {
  const auto of_tool = SlotOf<void* (*)(void*, const char*)>(abi::kCore2, abi::kDomainRegisterStringA);
  if (of_tool == nullptr || name.index == 0) return kNoString;
  const base::MutexLock lock(&g_mutex);
  std::atomic<void*>& there = g_strings[name.index];
  if (void* const handle = there.load(std::memory_order_acquire)) return handle;
  char text[trace::kMaxNameBytes + 1];
  text[trace::NameText(name.index).copy(text, sizeof text - 1)] = '\0';
  void* handle = of_tool(g_domain, text);
  if (handle == nullptr) handle = kNoString;
  there.store(handle, std::memory_order_release);
  return handle;
}

void TellBegin(const Site* site, Name name) noexcept {
  const auto push = SlotOf<int (*)(void*, const Attributes*)>(abi::kCore2, abi::kDomainRangePushEx);
  if ((site->flags & kNameIsFirstArg) == 0) name = Intern(site->name);
  void* handle = g_strings[name.index].load(std::memory_order_acquire);
  if (handle == nullptr) handle = Register(name);
  const bool is_registered = handle != kNoString;
  char text[trace::kMaxNameBytes + 1];  // for an unregistered name
  if (!is_registered) text[trace::NameText(name.index).copy(text, sizeof text - 1)] = '\0';
  Attributes attributes = {};
  attributes.version = abi::kVersion;
  attributes.size = sizeof attributes;
  attributes.message_type = is_registered ? abi::kRegistered : abi::kAscii;
  attributes.message = is_registered ? handle : text;
  push(g_domain, &attributes);
  ++t_told;
}

void TellEnd() noexcept {
  if (t_told == 0) return;
  --t_told;
  SlotOf<int (*)(void*)>(abi::kCore2, abi::kDomainRangePop)(g_domain);
}

constexpr trace::Mirror kMirror = {TellBegin, TellEnd};

// When the process is forked, another thread may hold the mutex, within the tool. So the child makes it anew. A name
// being registered at that time is registered again.
bool WatchForks() noexcept PITOT_REQUIRES(g_mutex) {
  if (!g_watches_forks) g_watches_forks = pthread_atfork(nullptr, nullptr, [] { new (&g_mutex) base::Mutex; }) == 0;
  return g_watches_forks;
}

Status Load(const char* path) noexcept PITOT_REQUIRES(g_mutex) {
  if (!WatchForks()) return base::Error(StatusCode::kResourceExhausted, "no memory to watch forks");
  void* const tool = dlopen(path, RTLD_LAZY);
  if (tool == nullptr) {
    const char* const why = dlerror();
    return base::Error(StatusCode::kUnavailable, "%s=%s: %s", abi::kVariable, path,
                       why != nullptr ? why : "not loaded");
  }
  const auto enter = reinterpret_cast<abi::EntryPoint>(dlsym(tool, abi::kEntryPoint));
  for (unsigned module = 1; module < abi::kModules; ++module) {
    for (unsigned slot = 1; slot < abi::kModuleSizes[module]; ++slot) g_tables[module][slot] = &g_slots[module][slot];
  }
  if (enter == nullptr || enter(GetTable) == 0 || g_slots[abi::kCore2][abi::kDomainRangePushEx] == nullptr ||
      g_slots[abi::kCore2][abi::kDomainRangePop] == nullptr) {
    // The tool may have started threads, so it is not unloaded.
    return base::Error(StatusCode::kUnavailable, "%s=%s: it takes no ranges", abi::kVariable, path);
  }
  if (const auto create = SlotOf<void* (*)(const char*)>(abi::kCore2, abi::kDomainCreateA)) g_domain = create("pitot");
  std::snprintf(g_path, sizeof g_path, "%s", path);
  g_is_loaded = true;
  return {};
}

}  // namespace

Status BeginMirror(const char* path) noexcept {
  {
    const base::MutexLock lock(&g_mutex);
    if (g_is_loaded && std::strncmp(path, g_path, sizeof g_path - 1) != 0)
      return base::Error(StatusCode::kUnavailable, "%s=%s: scopes were mirrored to %s before, and it stays loaded",
                         abi::kVariable, path, g_path);
    if (Status status = g_is_loaded ? Status() : Load(path); !status.ok()) return status;
  }
  trace::SetMirror(trace::MirrorUse::kTool, &kMirror);
  return {};
}

void EndMirror() noexcept { trace::SetMirror(trace::MirrorUse::kTool, nullptr); }

}  // namespace pitot::nvtx
