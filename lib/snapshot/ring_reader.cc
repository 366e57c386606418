// SPDX-License-Identifier: Apache-2.0
#include "snapshot/ring_reader.h"

#include <algorithm>

#include "snapshot/record.h"

namespace pitot::snapshot {
namespace {

// Words copied between checks of their age: a few pages, so that little is copied in vain.
constexpr uint64_t kBlockWords = 4096;

// A reader that loses the CPU between two reads of the head tries again, until at most this many words are new, or this
// often.
constexpr uint64_t kFreshWords = 1024;
constexpr int kLooks = 16;

uint64_t Acquire(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

}  // namespace

void CopyOpenScopes(const trace::ThreadRing& ring, std::vector<OpenScopeCopy>* out) {
  for (uint32_t depth = 0; depth < detail::kMaxOpen; ++depth) {
    const detail::OpenScope& open = ring.open[depth];
    // The writer stores the site, then the begin, and zeroes the begin at the end. Equal begins around the read of the
    // site mean that the site belongs to them. Otherwise the scope was closed meanwhile, and its successor began later.
    const uint64_t before = Acquire(&open.begin);
    if (before == 0) continue;
    const Site* site = __atomic_load_n(&open.site, __ATOMIC_ACQUIRE);
    if (Acquire(&open.begin) != before) continue;
    OpenScopeCopy copy{reinterpret_cast<uintptr_t>(site), before};
    const trace::OpenArgs& args = ring.open_args[depth];
    if (Acquire(&args.begin) == before) {
      for (uint32_t i = 0; i < trace::kMaxOpenArgs; ++i) copy.args[i] = Acquire(&args.words[i]);
      if (Acquire(&args.begin) == before) copy.arg_words = trace::kMaxOpenArgs;
    }
    out->push_back(copy);
  }
}

void Settle(uint64_t fresh_words, RingCopy* copy) {
  RecordCursor cursor(copy->first, copy->last, copy->now_ticks);
  Record record;
  while (cursor.Next(&record)) {
    std::erase_if(copy->open, [&](const OpenScopeCopy& open) {
      return open.site == record.site && open.begin_ticks == record.begin_ticks;
    });
    if (static_cast<uint64_t>(copy->last - cursor.at()) <= fresh_words) continue;
    copy->cut_ticks = record.end_ticks;
    return;
  }
  if (fresh_words == 0) {
    copy->cut_ticks = copy->now_ticks;
    return;
  }
  // All of it was written while the open stack was read.
  copy->cut_ticks = 0;
  if (static_cast<uint64_t>(copy->last - copy->first) < fresh_words) copy->open.clear();
}

void CopyRing(const trace::ThreadRing& ring, uint64_t window_begin_ticks, Reserve* reserve, RingCopy* copy) {
  copy->open.reserve(detail::kMaxOpen);
  copy->number = ring.number;
  copy->tid = ring.tid;
  const trace::RingState state = ring.state;
  copy->exited = state != trace::RingState::kLive;
  copy->exit_ticks = state == trace::RingState::kRetired ? ring.exit_ticks : 0;
  copy->attach_ticks = ring.attach_ticks;

  // This order leaves nothing out. The context comes first: a change missed here is in the copy. The open scopes come
  // next, and the head last: scopes closed meanwhile are in the copy.
  const uint64_t capacity = ring.mask + 1;
  uint64_t before_open = 0, newest = 0;
  for (int looks = 0; looks == 0 || (newest - before_open > kFreshWords && looks < kLooks); ++looks) {
    copy->request = Acquire(&ring.request);
    copy->batch = Acquire(&ring.batch);
    before_open = Acquire(&ring.head);
    copy->open.clear();
    CopyOpenScopes(ring, &copy->open);
    copy->events = Acquire(&ring.events);
    copy->misnested = ring.misnested.load(std::memory_order_relaxed);
    newest = Acquire(&ring.head);
  }
  copy->now_ticks = detail::Clock(__atomic_load_n(&ring.gate, __ATOMIC_RELAXED));

  // The writer may be in the middle of a record of at most kMaxRecordWords beyond `newest`.
  const uint64_t intact = newest + detail::kMaxRecordWords > capacity ? newest + detail::kMaxRecordWords - capacity : 0;
  const uint64_t limit = std::max(intact, ring.floor);
  copy->oldest = limit == ring.floor ? Oldest::kAttach : Oldest::kOverwritten;
  const auto room = static_cast<uint64_t>(reserve->last - reserve->first);
  uint64_t* const last = reserve->last;
  uint64_t copied = newest;  // words [copied, newest) are at `last - (newest - copied)`
  uint64_t* oldest_record = last;
  uint64_t reference = copy->now_ticks;
  bool reached_window = false;

  while (copied > limit && !reached_window) {
    const uint64_t want = std::min(kBlockWords, copied - limit);
    const uint64_t have = room - (newest - copied);
    const uint64_t block = std::min(want, have);
    // Newest first: the words that the writer overtakes are then read last.
    uint64_t* out = last - (newest - copied);
    for (uint64_t i = 0; i < block; ++i) *--out = Acquire(&ring.words[--copied & ring.mask]);
    RecordCursor cursor(out, oldest_record, reference);
    Record record;
    while (cursor.Next(&record)) {
      oldest_record = const_cast<uint64_t*>(cursor.at());
      reference = record.end_ticks;
      if (record.end_ticks < window_begin_ticks) {
        reached_window = true;
        break;
      }
    }
    if (cursor.IsBroken()) {
      copy->oldest = Oldest::kBroken;
      break;
    }
    if (block < want && !reached_window) {
      copy->oldest = Oldest::kReserve;
      break;
    }
  }
  if (reached_window) copy->oldest = Oldest::kWindow;

  // Older words may have been overwritten while they were read. If any load returned a word of a later record, it
  // synchronised with that record's store. That store follows the store of the head read here.
  const uint64_t head = __atomic_load_n(&ring.head, __ATOMIC_RELAXED);
  const uint64_t surely = head + detail::kMaxRecordWords > capacity ? head + detail::kMaxRecordWords - capacity : 0;
  const uint64_t first_word = newest - static_cast<uint64_t>(last - oldest_record);
  uint64_t* first = reached_window || copy->oldest == Oldest::kBroken ? oldest_record : last - (newest - copied);
  if (surely > copied) {
    first = last - (newest - std::min(surely, newest));
    // An invalid record was just being overwritten.
    if (surely > first_word || copy->oldest == Oldest::kBroken) {
      copy->oldest = Oldest::kCopying;
      copy->lapped_words = std::min(surely, newest) - copied;
    }
  }
  if (first > last) first = last;
  copy->first = first;
  copy->last = last;
  reserve->last = first;
  Settle(newest - before_open, copy);
  copy->open.shrink_to_fit();  // thousands of threads have few open scopes
}

}  // namespace pitot::snapshot
