// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/memory_names.h"

namespace pitot::cupti {

const char* MemoryName(uint32_t kind) {
  switch (kind) {
    case 1:
      return "pageable";
    case 2:
      return "pinned";
    case 3:
      return "device";
    case 4:
      return "array";
    case 5:
      return "managed";
    default:
      return "memory";
  }
}

std::string CopyName(uint32_t detail) {
  return std::string(MemoryName(detail >> 8 & 255)) + " to " + MemoryName(detail & 255);
}

}  // namespace pitot::cupti
