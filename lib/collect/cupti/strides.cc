// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/strides.h"

#include <algorithm>
#include <vector>

namespace pitot::cupti {

Strides ProbeStrides(const Api& api) {
  constexpr size_t kWords = 1024;  // room for two records of the longest kind, many times over
  std::vector<uint64_t> memory(kWords);
  auto* const buffer = reinterpret_cast<uint8_t*>(memory.data());
  const size_t bytes = kWords * sizeof(uint64_t);
  Strides strides{};
  for (uint32_t kind = 1; kind < kKindCount; ++kind) {
    if (BytesRead(kind) == 0) continue;
    std::fill(memory.begin(), memory.end(), uint64_t{kind} << 32 | kind);
    uint8_t* first = nullptr;
    if (api.activity_get_next_record(buffer, bytes, &first) != kSuccess || first != buffer) continue;
    uint8_t* second = first;
    if (api.activity_get_next_record(buffer, bytes, &second) != kSuccess || second <= first) continue;
    const auto stride = static_cast<uint64_t>(second - first);
    if (stride >= BytesRead(kind) && stride % 8 == 0 && stride <= bytes / 2)
      strides[kind] = static_cast<uint32_t>(stride);
  }
  return strides;
}

}  // namespace pitot::cupti
