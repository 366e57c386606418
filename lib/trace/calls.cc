// SPDX-License-Identifier: Apache-2.0
#include "trace/calls.h"

#include "trace/internal_sites.h"

namespace pitot::trace {

uint64_t BeginCall() noexcept {
  const detail::Ring* ring = detail::Enter();
  return ring != nullptr ? detail::Clock(ring->gate) : 0;
}

void EndCall(Name api, uint32_t correlation, uint64_t begin_ticks) noexcept {
  detail::Ring* ring = begin_ticks != 0 ? detail::Enter() : nullptr;
  if (ring == nullptr) return;
  RecordWords words;
  words.Add(correlation | uint64_t{api.index} << 32);
  detail::Append(ring, &kCallSite, begin_ticks, detail::Clock(ring->gate), words);
}

}  // namespace pitot::trace
