// SPDX-License-Identifier: Apache-2.0
//
// Memory that CUPTI allocates for a record and leaves to its reader to free() (cupti_activity.h,
// CUpti_ActivityOverhead3). It is ours once CUPTI has given the buffer back, whether we read it or not.
#ifndef PITOT_LIB_COLLECT_CUPTI_OWNED_MEMORY_H_
#define PITOT_LIB_COLLECT_CUPTI_OWNED_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collect/cupti/abi.h"
#include "collect/cupti/strides.h"

namespace pitot::cupti {

// The memory owned by a record of `stride` bytes; null: none.
inline void* OwnedBy(uint32_t kind, uint32_t stride, const uint8_t* record) {
  const bool may_own = kind == kOverhead && stride >= overhead::kReadWithData;
  return may_own ? Field<void*>(record, overhead::kOwnedData) : nullptr;
}

// Hands the memory owned by the whole records in `valid` bytes to `each`, up to the first record of unknown length.
// Cost: about 2 ns a record.
template <class Each> void ForEachOwned(const Strides& strides, const uint8_t* buffer, size_t valid, Each each) {
  for (size_t at = 0; valid - at >= sizeof(uint32_t);) {
    const auto kind = Field<uint32_t>(buffer + at, 0);
    const uint32_t stride = kind < strides.size() ? strides[kind] : 0;
    if (stride == 0 || stride > valid - at) return;
    if (void* const owned = OwnedBy(kind, stride, buffer + at)) each(owned);
    at += stride;
  }
}

// Memory owned by records that nobody will read. It cannot be freed at once, because CUPTI asks for their buffer on a
// thread of the host's. The blocks are their own list.
class OwnedMemory {
 public:
  ~OwnedMemory() { FreeAll(); }

  // Takes the memory of such records, as ForEachOwned. Threads: any, lock-free.
  void TakeFrom(const Strides& strides, const uint8_t* buffer, size_t valid) noexcept;
  // Frees all of it. Threads: any.
  void FreeAll() noexcept;

 private:
  struct Block {
    Block* next;
  };
  std::atomic<Block*> first_{nullptr};
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_OWNED_MEMORY_H_
