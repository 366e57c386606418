// SPDX-License-Identifier: Apache-2.0
#include "snapshot/snapshot.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace pitot::snapshot {
namespace {

uint64_t WordsHeld(const trace::ThreadRing& ring) {
  const uint64_t head = __atomic_load_n(&ring.head, __ATOMIC_ACQUIRE);
  return head - std::max(ring.first_word, trace::ShapeOf(ring).OldestAt(head));
}

// Where to put the words of an open request.
struct Place {
  OpenRequestCopy* open;
  uint64_t* words;
  uint32_t room;
};
constexpr uint32_t kMoreWords = 4;

// The most that each ring may have of `room` words, so that all have as much. `held`: the words of each; `order`: their
// indices, the least full first.
uint64_t EqualShare(const std::vector<uint64_t>& held, const std::vector<size_t>& order, uint64_t room) {
  uint64_t share = room;
  for (size_t i = 0; i < order.size(); ++i) {
    share = room / (order.size() - i);
    if (held[order[i]] > share) break;
    room -= held[order[i]];
  }
  return share;
}

// Copies all rings. Each gets an equal share of the reserve; unused parts go to rings that hold more. Those in `first`
// come first: while they wait, they are overwritten.
void CopyRings(const trace::PinnedRings& rings, uint64_t window_begin_ticks, const std::vector<EndCopy>& first,
               Reserve* room, std::vector<RingCopy>* copies) {
  Reserve& reserve = *room;
  copies->resize(rings.size());
  std::vector<uint64_t> held;
  std::vector<size_t> order;
  held.reserve(rings.size());
  order.reserve(rings.size());
  for (size_t i = 0; i < rings.size(); ++i) {
    held.push_back(WordsHeld(rings[i]));
    order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return held[a] < held[b]; });
  const auto is_first = [&](size_t i) {
    return std::any_of(first.begin(), first.end(), [&](const EndCopy& end) { return end.thread == rings[i].number; });
  };
  const uint64_t level = EqualShare(held, order, static_cast<uint64_t>(reserve.last - reserve.first));
  const auto others = std::stable_partition(order.begin(), order.end(), is_first);
  const auto firsts = static_cast<size_t>(others - order.begin());
  for (size_t i = 0; i < order.size(); ++i) {
    const auto left = static_cast<uint64_t>(reserve.last - reserve.first);
    Reserve share{reserve.last - (i < firsts ? std::min(level, left) : left / (order.size() - i)), reserve.last};
    CopyRing(rings[order[i]], window_begin_ticks, &share, &(*copies)[order[i]]);
    reserve.last = share.last;
  }
  // Last: asking the system for names takes long enough for rings to be overwritten.
  for (size_t i = 0; i < rings.size(); ++i) trace::CopyThreadName(rings[i], (*copies)[i].name);
}

}  // namespace

void CopyOpenRequests(const std::vector<uint64_t>& wanted, const RequestTable& of, Reserve* reserve,
                      std::vector<OpenRequestCopy>* copies) {
  copies->reserve(trace::CountRequests().open + 64);  // some begin meanwhile
  VisitOpen(of, [&](const trace::OpenRequest& open) {
    copies->push_back({open.words.words[0], open.begin_ticks, open.begin_thread, open.words.count, nullptr});
  });
  const auto is_wanted = [&](const OpenRequestCopy& open) {
    return std::find(wanted.begin(), wanted.end(), open.id) != wanted.end();
  };
  const auto others = std::partition(copies->begin(), copies->end(), is_wanted);
  const auto earlier = [](const auto& a, const auto& b) { return a.begin_ticks < b.begin_ticks; };
  std::sort(others, copies->end(), earlier);
  // Room for the words of each, and for some more that it may get meanwhile, as long as there is room.
  const uint64_t* const middle = reserve->first + (reserve->last - reserve->first) / 2;
  std::vector<Place> places;
  for (OpenRequestCopy& open : *copies) {
    const auto left = static_cast<uint64_t>(middle - reserve->first);
    if (left < trace::kRequestFixedWords) break;
    const auto room = static_cast<uint32_t>(std::min<uint64_t>(open.count + kMoreWords, left));
    places.push_back({&open, reserve->first, room});
    reserve->first += room;
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.open->id < b.open->id; });
  VisitOpen(of, [&](const trace::OpenRequest& open) {
    const uint64_t id = open.words.words[0];
    const auto place = std::lower_bound(places.begin(), places.end(), id,
                                        [](const Place& at, uint64_t wanted_id) { return at.open->id < wanted_id; });
    if (place == places.end() || place->open->id != id) return;
    const bool is_whole = open.words.count <= place->room;
    place->open->count = is_whole ? open.words.count : trace::kRequestFixedWords;
    std::copy_n(open.words.words, place->open->count, place->words);
    if (!is_whole) place->words[4] &= trace::kRequestNoDetails;
    place->open->words = place->words;
  });
}

ReserveMemory::~ReserveMemory() {
  if (words_ != nullptr) munmap(words_, bytes_);
}

bool ReserveMemory::Map(uint64_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  words_ = static_cast<uint64_t*>(memory);
  bytes_ = bytes;
  return true;
}

void ReserveMemory::GiveBackPages(const Reserve& part) noexcept {
  constexpr uintptr_t kPage = 4096;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(part.first) + kPage - 1) / kPage * kPage;
  const uintptr_t last = reinterpret_cast<uintptr_t>(part.last) / kPage * kPage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

Filled TakeSnapshot(const trace::ClockReading& start, bool slow_clock, uint64_t window_begin_ticks,
                    const std::vector<uint64_t>& wanted, Reserve reserve, Snapshot* out) {
  const Reserve whole = reserve;
  // Before the rings: a request that ends meanwhile is then known from here or from its end's record.
  out->requests_ticks = trace::NowTicks(slow_clock);
  CopyOpenRequests(wanted, {}, &reserve, &out->open_requests);
  const trace::PinnedRings rings;
  out->window_begin_ticks = window_begin_ticks;
  out->window_end_ticks = trace::NowTicks(slow_clock);
  out->cycle_counter = !slow_clock;
  CopyRings(rings, window_begin_ticks, out->ends, &reserve, &out->rings);
  out->clock = {start, trace::ReadClocks(slow_clock)};
  out->ring_counts = trace::CountRings();
  out->recycled = trace::RecentlyRecycled();
  out->request_counts = trace::CountRequests();
  return {{whole.first, reserve.first}, {reserve.last, whole.last}};
}

}  // namespace pitot::snapshot
