// SPDX-License-Identifier: Apache-2.0
#include "ends/module_map.h"

#include <errno.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "base/last_library.h"
#include "base/loader_lock.h"
#include "base/safe_read.h"

namespace pitot::ends {
namespace {

constexpr uint32_t kMostModules = 512;

struct Map {
  uint32_t count = 0;
  MappedModule modules[kMostModules];
};

// Handlers read the newest of two; the other is the next to be written. So what a handler reads is valid until the
// second change after it began.
constinit std::atomic<Map*> g_maps[2]{};
constinit std::atomic<uint64_t> g_changes{0};
constinit std::atomic<bool> g_is_looking{false};  // guards the next
constinit base::LastLibrary g_last;

Map* MapOf(uint64_t changes) noexcept { return g_maps[changes % 2].load(); }

// The build's id among a segment's notes.
void PutBuildId(uint64_t address, uint64_t bytes, MappedModule* module) noexcept {
  constexpr uint64_t kName = 4;  // "GNU"
  char notes[1024];
  bytes = std::min<uint64_t>(bytes, sizeof notes);
  if (!base::ReadMemory(address, notes, bytes)) return;
  const auto padded = [](uint64_t size) { return (size + 3) / 4 * 4; };
  for (uint64_t at = 0; at + sizeof(ElfW(Nhdr)) <= bytes;) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes + at, sizeof header);
    const uint64_t id = at + sizeof header + padded(header.n_namesz), end = id + padded(header.n_descsz);
    if (end > bytes || end <= at) return;
    const bool is_gnu = header.n_namesz == kName && std::memcmp(notes + at + sizeof header, "GNU", kName) == 0;
    if (is_gnu && header.n_type == NT_GNU_BUILD_ID) {
      module->build_id_bytes = std::min<uint32_t>(header.n_descsz, sizeof module->build_id);
      std::memcpy(module->build_id, notes + id, module->build_id_bytes);
      return;
    }
    at = end;
  }
}

void PutName(const char* name, MappedModule* module) noexcept {
  char program[4096];
  if (name == nullptr || name[0] == '\0') {
    const ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    program[std::max<ssize_t>(size, 0)] = '\0';
    name = program;
  }
  const size_t size = std::strlen(name), kept = std::min(size, sizeof module->name - 1);
  std::memcpy(module->name, name + size - kept, kept);
}

MappedModule ModuleOf(const dl_phdr_info& info) noexcept {
  MappedModule module{};
  module.begin = ~uint64_t{0};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    const uint64_t begin = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_NOTE && module.build_id_bytes == 0) PutBuildId(begin, segment.p_memsz, &module);
    if (segment.p_type != PT_LOAD) continue;
    module.begin = std::min(module.begin, begin);
    module.end = std::max(module.end, begin + segment.p_memsz);
  }
  PutName(info.dlpi_name, &module);
  return module;
}

bool MakeMaps() noexcept {
  for (auto& map : g_maps) {
    if (map.load() == nullptr) map.store(new (std::nothrow) Map);
  }
  return g_maps[0].load() != nullptr && g_maps[1].load() != nullptr;
}

}  // namespace

void LookForModules() noexcept {
  if (g_is_looking.exchange(true)) return;
  if (!g_last.IsStillLast() && MakeMaps()) {
    const uint64_t changes = g_changes.load();
    Map* const next = MapOf(changes + 1);
    next->count = 0;
    {
      const base::LoaderUse use;
      dl_iterate_phdr(
          [](dl_phdr_info* info, size_t, void* context) {
            auto* const map = static_cast<Map*>(context);
            if (map->count == 0) g_last.Remember();
            if (map->count < kMostModules) map->modules[map->count++] = ModuleOf(*info);
            return 0;
          },
          next);
    }
    g_changes.store(changes + 1);
  }
  g_is_looking.store(false);
}

void ForgetLookAfterFork() noexcept { g_is_looking.store(false); }

bool FindModule(uint64_t address, MappedModule* module) noexcept {
  const uint64_t changes = g_changes.load();
  const Map* const map = MapOf(changes);
  if (map == nullptr) return false;
  const MappedModule* const end = map->modules + map->count;
  const auto found =
      std::find_if(map->modules, end, [&](const MappedModule& it) { return address >= it.begin && address < it.end; });
  if (found == end) return false;
  *module = *found;
  return g_changes.load() == changes;
}

}  // namespace pitot::ends
