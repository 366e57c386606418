// SPDX-License-Identifier: Apache-2.0
#ifndef PITOT_LIB_SERIALIZE_CRC32C_H_
#define PITOT_LIB_SERIALIZE_CRC32C_H_

#include <stdint.h>

namespace pitot::serialize {

// Returns the CRC-32C (Castagnoli) of the bytes that gave `crc` followed by `data`. Begin with 0.
// Cost: about 0.6 ns per byte.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, uint64_t size);

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_CRC32C_H_
