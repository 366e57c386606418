// SPDX-License-Identifier: Apache-2.0
#include "pitot/read/dump.h"

#include <limits.h>
#include <string.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <string>

#include "model/checks.h"
#include "model/schema.h"
#include "read/chunk_reader.h"
#include "read/dump_bytes.h"
#include "serialize/crc32c.h"
#include "serialize/dump_format.h"
#include "serialize/proto/pitot_dump.pb.h"

PITOT_NAMESPACE_BEGIN
namespace {

namespace proto = ::pitot::dump::v1;
using model::Trace;
using schema::ChunkType;

constexpr uint8_t kMagicBytes[] = {dump_format::kMagic & 255, dump_format::kMagic >> 8 & 255,
                                   dump_format::kMagic >> 16 & 255, dump_format::kMagic >> 24};

constexpr const char* kNoChunk = "not a pitot dump: no whole chunk in it";

bool MakesSense(const proto::Header& header) {
  using schema::IsTime;
  return IsTime(header.window_begin_ns()) && IsTime(header.window_end_ns()) && IsTime(header.monotonic_ns()) &&
         IsTime(header.realtime_ns()) && IsTime(header.boottime_ns()) &&
         header.window_begin_ns() <= header.window_end_ns();
}

uint32_t Load(const uint8_t* from, uint32_t bytes) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < bytes; ++i) value |= uint32_t{from[i]} << (8 * i);
  return value;
}

// Finds the chunks of a file and gives their payloads to a ChunkReader.
class DumpParser {
 public:
  DumpParser(read::DumpBytes* bytes, Trace* trace, DumpReport* report)
      : bytes_(*bytes), reader_(trace), report_(*report) {}

  Status Parse() {
    uint64_t at = 0;
    while (at < bytes_.size() && !has_trailer_) {
      if (!FindChunk(&at)) break;
      if (Status status = Take(at); !status.ok()) return status;
      at += dump_format::kChunkHeaderBytes + payload_size_;
    }
    if (!bytes_.status().ok()) return bytes_.status();
    if (!IsDump()) return Status(StatusCode::kInvalidArgument, kNoChunk);
    report_.bytes_skipped += bytes_.size() - std::min(at, bytes_.size());
    reader_.Finish();
    report_.rows_dropped = reader_.rows_dropped();
    report_.complete = has_trailer_ && trailer_agrees_;
    if (report_.complete && report_.chunks_bad == 0 && report_.rows_dropped == 0) return Status();
    reader_.AddDamage(report_.bytes_skipped);
    return Status(StatusCode::kDataLoss, !has_trailer_             ? "the dump is truncated"
                                         : report_.chunks_bad != 0 ? "the dump has bad chunks"
                                                                   : "the dump is incomplete");
  }

  // Only the first chunk.
  Status ParseHead() {
    if (!IsChunk(0) || sequence_ != 0) return Status(StatusCode::kDataLoss, "the dump's first chunk is damaged");
    if (Status status = Take(0); !status.ok()) return status;
    return report_.chunks == 1 ? Status() : Status(StatusCode::kDataLoss, "the dump's first chunk is damaged");
  }

 private:
  // A file that ends within its first chunk may be the beginning of a dump.
  bool IsDump() {
    if (report_.chunks + report_.chunks_unknown != 0) return true;
    const uint64_t first = std::min<uint64_t>(bytes_.size(), sizeof kMagicBytes);
    const uint8_t* const begin = bytes_.At(0, first);
    return begin == nullptr || memcmp(begin, kMagicBytes, first) == 0;
  }

