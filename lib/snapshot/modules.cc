// SPDX-License-Identifier: Apache-2.0
#include "snapshot/modules.h"

#include <link.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <string_view>
#include <utility>

#include "base/loader_lock.h"
#include "base/safe_read.h"
#include "pitot/trace.h"

namespace pitot::snapshot {
namespace {

uint64_t Mix(uint64_t hash, char c) noexcept { return (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3; }
uint64_t Mix(uint64_t hash, std::string_view bytes) noexcept {
  for (const char c : bytes) hash = Mix(hash, c);
  return hash;
}

// TSan does not see the loader's lock, which keeps the name.
__attribute__((no_sanitize("thread"))) uint64_t MixName(uint64_t hash, const char* name) noexcept {
  for (; name != nullptr && *name != '\0'; ++name) hash = Mix(hash, *name);
  return hash;
}

// A hash of its place, name, segments and notes, among them the build's id.
uint64_t IdentityOf(const dl_phdr_info& info) noexcept {
  uint64_t hash = MixName(info.dlpi_addr ^ 0xcbf29ce484222325, info.dlpi_name);
  hash = Mix(hash, {reinterpret_cast<const char*>(info.dlpi_phdr), info.dlpi_phnum * sizeof *info.dlpi_phdr});
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    char notes[512];
    const uint64_t size = std::min<uint64_t>(segment.p_memsz, sizeof notes);
    if (base::ReadMemory(info.dlpi_addr + segment.p_vaddr, notes, size)) hash = Mix(hash, {notes, size});
  }
  return hash;
}

}  // namespace

struct Modules::Looking {
  base::LastLibrary last;
  uint64_t subs = 0;
  bool has_failed = false;
  std::vector<Module> found = {};

  void See(const dl_phdr_info& info) {
    if (found.empty()) last.Remember();
    subs = info.dlpi_subs;
    Module module{~uint64_t{0}, 0, IdentityOf(info), 0};
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const auto& segment = info.dlpi_phdr[i];
      if (segment.p_type != PT_LOAD) continue;
      const uint64_t begin = info.dlpi_addr + segment.p_vaddr;
      module.begin = std::min(module.begin, begin);
      module.end = std::max(module.end, begin + segment.p_memsz);
    }
    found.push_back(module);
  }
};

void Modules::Look(bool slow_clock) noexcept {
  const base::MutexLock lock(&mutex_);
  if (last_.IsStillLast()) {
    looked_ticks_ = detail::Clock(slow_clock ? 1 : 0);
    return;
  }
  Looking looking;
  {
    const base::LoaderUse use;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t size, void* context) {
          auto* const it = static_cast<Looking*>(context);
          it->has_failed = size < offsetof(dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs;
          try {
            if (!it->has_failed) it->See(*info);
          } catch (const std::bad_alloc&) {
            it->has_failed = true;  // the next look tries again
          }
          return it->has_failed ? 1 : 0;
        },
        &looking);
  }
  if (looking.has_failed) return;
  const uint64_t looked_before = std::exchange(looked_ticks_, detail::Clock(slow_clock ? 1 : 0));
  const bool has_closed = looking.subs != subs_;
  // If one was closed, a new one may lie in its place.
  const uint64_t since_of_new = modules_.empty() ? 0 : has_closed ? looked_ticks_ : looked_before;
  for (Module& module : looking.found) {
    const auto before = std::find_if(modules_.begin(), modules_.end(),
                                     [&](const Module& known) { return known.identity == module.identity; });
    module.since = before != modules_.end() ? before->since : since_of_new;
  }
  modules_ = std::move(looking.found);
  subs_ = looking.subs;
  last_ = looking.last;
}

uint64_t Modules::LoadedSince(uint64_t address) const noexcept {
  const base::MutexLock lock(&mutex_);
  for (const Module& module : modules_) {
    if (address >= module.begin && address < module.end) return module.since;
  }
  return 0;
}

}  // namespace pitot::snapshot
