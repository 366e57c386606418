// SPDX-License-Identifier: Apache-2.0
#include "base/safe_read.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace pitot::base {
namespace {

constexpr uint64_t kPage = 4096;

// For systems that forbid process_vm_readv: a pipe reports an unmapped source with EFAULT.
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
    // Up to the page's end: the next page may not be mapped.
    const uint64_t size = std::min({static_cast<uint64_t>(sizeof part), kPage - at % kPage, limit - out->size()});
    if (!ReadMemory(at, part, size)) return false;
    const auto* end = static_cast<const char*>(std::memchr(part, 0, size));
    out->append(part, end != nullptr ? static_cast<size_t>(end - part) : size);
    if (end != nullptr) return true;
  }
  return true;
}

}  // namespace pitot::base