  // True if a chunk with a right CRC begins at `at`; reads its header.
  bool IsChunk(uint64_t at) {
    const uint8_t* const header = bytes_.At(at, dump_format::kChunkHeaderBytes);
    if (header == nullptr || Load(header, 4) != dump_format::kMagic) return false;
    type_ = Load(header + 4, 2);
    flags_ = Load(header + 6, 2);
    payload_size_ = Load(header + 8, 4);
    sequence_ = Load(header + 12, 4);
    const uint32_t crc = Load(header + 16, 4);
    if (payload_size_ > bytes_.size() - at - dump_format::kChunkHeaderBytes) return false;
    const bool is_strings = type_ == static_cast<uint32_t>(ChunkType::kStrings);
    if (payload_size_ > (is_strings ? uint64_t{INT_MAX} : dump_format::kPayloadMaxBytes)) return false;
    // A file of many magics, each claiming a long chunk, would take too long if all were tried.
    bytes_tried_ += payload_size_;
    if (bytes_tried_ > kMaxTries * bytes_.size()) return false;
    return HasCrc(at + dump_format::kChunkHeaderBytes, serialize::ExtendCrc32c(0, header, 16), crc);
  }
  // Whether the payload at `at` extends a CRC to `wanted`. In steps, so that only a right one is in memory as a whole.
  bool HasCrc(uint64_t at, uint32_t crc, uint32_t wanted) {
    for (const uint64_t end = at + payload_size_; at < end;) {
      const uint64_t step = std::min<uint64_t>(end - at, dump_format::kPayloadMaxBytes);
      const uint8_t* const part = bytes_.At(at, step);
      if (part == nullptr) return false;
      crc = serialize::ExtendCrc32c(crc, part, step);
      at += step;
    }
    return crc == wanted;
  }

  // Moves `at` to the next whole chunk with a new sequence number. False if there is none.
  bool FindChunk(uint64_t* at) {
    const uint64_t begin = *at;
    for (uint64_t next = begin; next < bytes_.size();) {
      if (IsChunk(next) && sequence_ >= next_sequence_) {
        *at = next;
        if (next != begin || sequence_ != next_sequence_) {
          // The sequence numbers tell how many are missing, up to the number that fits into the gap.
          report_.chunks_bad +=
              std::min<uint64_t>(sequence_ - next_sequence_, (next - begin) / dump_format::kChunkHeaderBytes + 1);
        }
        report_.bytes_skipped += next - begin;
        next_sequence_ = uint64_t{sequence_} + 1;
        return true;
      }
      next = bytes_.Find(dump_format::kMagic & 255, next + 1);
    }
    // The rest is a whole but bad chunk, or the beginning of a chunk.
    const uint8_t* const rest = bytes_.At(begin, dump_format::kChunkHeaderBytes);
    if (rest != nullptr && Load(rest + 8, 4) <= bytes_.size() - begin - dump_format::kChunkHeaderBytes)
      ++report_.chunks_bad;
    return false;
  }

  // Reads the chunk at `at` after its header. An error ends reading.
  Status Take(uint64_t at) {
    payload_ = bytes_.At(at + dump_format::kChunkHeaderBytes, payload_size_);
    if (payload_ == nullptr) return Status();  // the file has shrunk meanwhile
    const ChunkType type = static_cast<ChunkType>(type_);
    if (flags_ != 0 || type_ == 0 || type_ >= schema::kTypeCount) {
      ++report_.chunks_unknown;
      return Status();
    }
    bool is_good = (type == ChunkType::kHeader) == (sequence_ == 0);
    if (is_good && type == ChunkType::kHeader) {
      proto::Header header;
      is_good = Parse(&header);
      if (is_good) {
        report_.version_major = header.version_major();
        report_.version_minor = header.version_minor();
        if (header.version_major() != dump_format::kVersionMajor) {
          const std::string message = "a dump of version " + std::to_string(header.version_major()) +
                                      "; this reader knows " + std::to_string(dump_format::kVersionMajor);
          return Status(StatusCode::kInvalidArgument, message.c_str());
        }
        is_good = MakesSense(header);
        if (is_good) reader_.Header(header);
      }
    } else if (is_good && type == ChunkType::kTrailer) {
      proto::Trailer trailer;
      is_good = Parse(&trailer);
      if (is_good) TakeTrailer(trailer);
    } else if (is_good) {
      is_good = reader_.Add(type, payload_, static_cast<int>(payload_size_));
    }
    ++(is_good ? report_.chunks : report_.chunks_bad);
    return Status();
  }

