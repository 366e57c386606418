// SPDX-License-Identifier: Apache-2.0
#include "serialize/crc32c.h"

#include <array>

namespace pitot::serialize {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bits reversed

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b] is the effect on the CRC of byte b with k more bytes after it.
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (uint32_t k = 1; k < 8; ++k) tables[k][byte] = tables[k - 1][byte] >> 8 ^ tables[0][tables[k - 1][byte] & 255];
  }
  return tables;
}
constexpr Tables kTables = MakeTables();

uint32_t Load32(const uint8_t* at) {
  return uint32_t{at[0]} | uint32_t{at[1]} << 8 | uint32_t{at[2]} << 16 | uint32_t{at[3]} << 24;
}

}  // namespace

uint32_t ExtendCrc32c(uint32_t crc, const void* data, uint64_t size) {
  const uint8_t* at = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (; size >= 8; at += 8, size -= 8) {
    const uint32_t low = crc ^ Load32(at), high = Load32(at + 4);
    crc = kTables[7][low & 255] ^ kTables[6][low >> 8 & 255] ^ kTables[5][low >> 16 & 255] ^ kTables[4][low >> 24] ^
          kTables[3][high & 255] ^ kTables[2][high >> 8 & 255] ^ kTables[1][high >> 16 & 255] ^ kTables[0][high >> 24];
  }
  for (; size > 0; ++at, --size) crc = crc >> 8 ^ kTables[0][(crc ^ *at) & 255];
  return ~crc;
}

}  // namespace pitot::serialize
