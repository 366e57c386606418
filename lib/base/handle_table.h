// SPDX-License-Identifier: Apache-2.0
//
// A value for each of the newest handles. Hooks in the host's calls read and write it: it takes no lock and no memory.
#ifndef PITOT_LIB_BASE_HANDLE_TABLE_H_
#define PITOT_LIB_BASE_HANDLE_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>

namespace pitot::base {

template <uint32_t kSlots> class HandleTable {
 public:
  // The tag belongs to the key. False: unknown, since another handle took its place, or one is being written there.
  // Threads: any, wait-free. Cost: a few loads.
  bool Find(uint64_t tag, const void* handle, uint64_t* value) const noexcept {
    const Slot& slot = slots_[SlotOf(tag, handle)];
    const uint32_t version = slot.version.load(std::memory_order_acquire);
    const bool is_it = version != 0 && version % 2 == 0 && slot.tag.load(std::memory_order_acquire) == tag &&
                       slot.handle.load(std::memory_order_acquire) == handle;
    if (!is_it) return false;
    *value = slot.value.load(std::memory_order_acquire);
    return slot.version.load(std::memory_order_relaxed) == version;
  }
  // Does nothing while another thread writes in its place.
  void Set(uint64_t tag, const void* handle, uint64_t value) noexcept {
    Slot& slot = slots_[SlotOf(tag, handle)];
    uint32_t version = slot.version.load(std::memory_order_relaxed);
    const bool is_ours =
        version % 2 == 0 && slot.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire);
    if (!is_ours) return;
    // Releases: whoever reads one of them finds that the version has changed.
    slot.tag.store(tag, std::memory_order_release);
    slot.handle.store(handle, std::memory_order_release);
    slot.value.store(value, std::memory_order_release);
    slot.version.store(version + 2, std::memory_order_release);
  }

 private:
  // Written by one thread at a time; the version is odd meanwhile. A reader takes it only if the version stayed the
  // same.
  struct Slot {
    std::atomic<uint32_t> version{0};
    std::atomic<uint64_t> tag{0}, value{0};
    std::atomic<const void*> handle{nullptr};
  };

  static uint32_t SlotOf(uint64_t tag, const void* handle) noexcept {
    const uint64_t hash = (reinterpret_cast<uintptr_t>(handle) + tag * 0xff51afd7ed558ccdu) * 0x9e3779b97f4a7c15u;
    return static_cast<uint32_t>(hash >> 32) % kSlots;
  }

  std::array<Slot, kSlots> slots_;
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_HANDLE_TABLE_H_
