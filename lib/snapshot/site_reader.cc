// SPDX-License-Identifier: Apache-2.0
#include "snapshot/site_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace pitot::snapshot {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMaxText = 512;

// Where process_vm_readv is forbidden: a pipe reports an unmapped source with EFAULT.
bool ReadThroughPipe(uint64_t address, void* out, uint64_t size) noexcept {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  bool whole = true;
  for (uint64_t done = 0; done < size && whole;) {
    const uint64_t part = std::min(size - done, kPage);
    whole = write(ends[1], reinterpret_cast<const void*>(address + done), part) == static_cast<ssize_t>(part) &&
            read(ends[0], static_cast<char*>(out) + done, part) == static_cast<ssize_t>(part);
    done += part;
  }
  close(ends[0]);
  close(ends[1]);
  return whole;
}

}  // namespace

bool ReadMemory(uint64_t address, void* out, uint64_t size) noexcept {
  static constinit std::atomic<bool> forbidden{false};
  if (!forbidden.load(std::memory_order_relaxed)) {
    const iovec to{out, size};
    const iovec from{reinterpret_cast<void*>(address), size};
    const ssize_t n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (n == static_cast<ssize_t>(size)) return true;
    if (n >= 0 || errno == EFAULT) return false;
    forbidden.store(true, std::memory_order_relaxed);
  }
  return ReadThroughPipe(address, out, size);
}

bool CanReadMemory() noexcept {
  const uint64_t word = 42;
  uint64_t copy = 0;
  return ReadMemory(reinterpret_cast<uintptr_t>(&word), &copy, sizeof copy) && copy == word;
}

bool ReadString(uint64_t address, uint64_t limit, std::string* out) {
  out->clear();
  char part[256];
  while (out->size() < limit) {
    const uint64_t at = address + out->size();
    // Up to the page's end: what follows it may not be mapped.
    const uint64_t size = std::min({static_cast<uint64_t>(sizeof part), kPage - at % kPage, limit - out->size()});
    if (!ReadMemory(at, part, size)) return false;
    const auto* end = static_cast<const char*>(std::memchr(part, 0, size));
    out->append(part, end != nullptr ? static_cast<size_t>(end - part) : size);
    if (end != nullptr) return true;
  }
  return true;
}

SiteText ReadSite(uint64_t address) {
  SiteText text;
  alignas(Site) char bytes[sizeof(Site)];
  text.unloaded = !ReadMemory(address, bytes, sizeof bytes);
  Site site{};
  if (!text.unloaded) std::memcpy(&site, bytes, sizeof site);
  const auto kind = static_cast<uint8_t>(site.kind);
  text.unloaded = text.unloaded || site.magic != kSiteMagic || kind < 1 ||
                  kind > static_cast<uint8_t>(SiteKind::kInternal) || site.arg_count > 7;
  if (!text.unloaded) {
    text.unloaded = !ReadString(reinterpret_cast<uintptr_t>(site.name), kMaxText, &text.name) ||
                    !ReadString(reinterpret_cast<uintptr_t>(site.file), kMaxText, &text.file) ||
                    !ReadString(reinterpret_cast<uintptr_t>(site.function), kMaxText, &text.function) ||
                    !ReadString(reinterpret_cast<uintptr_t>(site.arg_text), kMaxText * 4, &text.arg_text);
  }
  if (text.unloaded) {
    text = SiteText{};
    text.unloaded = true;
    text.name = "(unloaded)";
    return text;
  }
  text.kind = site.kind;
  text.flags = site.flags;
  text.arg_count = site.arg_count;
  text.line = site.line;
  text.arg_types = site.arg_types;
  return text;
}

}  // namespace pitot::snapshot
