// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/stream_ids.h"

namespace pitot::cupti {

uint32_t StreamIds::Of(void* context, uint32_t context_id, void* handle, Default null) noexcept {
  if (api_ == nullptr || api_->get_stream_id == nullptr) return kUnknown;
  // Each thread has a default stream of its own.
  const bool is_per_thread = null == Default::kPerThread;
  const bool may_remember = is_told_.load(std::memory_order_relaxed) && !(handle == nullptr && is_per_thread);
  const uint64_t tag = uint64_t{era_.load(std::memory_order_relaxed)} << 32 | context_id;
  uint64_t known = 0;
  if (may_remember && known_.Find(tag, handle, &known)) return static_cast<uint32_t>(known);
  uint32_t id = kUnknown;
  const base::UntilExit::Entered entered(until_exit_);
  if (!entered || api_->get_stream_id(context, handle, is_per_thread ? 1 : 0, &id) != kSuccess) return kUnknown;
  if (may_remember && id != kUnknown) known_.Set(tag, handle, id);
  return id;
}

}  // namespace pitot::cupti
