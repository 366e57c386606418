// SPDX-License-Identifier: Apache-2.0
#include "snapshot/torn_ring.h"

#include <algorithm>
#include <vector>

#include "snapshot/record.h"
#include "trace/box.h"

namespace pitot::snapshot {
namespace {

constexpr uint64_t kPageWords = trace::kBoxPage / sizeof(uint64_t);
// Between the counters of two CPUs, ticks: some us. A ring takes longer for a turn.
constexpr uint64_t kSkewTicks = uint64_t{1} << 14;
// So many in a row, of which so many are of known sites, are not an accident.
constexpr int kLeastRecords = 4, kLeastKnown = 2;

// When the newest record before this place ended, of those in order; 1: none is. 0: no records end there.
uint64_t EndAt(const trace::ThreadRing& ring, uint64_t place, uint64_t oldest, uint64_t start_ticks,
               uint64_t latest_ticks, const OrderOf& order_of) {
  constexpr uint64_t kMostWords = kLeastRecords * detail::kMaxRecordWords;
  const trace::RingShape shape = trace::ShapeOf(ring);
  const uint64_t count = std::min(place - oldest, kMostWords);
  uint64_t words[kMostWords];
  for (uint64_t i = 0; i < count; ++i) words[i] = ring.words[shape.PlaceOf(place - count + i)];
  RecordCursor cursor(words, words + count, latest_ticks);
  Record record;
  uint64_t before = latest_ticks, newest = 1;
  int records = 0, known = 0;
  while (records < kLeastRecords && cursor.Next(&record)) {
    const SiteOrder order = order_of(record.site);
    if (record.end_ticks > latest_ticks || record.end_ticks < start_ticks) return 0;
    if (order == SiteOrder::kInOrder) {
      if (record.end_ticks > before) return 0;
      before = record.end_ticks + kSkewTicks;
      newest = std::max(newest, record.end_ticks);
    }
    ++records;
    known += order != SiteOrder::kUnknown ? 1 : 0;
  }
  const bool is_start = cursor.AtStart() && count == place - oldest;
  const bool are_records =
      records != 0 && (records == kLeastRecords || is_start) && known >= std::min(records, kLeastKnown);
  return are_records ? newest : 0;
}

// Visits the newest place of each page before which records end, from `head` on, until `visit(place, end)` is false:
// `end` is as above. The last record of a page may lie in the next one, too.
template <class Visit> void ForEachReadable(const trace::ThreadRing& ring, uint64_t head, uint64_t start_ticks,
                                            uint64_t latest_ticks, const OrderOf& order_of, const Visit& visit) {
  const uint64_t oldest = std::max(ring.first_word, trace::ShapeOf(ring).OldestAt(ring.head));
  for (uint64_t end = head; end > oldest; end -= (end - 1) % kPageWords + 1) {  // sizes of rings are whole pages
    for (uint64_t back = 0; back < detail::kMaxRecordWords && end - back > oldest; ++back) {
      const uint64_t newest = EndAt(ring, end - back, oldest, start_ticks, latest_ticks, order_of);
      if (newest == 0) continue;
      if (!visit(end - back, newest)) return;
      break;
    }
  }
}

// Records that follow each other, from the newest on. Before a gap, the oldest of them may be put together from two
// pages, and so may be what was read after it: those are not in it.
class Run {
 public:
  explicit Run(const uint64_t* last) : first_(last), read_(last) {}
  void Add(SiteOrder order, const uint64_t* at) {
    if (order != SiteOrder::kUnknown) first_ = read_;
    read_ = at;
  }
  const uint64_t* first() const { return first_; }

 private:
  const uint64_t *first_, *read_;
};

// The run of those that end at this time or later.
const uint64_t* FirstNotBefore(uint64_t end_ticks, const OrderOf& order_of, const RingCopy& copy) {
  RecordCursor cursor(copy.first, copy.last, copy.now_ticks);
  Record record;
  Run run(copy.last);
  while (cursor.Next(&record)) {
    const SiteOrder order = order_of(record.site);
    if (order == SiteOrder::kInOrder && record.end_ticks + kSkewTicks < end_ticks) break;
    run.Add(order, cursor.at());
  }
  return run.first();
}

// Keeps the run from the newest record on. False: it goes as far back as the copy.
bool KeepRun(uint64_t start_ticks, const OrderOf& order_of, RingCopy* copy, uint64_t* newest, uint64_t* oldest) {
  RecordCursor cursor(copy->first, copy->last, copy->now_ticks);
  Record record;
  Run run(copy->last);
  while (cursor.Next(&record)) {
    const SiteOrder order = order_of(record.site);
    const bool is_in_order = order == SiteOrder::kInOrder, is_none = record.end_ticks < start_ticks;
    if (is_none || (is_in_order && record.end_ticks > *oldest + kSkewTicks)) {
      // If it is later than records that come after it, either these are of an earlier turn, or it is of a later one.
      const bool is_later_turn = record.end_ticks > *newest + kSkewTicks;
      copy->first = is_none || is_later_turn ? run.first() : FirstNotBefore(record.end_ticks, order_of, *copy);
      return true;
    }
    if (is_in_order) {
      *newest = std::max(*newest, record.end_ticks);
      *oldest = std::min(*oldest, record.end_ticks);
    }
    run.Add(order, cursor.at());
  }
  const bool is_broken = copy->oldest == Oldest::kBroken || cursor.IsBroken();
  // If the head is older than the words, the next turn may have overwritten a part of the oldest record.
  if (is_broken || copy->oldest == Oldest::kOverwritten) copy->first = run.first();
  return is_broken;
}

}  // namespace

uint64_t NewestReadable(const trace::ThreadRing& ring, uint64_t start_ticks, uint64_t latest_ticks,
                        const OrderOf& order_of) {
  struct Place {
    uint64_t at, end_ticks;
  };
  std::vector<Place> places;  // of each page that can be read, from the head on
  ForEachReadable(ring, ring.head, start_ticks, latest_ticks, order_of, [&places](uint64_t at, uint64_t end_ticks) {
    places.push_back({at, end_ticks});
    return true;
  });
  if (places.empty()) return ring.head;
  // If most pages are later than the first of them, that one is of an earlier turn. If few are, it is the head that was
  // written back early, and they are of the next turn.
  const auto is_later = [&places](const Place& place) {
    return place.end_ticks > places.front().end_ticks + kSkewTicks;
  };
  const auto later = static_cast<size_t>(std::count_if(places.begin(), places.end(), is_later));
  if (2 * later <= places.size()) return places.front().at;
  const auto is_before = [](const Place& a, const Place& b) { return a.end_ticks < b.end_ticks; };
  return std::max_element(places.begin(), places.end(), is_before)->at;
}

void LeaveOutTorn(const trace::ThreadRing& ring, uint64_t start_ticks, const OrderOf& order_of, RingCopy* copy) {
  uint64_t newest = 0, oldest = copy->now_ticks;
  if (!KeepRun(start_ticks, order_of, copy, &newest, &oldest)) return;
  copy->oldest = Oldest::kBroken;
  // What lies further back may be later than the oldest of these: then they are of an earlier turn.
  uint64_t later = 0;
  const uint64_t first = ring.head - static_cast<uint64_t>(copy->last - copy->first);
  ForEachReadable(ring, first, start_ticks, newest, order_of, [&later](uint64_t, uint64_t end) {
    later = std::max(later, end);
    return true;
  });
  if (later > oldest + kSkewTicks) copy->first = FirstNotBefore(later, order_of, *copy);
}

}  // namespace pitot::snapshot
