// SPDX-License-Identifier: Apache-2.0
#include "snapshot/site_finder.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/loader_lock.h"
#include "base/safe_read.h"
#include "pitot/trace.h"

namespace pitot::snapshot {
namespace {

constexpr uint64_t kChunkBytes = 64 << 10;

struct Range {
  uint64_t begin, end;
};

bool MayHoldSites(const dl_phdr_info& object, const ElfW(Phdr) & part) {
  return part.p_type == PT_GNU_RELRO || (object.dlpi_addr == 0 && part.p_type == PT_LOAD && part.p_flags == PF_R);
}

std::vector<Range> FindRanges() {
  struct Found {
    std::vector<Range> ranges;
    bool has_failed = false;
  } found;
  {
    const base::LoaderUse use;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* context) {
          auto* const it = static_cast<Found*>(context);
          try {
            for (int i = 0; i < object->dlpi_phnum; ++i) {
              const auto& part = object->dlpi_phdr[i];
              const uint64_t begin = object->dlpi_addr + part.p_vaddr;
              if (MayHoldSites(*object, part)) it->ranges.push_back({begin, begin + part.p_memsz});
            }
          } catch (const std::bad_alloc&) {
            it->has_failed = true;
          }
          return it->has_failed ? 1 : 0;
        },
        &found);
  }
  if (found.has_failed) throw std::bad_alloc();
  return std::move(found.ranges);
}

}  // namespace

std::vector<uint64_t> FindSites(size_t most, uint64_t most_bytes) {
  std::vector<uint64_t> sites, words(kChunkBytes / sizeof(uint64_t));
  uint64_t left_bytes = most_bytes;
  for (const Range& range : FindRanges()) {
    uint64_t at = (range.begin + alignof(Site) - 1) / alignof(Site) * alignof(Site);
    while (at + sizeof(Site) <= range.end && left_bytes != 0 && sites.size() < most) {
      // Memory that is gone again, because its library was closed, is left out.
      const uint64_t bytes = std::min({range.end - at, kChunkBytes, left_bytes}) / sizeof(uint64_t) * sizeof(uint64_t);
      if (bytes == 0 || !base::ReadMemory(at, words.data(), bytes)) break;
      for (uint64_t i = 0; i < bytes / sizeof(uint64_t) && sites.size() < most; ++i) {
        if (static_cast<uint32_t>(words[i]) == kSiteMagic) sites.push_back(at + i * sizeof(uint64_t));
      }
      at += bytes;
      left_bytes -= bytes;
    }
  }
  return sites;
}

}  // namespace pitot::snapshot
