// SPDX-License-Identifier: Apache-2.0
#include "snapshot/site_log.h"

#include <errno.h>

#include <algorithm>
#include <new>
#include <string_view>

#include "snapshot/site_finder.h"
#include "snapshot/texts.h"
#include "trace/internal_sites.h"

namespace pitot::snapshot {
namespace {

void AddText(std::string_view text, std::string* entry) {
  const auto size = static_cast<uint16_t>(std::min<size_t>(text.size(), UINT16_MAX));
  entry->append(reinterpret_cast<const char*>(&size), sizeof size);
  entry->append(text.substr(0, size));
}

void SetHead(const SiteLogEntry& head, std::string* entry) {
  entry->assign(reinterpret_cast<const char*>(&head), sizeof head);
}

bool IsLiteral(uint32_t arg_types, uint32_t arg) {
  return static_cast<ArgType>(arg_types >> (4 * arg) & 15) == ArgType::kLiteral;
}

}  // namespace

bool SiteLog::Begin(trace::Box* box, uint64_t searched_bytes) noexcept {
  if (!log_.Begin(box, kRoomBytes, &box->header()->sites)) return false;
  try {
    // Without it a reader could not tell the records of one thread from those of the next.
    NoteSite(reinterpret_cast<uintptr_t>(&trace::kThreadEndSite));
    NoteAhead(searched_bytes);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return false;
  }
  return true;
}

void SiteLog::Look(const trace::PinnedRings& rings) {
  if (!log_.IsOpen()) return;
  if (!is_ahead_whole_) NoteAhead(kMostSearchedBytes);
  is_ahead_whole_ = true;
  words_.resize(kMostWords);
  for (const trace::ThreadRing* ring : rings) LookAt(*ring);
}

void SiteLog::LookAt(const trace::ThreadRing& ring) {
  for (const detail::OpenScope& open : ring.open) {
    if (__atomic_load_n(&open.begin, __ATOMIC_ACQUIRE) == 0) break;
    NoteSite(reinterpret_cast<uintptr_t>(__atomic_load_n(&open.site, __ATOMIC_ACQUIRE)));
  }
  const uint64_t head = __atomic_load_n(&ring.head, __ATOMIC_ACQUIRE);
  uint64_t& seen = heads_[&ring];
  if (head == seen) return;
  const trace::RingShape shape = trace::ShapeOf(ring);
  const uint64_t oldest = std::max({seen, ring.first_word, shape.OldestAt(head + detail::kMaxRecordWords),
                                    head > kMostWords ? head - kMostWords : 0});
  seen = head;
  if (oldest >= head) return;
  const uint64_t count = head - oldest;
  for (uint64_t i = 0; i < count; ++i)
    words_[i] = __atomic_load_n(&ring.words[shape.PlaceOf(oldest + i)], __ATOMIC_ACQUIRE);
  // Words that were overwritten meanwhile are no records: a false site is none, and is looked at once.
  const uint64_t now = __atomic_load_n(&ring.head, __ATOMIC_ACQUIRE);
  const uint64_t intact = trace::ShapeOf(ring).OldestAt(now + detail::kMaxRecordWords);
  const uint64_t first = std::clamp(intact, oldest, head) - oldest;
  RecordCursor cursor(words_.data() + first, words_.data() + count, trace::NowTicks(false));
  Record record;
  while (cursor.Next(&record)) Note(record);
}

void SiteLog::Note(const Record& record) {
  NoteSite(record.site);
  const auto site = sites_.find(record.site);
  if (site == sites_.end() || site->second == 0) return;
  for (uint32_t arg = 0; arg < std::min<uint32_t>(record.arg_words, 7); ++arg) {
    if (IsLiteral(site->second, arg)) NoteLiteral(record.args[arg]);
  }
}

void SiteLog::NoteSite(uint64_t address) {
  if (sites_.size() + literals_.size() >= kMostSites || sites_.contains(address)) return;
  const SiteText text = OwnTexts().Site(address);
  // The words of arguments are the types' only as long as none before is a text of several words.
  uint32_t literals = 0;
  for (uint32_t arg = 0; arg < text.arg_count; ++arg) {
    const auto type = static_cast<ArgType>(text.arg_types >> (4 * arg) & 15);
    if (type == ArgType::kString) break;
    if (type == ArgType::kLiteral) literals |= static_cast<uint32_t>(type) << (4 * arg);
  }
  sites_.emplace(address, literals);
  if (!text.unloaded) AddSite(address, text);
}

// A site that is used is written again: another library may lie there by then, and readers take the last entry.
void SiteLog::NoteAhead(uint64_t searched_bytes) {
  for (const uint64_t address : FindSites(kMostAhead, searched_bytes)) {
    if (ahead_bytes_ > kMostAheadBytes) return;
    if (!ahead_.insert(address).second) continue;
    const SiteText text = OwnTexts().Site(address);
    if (text.unloaded) continue;
    AddSite(address, text);
    ahead_bytes_ += entry_.size();
  }
}

void SiteLog::AddSite(uint64_t address, const SiteText& text) {
  SetHead({address, 0, text.kind, text.flags, text.line, text.arg_types, text.arg_count, {}}, &entry_);
  for (const std::string* part : {&text.name, &text.file, &text.function, &text.arg_text}) AddText(*part, &entry_);
  log_.Add(entry_.data(), static_cast<uint32_t>(entry_.size()));
}

void SiteLog::NoteLiteral(uint64_t address) {
  if (sites_.size() + literals_.size() >= kMostSites || !literals_.insert(address).second) return;
  std::string text;
  if (!OwnTexts().Literal(address, &text)) return;
  SetHead({address, 1, SiteKind::kScope, 0, 0, 0, 0, {}}, &entry_);
  AddText(text, &entry_);
  log_.Add(entry_.data(), static_cast<uint32_t>(entry_.size()));
}

}  // namespace pitot::snapshot
