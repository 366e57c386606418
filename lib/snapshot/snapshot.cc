// SPDX-License-Identifier: Apache-2.0
#include "snapshot/snapshot.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace pitot::snapshot {
namespace {

uint64_t WordsHeld(const trace::ThreadRing& ring) {
  return std::min(__atomic_load_n(&ring.head, __ATOMIC_RELAXED) - ring.floor, ring.mask + 1);
}

// Copies the words of open requests to the beginning of a reserve, at most to its half.
class OpenRequestCopier {
 public:
  OpenRequestCopier(Reserve* reserve, Snapshot* out)
      : reserve_(reserve), middle_(reserve->first + (reserve->last - reserve->first) / 2), out_(out) {}

  // Throws bad_alloc.
  void Run() {
    trace::VisitOpenRequests([](void* copier, const auto& open) { static_cast<OpenRequestCopier*>(copier)->Add(open); },
                             this);
    if (out_of_memory_) throw std::bad_alloc();
  }

 private:
  void Add(const trace::OpenRequest& open) noexcept {
    const uint32_t count = open.words.count;
    if (middle_ - reserve_->first < static_cast<ptrdiff_t>(count)) {
      ++out_->open_requests_left_out;
      return;
    }
    try {
      out_->open_requests.push_back({reserve_->first, count, open.begin_thread, open.begin_ticks});
      reserve_->first = std::copy(open.words.words, open.words.words + count, reserve_->first);
    } catch (const std::bad_alloc&) {
      out_of_memory_ = true;
    }
  }

  Reserve* const reserve_;
  uint64_t* const middle_;
  Snapshot* const out_;
  bool out_of_memory_ = false;
};

// Copies all of them. Each gets an equal share of the reserve; what one does not need goes to those that hold more.
void CopyRings(const trace::PinnedRings& rings, uint64_t window_begin_ticks, Reserve reserve,
               std::vector<RingCopy>* copies) {
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
  for (size_t i = 0; i < order.size(); ++i) {
    const auto left = static_cast<uint64_t>(reserve.last - reserve.first);
    Reserve share{reserve.last - left / (order.size() - i), reserve.last};
    CopyRing(rings[order[i]], window_begin_ticks, &share, &(*copies)[order[i]]);
    reserve.last = share.last;
  }
  // Asking the system for names takes long enough for rings to be overwritten: last.
  for (size_t i = 0; i < rings.size(); ++i) trace::CopyThreadName(rings[i], (*copies)[i].name);
}

}  // namespace

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

void ReserveMemory::GiveBackPages() noexcept { madvise(words_, bytes_, MADV_DONTNEED); }

void TakeSnapshot(const trace::ClockReading& start, bool slow_clock, uint64_t window_begin_ticks, Reserve reserve,
                  Snapshot* out) {
  // Before the rings: a request that ends meanwhile is known from here or from its end's record.
  out->requests_ticks = detail::Clock(slow_clock ? 1 : 0);
  OpenRequestCopier(&reserve, out).Run();
  const trace::PinnedRings rings;
  out->window_begin_ticks = window_begin_ticks;
  out->window_end_ticks = detail::Clock(slow_clock ? 1 : 0);
  out->cycle_counter = !slow_clock;
  CopyRings(rings, window_begin_ticks, reserve, &out->rings);
  out->clock = {start, trace::ReadClocks(slow_clock)};
  out->ring_counts = trace::CountRings();
  out->recycled = trace::RecentlyRecycled();
  out->request_counts = trace::CountRequests();
}

}  // namespace pitot::snapshot
