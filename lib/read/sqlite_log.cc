// SPDX-License-Identifier: Apache-2.0
#include "read/sqlite_log.h"

#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

namespace pitot::read {
namespace {

// After SQLite's file formats (fileformat2.html, section 4, and walformat.html).
constexpr size_t kLogHeadBytes = 32, kFrameHeadBytes = 24, kSummedOfLogHead = 24, kSummedOfFrameHead = 8;
constexpr uint32_t kMagic = 0x377f0682, kVersion = 3007000;  // the magic's last bit: sums are of big-endian words

bool IsMissing(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) != 0;
}
bool IsFile(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

struct Close {
  void operator()(FILE* file) const { fclose(file); }
};
using File = std::unique_ptr<FILE, Close>;

bool ReadWhole(FILE* file, unsigned char* bytes, size_t size) { return fread(bytes, 1, size, file) == size; }

uint32_t Big(const unsigned char* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}
uint32_t Little(const unsigned char* at) {
  return uint32_t{at[3]} << 24 | uint32_t{at[2]} << 16 | uint32_t{at[1]} << 8 | at[0];
}

// The sum over the log's words so far.
class Sum {
 public:
  explicit Sum(bool is_big) : is_big_(is_big) {}
  void Add(const unsigned char* at, size_t size) {
    for (const unsigned char* const end = at + size; at != end; at += 8) {
      first_ += Word(at) + second_;
      second_ += Word(at + 4) + first_;
    }
  }
  bool Is(const unsigned char* stored) const { return first_ == Big(stored) && second_ == Big(stored + 4); }

 private:
  uint32_t Word(const unsigned char* at) const { return is_big_ ? Big(at) : Little(at); }
  const bool is_big_;
  uint32_t first_ = 0, second_ = 0;
};

// Its first half. It is in the byte order of the machine that wrote it.
using IndexHead = std::array<unsigned char, 48>;

std::optional<IndexHead> ReadIndex(const std::string& path) {
  IndexHead head;
  const File file(fopen(path.c_str(), "rbe"));
  if (file == nullptr || !ReadWhole(file.get(), head.data(), head.size())) return std::nullopt;
  return head;
}

// How many frames the writer had finished; 0: unknown.
uint64_t FramesOf(const std::optional<IndexHead>& index) {
  constexpr size_t kIsInitialized = 12, kFrames = 16;
  if (!index || (*index)[kIsInitialized] == 0) return 0;
  uint32_t frames = 0;
  std::memcpy(&frames, index->data() + kFrames, sizeof frames);
  return frames;
}

// How many frames from the first one on are whole; nothing: its head is damaged.
std::optional<uint64_t> WholeFrames(FILE* file) {
  unsigned char head[kLogHeadBytes];
  if (!ReadWhole(file, head, sizeof head)) return 0;
  Sum sum((Big(head) & 1) != 0);
  sum.Add(head, kSummedOfLogHead);
  const uint32_t page = Big(head + 8);
  const bool is_page = page >= 512 && page <= 65536 && (page & (page - 1)) == 0;
  if ((Big(head) & ~1U) != kMagic || Big(head + 4) != kVersion || !is_page || !sum.Is(head + kSummedOfLogHead))
    return std::nullopt;
  std::vector<unsigned char> frame(kFrameHeadBytes + page);
  uint64_t frames = 0;
  while (ReadWhole(file, frame.data(), frame.size())) {
    const bool is_of_log = std::memcmp(frame.data() + 8, head + 16, 8) == 0;  // the salts
    sum.Add(frame.data(), kSummedOfFrameHead);
    sum.Add(frame.data() + kFrameHeadBytes, page);
    if (!is_of_log || !sum.Is(frame.data() + 16)) break;
    ++frames;
  }
  return frames;
}

}  // namespace

SqliteLog LookAtLog(const std::string& log, const std::string& index) {
  struct stat facts {};
  if (stat(log.c_str(), &facts) != 0) return SqliteLog::kNone;
  if (!S_ISREG(facts.st_mode)) return SqliteLog::kDamaged;
  if (facts.st_size == 0) return SqliteLog::kNone;
  const bool has_index = IsFile(index);
  if (!has_index && !IsMissing(index)) return SqliteLog::kDamaged;
  const std::optional<IndexHead> before = has_index ? ReadIndex(index) : std::nullopt;
  const File file(fopen(log.c_str(), "rbe"));
  if (file == nullptr) return SqliteLog::kDamaged;
  const std::optional<uint64_t> frames = WholeFrames(file.get());
  // A writer at work may have begun the log anew meanwhile.
  const bool has_changed = has_index && ReadIndex(index) != before;
  if (!frames || (*frames < FramesOf(before) && !has_changed)) return SqliteLog::kDamaged;
  if (!has_index) return *frames == 0 ? SqliteLog::kNone : SqliteLog::kNoIndex;
  return SqliteLog::kWhole;
}

bool IsHotJournal(const std::string& path) {
  constexpr unsigned char kMagicOfJournal[] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
  unsigned char head[sizeof kMagicOfJournal];
  if (!IsFile(path)) return !IsMissing(path);
  const File file(fopen(path.c_str(), "rbe"));
  return file != nullptr && ReadWhole(file.get(), head, sizeof head) &&
         std::memcmp(head, kMagicOfJournal, sizeof head) == 0;
}

}  // namespace pitot::read
