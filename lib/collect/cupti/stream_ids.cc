// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/stream_ids.h"

namespace pitot::cupti {

uint32_t StreamIds::Of(void* context, uint32_t context_id, void* handle, Default null) noexcept {
  if (api_ == nullptr || api_->get_stream_id == nullptr) return kUnknown;
  const auto key = reinterpret_cast<uintptr_t>(handle);
  // Each thread has a default stream of its own.
  const bool is_per_thread = null == Default::kPerThread;
  const bool may_remember = is_told_.load(std::memory_order_relaxed) && !(handle == nullptr && is_per_thread);
  const uint32_t era = era_.load(std::memory_order_relaxed);
  uint32_t id = kUnknown;
  if (may_remember && Find(era, context_id, key, &id)) return id;
  const UntilExit::Entered entered(until_exit_);
  if (!entered || api_->get_stream_id(context, handle, is_per_thread ? 1 : 0, &id) != kSuccess) return kUnknown;
  if (may_remember && id != kUnknown) Remember(era, context_id, key, id);
  return id;
}

uint32_t StreamIds::SlotOf(uint32_t context_id, uintptr_t handle) noexcept {
  const uint64_t hash = (handle ^ uint64_t{context_id} << 48) * 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>(hash >> 32) % kSlots;
}

bool StreamIds::Find(uint32_t era, uint32_t context_id, uintptr_t handle, uint32_t* id) const noexcept {
  const Slot& slot = slots_[SlotOf(context_id, handle)];
  const uint32_t version = slot.version.load(std::memory_order_acquire);
  const bool is_it = version % 2 == 0 && slot.era.load(std::memory_order_acquire) == era &&
                     slot.context_id.load(std::memory_order_acquire) == context_id &&
                     slot.handle.load(std::memory_order_acquire) == handle;
  if (!is_it) return false;
  *id = slot.id.load(std::memory_order_acquire);
  return slot.version.load(std::memory_order_relaxed) == version;
}

void StreamIds::Remember(uint32_t era, uint32_t context_id, uintptr_t handle, uint32_t id) noexcept {
  Slot& slot = slots_[SlotOf(context_id, handle)];
  uint32_t version = slot.version.load(std::memory_order_relaxed);
  const bool is_ours =
      version % 2 == 0 && slot.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire);
  if (!is_ours) return;  // another writes it
  // Releases: whoever reads one of them finds that the version has changed.
  slot.era.store(era, std::memory_order_release);
  slot.context_id.store(context_id, std::memory_order_release);
  slot.handle.store(handle, std::memory_order_release);
  slot.id.store(id, std::memory_order_release);
  slot.version.store(version + 2, std::memory_order_release);
}

}  // namespace pitot::cupti