  template <class Message> bool Parse(Message* message) const {
    return message->ParseFromArray(payload_, static_cast<int>(payload_size_));
  }

  void TakeTrailer(const proto::Trailer& trailer) {
    has_trailer_ = true;
    trailer_agrees_ = trailer.chunks() == report_.chunks + report_.chunks_unknown;
    const int tables = std::min(trailer.rows_size(), static_cast<int>(schema::kTypeCount));
    for (int i = 0; i < tables; ++i) {
      if (trailer.rows(i) != reader_.rows()[static_cast<size_t>(i)]) trailer_agrees_ = false;
    }
  }

  static constexpr uint64_t kMaxTries = 8;

  read::DumpBytes& bytes_;
  read::ChunkReader reader_;
  DumpReport& report_;
  uint64_t bytes_tried_ = 0;
  uint64_t next_sequence_ = 0;
  bool has_trailer_ = false;
  bool trailer_agrees_ = false;
  // For the current chunk.
  uint32_t type_ = 0;
  uint32_t flags_ = 0;
  uint32_t sequence_ = 0;
  uint64_t payload_size_ = 0;
  const uint8_t* payload_ = nullptr;
};

// If a dump's first chunk is damaged, its second one begins within these bytes.
constexpr uint64_t kFirstBytes = 2 * (dump_format::kPayloadMaxBytes + dump_format::kChunkHeaderBytes);

// Whether a file, which may be large, has no place where a chunk may begin among its first bytes.
bool CannotBeDump(read::DumpBytes* bytes) {
  if (bytes->size() <= kFirstBytes) return false;
  const uint8_t* const first = bytes->At(0, kFirstBytes);
  return first != nullptr && memmem(first, kFirstBytes, kMagicBytes, sizeof kMagicBytes) == nullptr;
}

Status Read(read::DumpBytes* bytes, Trace* trace, DumpReport* report) {
  Status status = DumpParser(bytes, trace, report).Parse();
  if (!status.ok() && status.code() != StatusCode::kDataLoss) {
    *trace = Trace();
    return status;
  }
  if (const std::string wrong = model::FindInconsistency(*trace); !wrong.empty()) {
    *trace = Trace();
    return Status(StatusCode::kInternal, ("the reader made an inconsistent trace: " + wrong).c_str());
  }
  return status;
}

}  // namespace

Status ParseDump(const void* data, uint64_t size, Trace* trace, DumpReport* report) try {
  *trace = Trace();
  *report = DumpReport();
  read::DumpBytes bytes(data, size);
  return Read(&bytes, trace, report);
} catch (const std::bad_alloc&) {
  return Status(StatusCode::kResourceExhausted, "no memory for the dump");
}

Status ReadDumpHead(const std::string& path, Trace* trace) try {
  constexpr size_t kHeadBytes = 4096;
  *trace = Trace();
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return Status(StatusCode::kNotFound, (path + " cannot be opened").c_str());
  char first[kHeadBytes];
  file.read(first, sizeof first);
  read::DumpBytes bytes(first, static_cast<uint64_t>(file.gcount()));
  DumpReport report;
  return DumpParser(&bytes, trace, &report).ParseHead();
} catch (const std::bad_alloc&) {
  return Status(StatusCode::kResourceExhausted, "no memory for the dump");
}

Status ReadDump(const std::string& path, Trace* trace, DumpReport* report) try {
  *trace = Trace();
  *report = DumpReport();
  read::DumpBytes bytes(path);
  if (!bytes.status().ok()) return bytes.status();
  if (CannotBeDump(&bytes)) return Status(StatusCode::kInvalidArgument, kNoChunk);
  return Read(&bytes, trace, report);
} catch (const std::bad_alloc&) {
  return Status(StatusCode::kResourceExhausted, "no memory for the dump");
}

PITOT_NAMESPACE_END
