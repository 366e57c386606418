// SPDX-License-Identifier: Apache-2.0
#include "trace/parent_only.h"

#include <sys/mman.h>

#include <new>

namespace pitot::trace {

bool WipeOnFork(void* memory, uint64_t bytes) noexcept {
  constexpr int kWipeOnFork = 18;  // MADV_WIPEONFORK
  return madvise(memory, bytes, kWipeOnFork) == 0;
}

namespace {

constexpr size_t kParentOnlyBytes = 4096;

constinit ParentOnly g_ordinary{{1}, {nullptr}};

}  // namespace

constinit std::atomic<ParentOnly*> g_parent_only{&g_ordinary};

bool MakeParentOnly() noexcept {
  if (g_parent_only.load() != &g_ordinary) return true;
  void* memory = mmap(nullptr, kParentOnlyBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  if (!WipeOnFork(memory, kParentOnlyBytes)) {
    munmap(memory, kParentOnlyBytes);
    return false;
  }
  auto* const made = new (memory) ParentOnly;
  made->slots.store(g_ordinary.slots.load());
  made->is_parent.store(1);
  g_parent_only.store(made, std::memory_order_release);
  return true;
}

void MakeParentOnlyAfterFork() noexcept { OfParent().is_parent.store(1); }

}  // namespace pitot::trace
