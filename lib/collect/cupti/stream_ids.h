// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's ids of streams, by handle. CUPTI is asked on the host's thread, inside one of its own callbacks. It is asked
// once for each stream if it reports destroyed streams, because their handles may name others later; otherwise each
// time.
#ifndef PITOT_LIB_COLLECT_CUPTI_STREAM_IDS_H_
#define PITOT_LIB_COLLECT_CUPTI_STREAM_IDS_H_

#include <atomic>
#include <cstdint>

#include "base/handle_table.h"
#include "base/until_exit.h"
#include "collect/cupti/api.h"

namespace pitot::cupti {

class StreamIds {
 public:
  // Both live as long as this. Before Open, and if the library has no such function, no stream is known.
  void Open(const Api* api, base::UntilExit* until_exit) noexcept { api_ = api, until_exit_ = until_exit; }

  enum class Default : uint8_t { kLegacy, kPerThread };
  static constexpr uint32_t kUnknown = ~0u;
  // The id of a handle in the context with this id of CUPTI's. For a null handle, the default stream: `null` chooses
  // which. kUnknown: CUPTI does not tell, or the process exits. Threads: any, lock-free. Cost: a few loads if it is
  // remembered.
  uint32_t Of(void* context, uint32_t context_id, void* handle, Default null) noexcept;

  // Forgets all, because streams may have been destroyed. Threads: any, wait-free.
  void Forget() noexcept { era_.fetch_add(1, std::memory_order_relaxed); }
  // Sets whether Forget will be called before a stream is destroyed, from now on; forgets all. Thread: one.
  void SetTold(bool is_told) noexcept {
    is_told_.store(is_told, std::memory_order_relaxed);
    Forget();
  }

 private:
  const Api* api_ = nullptr;
  base::UntilExit* until_exit_ = nullptr;
  std::atomic<bool> is_told_{false};
  std::atomic<uint32_t> era_{1};
  base::HandleTable<256> known_;  // by handle, era and context
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_STREAM_IDS_H_
