// SPDX-License-Identifier: Apache-2.0
//
// Memory that CUPTI allocates for a record and leaves to whoever reads that to give to free() (cupti_activity.h,
// CUpti_ActivityOverhead3). It is ours once CUPTI has given the buffer back, whether we read it or not.
#ifndef PITOT_LIB_COLLECT_CUPTI_OWNED_MEMORY_H_
#define PITOT_LIB_COLLECT_CUPTI_OWNED_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collect/cupti/abi.h"
#include "collect/cupti/strides.h"

namespace pitot::cupti {

// What the record owns, of `stride` bytes; null: nothing.
inline void* OwnedBy(uint32_t kind, uint32_t stride, const uint8_t* record) {
  const bool may_own = kind == kOverhead && stride >= overhead::kReadWithData;
  return may_own ? Field<void*>(record, overhead::kOwnedData) : nullptr;
}

// Hands what the whole records in `valid` bytes own to `each`, up to the first of a kind whose length is not known.
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

// What records owned that nobody will read, until it is freed where that harms nobody: CUPTI asks for their buffer on a
// thread of the host's. The blocks are their own list.
class OwnedMemory {
 public:
  ~OwnedMemory() { FreeAll(); }

  // Of records as ForEachOwned. Threads: any, lock-free.
  void TakeFrom(const Strides& strides, const uint8_t* buffer, size_t valid) noexcept;
  // Threads: any.
  void FreeAll() noexcept;

 private:
  struct Block {
    Block* next;
  };
  std::atomic<Block*> first_{nullptr};
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_OWNED_MEMORY_H_
