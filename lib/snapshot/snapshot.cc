// SPDX-License-Identifier: Apache-2.0
#include "snapshot/snapshot.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace pitot::snapshot {
namespace {

struct Open {
  std::vector<trace::OpenRequest>* requests;
  bool out_of_memory = false;
};

uint64_t WordsHeld(const trace::ThreadRing& ring) {
  return std::min(__atomic_load_n(&ring.head, __ATOMIC_RELAXED) - ring.floor, ring.mask + 1);
}

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
  Open open{&out->open_requests};
  trace::VisitOpenRequests(
      [](void* context, const trace::OpenRequest& request) {
        auto* to = static_cast<Open*>(context);
        try {
          to->requests->push_back(request);
        } catch (const std::bad_alloc&) {
          to->out_of_memory = true;
        }
      },
      &open);
  if (open.out_of_memory) throw std::bad_alloc();
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
