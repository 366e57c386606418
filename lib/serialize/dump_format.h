// SPDX-License-Identifier: Apache-2.0
//
// The native format's numbers for the encoder, which links no protobuf: the framing of chunks, and the fields of the
// messages in proto/pitot_dump.proto that are not tables. model/schema.h has the tables.
#ifndef PITOT_LIB_SERIALIZE_DUMP_FORMAT_H_
#define PITOT_LIB_SERIALIZE_DUMP_FORMAT_H_

#include <stdint.h>

#include <string>
#include <string_view>

#include "model/schema.h"

namespace pitot::dump_format {

inline constexpr uint32_t kVersionMajor = 1;
inline constexpr uint32_t kVersionMinor = schema::kNewestMinor;

// chunk := magic u32 | type u16 | flags u16 | payload size u32 | sequence u32 | crc32c u32 | payload; little endian.
// The CRC is that of the 16 bytes before it and the payload.
inline constexpr uint32_t kMagic = 0x54495089;  // 0x89 "PIT"
inline constexpr uint32_t kChunkHeaderBytes = 20;
// Writers end a chunk soon after it reaches its goal. A smaller goal for big rows lets a damaged chunk cost few of
// them.
inline constexpr uint32_t kPayloadGoalBytes = 56 << 10;
inline constexpr uint32_t kBigRowsGoalBytes = 4 << 10;
// Readers refuse larger payloads, except for strings.
inline constexpr uint32_t kPayloadMaxBytes = 1 << 20;

using schema::ChunkType;

// Field numbers, by message.
namespace header {
enum : uint32_t {
  kVersionMajor = 1,
  kVersionMinor = 2,
  kPid = 3,
  kProcessName = 4,
  kWindowBegin = 5,
  kWindowEnd = 6,
  kMonotonic = 7,
  kRealtime = 8,
  kBoottime = 9,
  kCycleCounter = 10,
  kTicksPerNs = 11,
  kPairWidth = 12,
};
}
// For tables: the number of the chunk's first row, or the row that all of its rows belong to.
inline constexpr uint32_t kFirstRow = 1, kRun = 1;
namespace strings {
enum : uint32_t { kSize = 2, kText };
}
namespace trailer {
enum : uint32_t { kChunks = 1, kRows = 2 };
}

// The message of a table: "GpuLosses" of "gpu_losses".
inline std::string MessageName(std::string_view table) {
  std::string name;
  bool is_first = true;
  for (const char c : table) {
    if (c != '_') name += static_cast<char>(is_first ? c - 'a' + 'A' : c);
    is_first = c == '_';
  }
  return name;
}

}  // namespace pitot::dump_format

#endif  // PITOT_LIB_SERIALIZE_DUMP_FORMAT_H_
