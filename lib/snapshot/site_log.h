// SPDX-License-Identifier: Apache-2.0
//
// The sites and literals that records point to, written to the black box as they are first seen: their addresses mean
// nothing to another process. The sites of what is loaded at the start are written ahead: the program's own at once,
// most of its libraries' at the first look. For those of libraries loaded later, and for literals, the watcher looks at
// each ring's newest records now and then. So one of these that was first used right before the process died may have
// no name.
#ifndef PITOT_LIB_SNAPSHOT_SITE_LOG_H_
#define PITOT_LIB_SNAPSHOT_SITE_LOG_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "snapshot/record.h"
#include "snapshot/site_reader.h"
#include "trace/box.h"
#include "trace/rings.h"

namespace pitot::snapshot {

// What an entry of BoxHeader::sites begins with. A site's four texts follow (name, file, function, arguments), or one
// of a literal, each with its size before it (16 bits).
struct SiteLogEntry {
  uint64_t address;
  uint8_t is_literal;
  SiteKind kind;
  uint16_t flags;
  uint32_t line;
  uint32_t arg_types;
  uint8_t arg_count;
  uint8_t reserved[3];
};

class SiteLog {
 public:
  static constexpr size_t kMostSites = 16384;  // with literals
  static constexpr uint64_t kSearchedAtOnce = 4 << 20;

  // Writes ahead the sites in the first `searched_bytes` of what is loaded; the first look does the rest. False: the
  // black box has no room for them. Cost: 0.2 ms for each MiB.
  bool Begin(trace::Box* box, uint64_t searched_bytes = kSearchedAtOnce) noexcept;
  // Looks at what each ring has recorded since the last call, at most at the newest words of each. Threads: one, at
  // normal priority. May throw bad_alloc. Cost: a few us for each ring with new records; the first one up to 13 ms.
  void Look(const trace::PinnedRings& rings);

 private:
  static constexpr uint64_t kRoomBytes = 4 << 20, kMostWords = 2048;
  static constexpr size_t kMostAhead = 4096;
  static constexpr uint64_t kMostAheadBytes = kRoomBytes / 4, kMostSearchedBytes = 64 << 20;

  void NoteAhead(uint64_t searched_bytes);
  void LookAt(const trace::ThreadRing& ring);
  void Note(const Record& record);
  void NoteSite(uint64_t address);
  void NoteLiteral(uint64_t address);
  void AddSite(uint64_t address, const SiteText& text);

  trace::BoxLog log_;
  std::unordered_map<const trace::ThreadRing*, uint64_t> heads_;  // what was looked at
  std::unordered_map<uint64_t, uint32_t> sites_;                  // seen; the types of their arguments
  std::unordered_set<uint64_t> literals_;
  std::unordered_set<uint64_t> ahead_;  // written before anyone used them
  uint64_t ahead_bytes_ = 0;            // of their entries
  bool is_ahead_whole_ = false;
  std::vector<uint64_t> words_;
  std::string entry_;
};

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_SITE_LOG_H_
