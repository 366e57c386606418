// SPDX-License-Identifier: Apache-2.0
#include "pitot/read/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "model/checks.h"
#include "model/schema.h"
#include "read/chunk_reader.h"
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

// Finds the chunks of a file and gives their payloads to a ChunkReader.
class DumpParser {
 public:
  DumpParser(const void* data, uint64_t size, Trace* trace, DumpReport* report)
      : data_(static_cast<const uint8_t*>(data)), size_(size), reader_(trace), report_(*report) {}

  Status Parse() {
    uint64_t at = 0;
    while (at < size_ && !has_trailer_) {
      if (!FindChunk(&at)) break;
      if (Status status = Take(at); !status.ok()) return status;
      at += dump_format::kChunkHeaderBytes + payload_size_;
    }
    if (!IsDump()) return Status(StatusCode::kInvalidArgument, kNoChunk);
    report_.bytes_skipped += size_ - std::min(at, size_);
    reader_.Finish();
    report_.rows_dropped = reader_.rows_dropped();
    report_.complete = has_trailer_ && trailer_agrees_;
    if (report_.complete && report_.chunks_bad == 0 && report_.rows_dropped == 0) return Status();
    reader_.AddDamage(report_.bytes_skipped);
    return Status(StatusCode::kDataLoss, !has_trailer_             ? "the dump is truncated"
                                         : report_.chunks_bad != 0 ? "the dump has bad chunks"
                                                                   : "the dump is incomplete");
  }

 private:
  uint32_t Load(uint64_t at, uint32_t bytes) const {
    uint32_t value = 0;
    for (uint32_t i = 0; i < bytes; ++i) value |= uint32_t{data_[at + i]} << (8 * i);
    return value;
  }
  // A file that ends within its first chunk may be the beginning of a dump.
  bool IsDump() const {
    if (report_.chunks + report_.chunks_unknown != 0) return true;
    return size_ == 0 || memcmp(data_, kMagicBytes, std::min<uint64_t>(size_, sizeof kMagicBytes)) == 0;
  }

  // True if a chunk with a right CRC begins at `at`; reads its header.
  bool IsChunk(uint64_t at) {
    if (size_ - at < dump_format::kChunkHeaderBytes || Load(at, 4) != dump_format::kMagic) return false;
    type_ = Load(at + 4, 2);
    flags_ = Load(at + 6, 2);
    payload_size_ = Load(at + 8, 4);
    sequence_ = Load(at + 12, 4);
    if (payload_size_ > size_ - at - dump_format::kChunkHeaderBytes) return false;
    const bool is_strings = type_ == static_cast<uint32_t>(ChunkType::kStrings);
    if (payload_size_ > (is_strings ? uint64_t{INT_MAX} : dump_format::kPayloadMaxBytes)) return false;
    // A file of many magics, each claiming a long chunk, would take too long if all were tried.
    bytes_tried_ += payload_size_;
    if (bytes_tried_ > kMaxTries * size_) return false;
    const uint32_t crc = serialize::ExtendCrc32c(serialize::ExtendCrc32c(0, data_ + at, 16),
                                                 data_ + at + dump_format::kChunkHeaderBytes, payload_size_);
    return crc == Load(at + 16, 4);
  }

  // Moves `at` to the next whole chunk with a new sequence number. False if there is none.
  bool FindChunk(uint64_t* at) {
    const uint64_t begin = *at;
    for (uint64_t next = begin; next < size_;) {
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
      const void* found = memchr(data_ + next + 1, dump_format::kMagic & 255, size_ - next - 1);
      next = found == nullptr ? size_ : static_cast<uint64_t>(static_cast<const uint8_t*>(found) - data_);
    }
    // The rest is a whole but bad chunk, or the beginning of a chunk.
    if (size_ - begin >= dump_format::kChunkHeaderBytes &&
        Load(begin + 8, 4) <= size_ - begin - dump_format::kChunkHeaderBytes) {
      ++report_.chunks_bad;
    }
    return false;
  }

  // Reads the chunk at `at` after its header. An error ends reading.
  Status Take(uint64_t at) {
    payload_ = data_ + at + dump_format::kChunkHeaderBytes;
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

  const uint8_t* data_;
  uint64_t size_;
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

class File {
 public:
  // Non-blocking, so that a pipe without a writer does not block the reader.
  explicit File(const char* path) : descriptor_(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

Status FileError(const std::string& path, int error) {
  const StatusCode code = error == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError;
  return Status(code, (path + ": " + strerror(error)).c_str());
}

// If a dump's first chunk is damaged, its second one begins within these bytes.
constexpr size_t kFirstBytes = 2 * (dump_format::kPayloadMaxBytes + dump_format::kChunkHeaderBytes);

// Does not map the file: a mapped file that shrinks kills its reader. Stops early if the file cannot be a dump.
Status ReadAll(const std::string& path, std::string* contents) {
  const File file(path.c_str());
  struct stat facts {};
  if (file.descriptor() < 0 || fstat(file.descriptor(), &facts) != 0) return FileError(path, errno);
  if (!S_ISREG(facts.st_mode)) return Status(StatusCode::kInvalidArgument, (path + ": not a regular file").c_str());
  const auto size = static_cast<size_t>(facts.st_size);
  contents->resize(std::min(size, kFirstBytes));
  size_t have = 0;
  while (have < size) {
    if (have == kFirstBytes) {
      if (memmem(contents->data(), have, kMagicBytes, sizeof kMagicBytes) == nullptr)
        return Status(StatusCode::kInvalidArgument, kNoChunk);
      contents->resize(size);
    }
    const ssize_t got = ::read(file.descriptor(), contents->data() + have, contents->size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, errno);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  contents->resize(have);
  return Status();
}

}  // namespace

Status ParseDump(const void* data, uint64_t size, Trace* trace, DumpReport* report) try {
  *trace = Trace();
  *report = DumpReport();
  Status status = DumpParser(data, size, trace, report).Parse();
  if (!status.ok() && status.code() != StatusCode::kDataLoss) {
    *trace = Trace();
    return status;
  }
  if (const std::string wrong = model::FindInconsistency(*trace); !wrong.empty()) {
    *trace = Trace();
    return Status(StatusCode::kInternal, ("the reader made an inconsistent trace: " + wrong).c_str());
  }
  return status;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::kResourceExhausted, "no memory for the dump");
}

Status ReadDump(const std::string& path, Trace* trace, DumpReport* report) try {
  *trace = Trace();
  *report = DumpReport();
  std::string contents;
  if (Status status = ReadAll(path, &contents); !status.ok()) return status;
  return ParseDump(contents.data(), contents.size(), trace, report);
} catch (const std::bad_alloc&) {
  return Status(StatusCode::kResourceExhausted, "no memory for the dump");
}

PITOT_NAMESPACE_END
