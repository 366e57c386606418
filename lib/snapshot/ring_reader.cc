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

void CopyNewestEnd(const trace::ThreadRing& ring, uint64_t request, EndCopy* out) noexcept {
  constexpr uint64_t kMostWords = 256;
  const uint64_t head = ring.head;
  const trace::RingShape shape = trace::ShapeOf(ring);
  const uint64_t count = std::min(head - std::max(ring.floor, shape.OldestAt(head)), kMostWords);
  uint64_t words[kMostWords];
  for (uint64_t i = 0; i < count; ++i) words[i] = ring.words[shape.PlaceOf(head - count + i)];
  RecordCursor cursor(words, words + count, detail::Clock(ring.gate));
  Record record;
  while (cursor.Next(&record)) {
    if (record.site != reinterpret_cast<uintptr_t>(&trace::kRequestEndSite) ||
        record.arg_words < trace::kRequestFixedWords || record.arg_words > trace::kRequestMostWords ||
        record.args[0] != request)
      continue;
    out->thread = ring.number;
    out->count = record.arg_words;
    out->head = head;
    out->begin_ticks = record.begin_ticks;
    out->end_ticks = record.end_ticks;
    std::copy_n(record.args, record.arg_words, out->words);
    return;
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

namespace {

// The head of a ring around the read of its open scopes.
struct Heads {
  uint64_t before_open = 0, newest = 0;
};

// Copies the context, the open scopes and the counts. This order leaves nothing out. The context comes first: a change
// missed here is in the copy. The open scopes come next, and the head last: scopes closed meanwhile are in the copy.
Heads CopyState(const trace::ThreadRing& ring, RingCopy* copy) {
  Heads heads;
  for (int looks = 0; looks == 0 || (heads.newest - heads.before_open > kFreshWords && looks < kLooks); ++looks) {
    copy->request = Acquire(&ring.request);
    copy->batch = Acquire(&ring.batch);
    heads.before_open = Acquire(&ring.head);
    copy->open.clear();
    CopyOpenScopes(ring, &copy->open);
    copy->events = Acquire(&ring.events);
    copy->misnested = ring.misnested.load(std::memory_order_relaxed);
    heads.newest = Acquire(&ring.head);
  }
  return heads;
}

// The oldest word that the writer spares at this head: it may be in the middle of a record of at most kMaxRecordWords
// beyond it.
uint64_t IntactFrom(uint64_t head, const trace::RingShape& shape) {
  return shape.OldestAt(head + detail::kMaxRecordWords);
}

// Words on their way from a ring to the end of the reserve.
struct Words {
  uint64_t* last;
  uint64_t newest;
  uint64_t copied;          // words [copied, newest) are at `last - (newest - copied)`
  uint64_t* oldest_record;  // the first whole record
  uint64_t* At(uint64_t word) const { return last - (newest - word); }
};

// Copies records from the newest to the oldest, until one is older than the window. Returns why it ended.
Oldest CopyWords(const trace::ThreadRing& ring, uint64_t window_begin_ticks, uint64_t now_ticks, uint64_t room,
                 Words* words) {
  const trace::RingShape shape = trace::ShapeOf(ring);
  const uint64_t limit = std::max(IntactFrom(words->newest, shape), ring.first_word), newest = words->newest;
  uint64_t* const last = words->last;
  uint64_t copied = newest, reference = now_ticks;
  uint64_t* oldest_record = last;
  Oldest oldest = limit == ring.first_word ? Oldest::kAttach : Oldest::kOverwritten;
  bool reached_window = false;
  while (copied > limit && !reached_window) {
    // A block lies by one size of the ring.
    const uint64_t same_from = copied > shape.changed_at() ? std::max(limit, shape.changed_at()) : limit;
    const uint64_t want = std::min(kBlockWords, copied - same_from), mask = shape.MaskAt(copied - 1);
    const uint64_t have = room - (newest - copied);
    const uint64_t block = std::min(want, have);
    // Newest first: the words that the writer overtakes are then read last.
    uint64_t* out = last - (newest - copied);
    for (uint64_t i = 0; i < block; ++i) *--out = Acquire(&ring.words[--copied & mask]);
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
      oldest = Oldest::kBroken;
      break;
    }
    if (block < want && !reached_window) {
      oldest = Oldest::kReserve;
      break;
    }
  }
  words->copied = copied;
  words->oldest_record = oldest_record;
  return reached_window ? Oldest::kWindow : oldest;
}

// Leaves out the words that may have been overwritten while they were read. If any load returned a word of a later
// record, it synchronised with that record's store. That store follows the store of the head read here, and of the
// shape. Returns the first word of the copy.
uint64_t* LeaveOutOverwritten(const trace::ThreadRing& ring, const Words& words, RingCopy* copy) {
  const uint64_t head = Acquire(&ring.head);
  const uint64_t intact = IntactFrom(head, trace::ShapeOf(ring));
  const bool is_broken = copy->oldest == Oldest::kBroken;
  if (intact <= words.copied)
    return is_broken || copy->oldest == Oldest::kWindow ? words.oldest_record : words.At(words.copied);
  const uint64_t first = std::min(intact, words.newest);
  const uint64_t first_record = words.newest - static_cast<uint64_t>(words.last - words.oldest_record);
  // An invalid record was just being overwritten.
  if (intact > first_record || is_broken) {
    copy->oldest = Oldest::kCopying;
    copy->lapped_words = first - words.copied;
  }
  return words.At(first);
}

}  // namespace

namespace {

// `now` is called after the state was copied.
template <class Now> void CopyAsOf(const trace::ThreadRing& ring, uint64_t window_begin_ticks, const Now& now,
                                   Reserve* reserve, RingCopy* copy) {
  copy->open.reserve(detail::kMaxOpen);
  copy->number = ring.number;
  copy->tid = ring.tid;
  const trace::RingState state = ring.state;
  copy->exited = state != trace::RingState::kLive;
  copy->exit_ticks = state == trace::RingState::kRetired ? ring.exit_ticks : 0;
  copy->attach_ticks = ring.attach_ticks;
  copy->former_threads = ring.former_threads;
  const Heads heads = CopyState(ring, copy);
  copy->now_ticks = now();
  const auto room = static_cast<uint64_t>(reserve->last - reserve->first);
  Words words{reserve->last, heads.newest, heads.newest, reserve->last};
  copy->oldest = CopyWords(ring, window_begin_ticks, copy->now_ticks, room, &words);
  uint64_t* const first = std::min(LeaveOutOverwritten(ring, words, copy), words.last);
  copy->first = first;
  copy->last = words.last;
  reserve->last = first;
  Settle(heads.newest - heads.before_open, copy);
  copy->open.shrink_to_fit();  // thousands of threads have few open scopes
}

}  // namespace

void CopyRing(const trace::ThreadRing& ring, uint64_t window_begin_ticks, Reserve* reserve, RingCopy* copy) {
  const auto now = [&] { return detail::Clock(__atomic_load_n(&ring.gate, __ATOMIC_RELAXED)); };
  CopyAsOf(ring, window_begin_ticks, now, reserve, copy);
}

void CopyRingOfOther(const trace::ThreadRing& ring, uint64_t window_begin_ticks, uint64_t now_ticks, Reserve* reserve,
                     RingCopy* copy) {
  const Reserve whole = *reserve;
  uint32_t number = 0;
  // Another thread may take the ring over meanwhile: the copy is then of both.
  for (int looks = 0; looks < kLooks && (looks == 0 || ring.number != number); ++looks) {
    number = ring.number;
    *reserve = whole;
    *copy = RingCopy();
    CopyAsOf(
        ring, window_begin_ticks, [&] { return now_ticks; }, reserve, copy);
    trace::CopyStoredName(ring, copy->name);
  }
  if (ring.number != number) copy->number = 0;
}

}  // namespace pitot::snapshot
