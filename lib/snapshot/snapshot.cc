// SPDX-License-Identifier: Apache-2.0
#include "snapshot/snapshot.h"

#include <sys/mman.h>

#include <new>

namespace pitot::snapshot {
namespace {

// Unpins rings on every way out.
class Pinned {
 public:
  Pinned() : rings_(trace::PinRings()) {}
  ~Pinned() { trace::UnpinRings(rings_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  const std::vector<trace::ThreadRing*>& rings() const { return rings_; }

 private:
  std::vector<trace::ThreadRing*> rings_;
};

struct Open {
  std::vector<trace::OpenRequest>* requests;
  bool out_of_memory = false;
};

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
  const Pinned pinned;
  out->window_begin_ticks = window_begin_ticks;
  out->window_end_ticks = detail::Clock(slow_clock ? 1 : 0);
  out->cycle_counter = !slow_clock;
  out->rings.resize(pinned.rings().size());
  for (size_t i = 0; i < pinned.rings().size(); ++i)
    CopyRing(*pinned.rings()[i], window_begin_ticks, &reserve, &out->rings[i]);
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
  out->clock = {start, trace::ReadClocks(slow_clock)};
  out->ring_counts = trace::CountRings();
  out->request_counts = trace::CountRequests();
}

}  // namespace pitot::snapshot
