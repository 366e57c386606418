// SPDX-License-Identifier: Apache-2.0
#include "snapshot/site_reader.h"

#include <cstring>

#include "base/safe_read.h"

namespace pitot::snapshot {
namespace {

constexpr uint64_t kMaxText = 512;

}  // namespace

SiteText UnloadedSite() {
  SiteText text;
  text.unloaded = true;
  text.name = "(unloaded)";
  return text;
}

SiteText ReadSite(uint64_t address) {
  SiteText text;
  alignas(Site) char bytes[sizeof(Site)];
  text.unloaded = !base::ReadMemory(address, bytes, sizeof bytes);
  Site site{};
  if (!text.unloaded) std::memcpy(&site, bytes, sizeof site);
  const auto kind = static_cast<uint8_t>(site.kind);
  text.unloaded = text.unloaded || site.magic != kSiteMagic || kind < 1 || kind > static_cast<uint8_t>(kLastSiteKind) ||
                  site.arg_count > 7;
  if (!text.unloaded) {
    text.unloaded = !base::ReadString(reinterpret_cast<uintptr_t>(site.name), kMaxText, &text.name) ||
                    !base::ReadString(reinterpret_cast<uintptr_t>(site.file), kMaxText, &text.file) ||
                    !base::ReadString(reinterpret_cast<uintptr_t>(site.function), kMaxText, &text.function) ||
                    !base::ReadString(reinterpret_cast<uintptr_t>(site.arg_text), kMaxText * 4, &text.arg_text);
  }
  if (text.unloaded) return UnloadedSite();
  text.kind = site.kind;
  text.flags = site.flags;
  text.arg_count = site.arg_count;
  text.line = site.line;
  text.arg_types = site.arg_types;
  return text;
}

}  // namespace pitot::snapshot
