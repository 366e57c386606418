// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/owned_memory.h"

#include <cstdlib>
#include <new>

namespace pitot::cupti {

void OwnedMemory::TakeFrom(const Strides& strides, const uint8_t* buffer, size_t valid) noexcept {
  ForEachOwned(strides, buffer, valid, [this](void* owned) {
    auto* const block = new (owned) Block{first_.load(std::memory_order_relaxed)};
    while (!first_.compare_exchange_weak(block->next, block, std::memory_order_release, std::memory_order_relaxed)) {}
  });
}

void OwnedMemory::FreeAll() noexcept {
  for (Block* block = first_.exchange(nullptr, std::memory_order_acquire); block != nullptr;) {
    Block* const next = block->next;
    free(block);
    block = next;
  }
}

}  // namespace pitot::cupti
