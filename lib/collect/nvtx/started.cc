// SPDX-License-Identifier: Apache-2.0
#include "collect/nvtx/started.h"

#include <algorithm>
#include <atomic>

#include "base/memory_order.h"
#include "collect/nvtx/site.h"
#include "trace/manual.h"
#include "trace/rings.h"

namespace pitot::nvtx {
namespace {

using base::kAcquire;
using base::kRelaxed;
using base::kRelease;

constexpr Site kEndedElsewhere =
    MakeSite<uint64_t, uint64_t>(SiteKind::kInstant, "\"\", name, domain, lasted_ns, begin_thread");

struct Started {
  std::atomic<uint64_t> id{0};  // 0: free; kBusy: being written or read
  // Readers that do not take the place look at the id again afterwards: each store is a release, each load an acquire.
  std::atomic<uint64_t> begin_ticks{0}, words[trace::kMaxOpenArgs] = {};
  std::atomic<int64_t> tid{0};
  std::atomic<uint32_t> gate{0}, says{0};
};
constexpr uint64_t kBusy = 1;
constexpr uint32_t kPlaces = kMaxRangesUnderWay;
constinit Started g_started[kPlaces];
constinit std::atomic<uint64_t> g_next_start{1};
// Places freed so far; and this count, below the recorder's number, when no place was found free. So a host that ends
// nothing has the places searched only once.
constinit std::atomic<uint32_t> g_freed{0};
constinit std::atomic<uint64_t> g_full_at{0};

uint32_t RecorderOf(const detail::Ring& ring) noexcept { return trace::RecorderOf(ring.gate); }

}  // namespace

uint64_t Start(const Event& event) noexcept {
  const trace::ThreadRing* const ring = trace::EnterThread();
  if (ring == nullptr) return 0;
  const uint64_t now = uint64_t{RecorderOf(*ring)} << 32 | g_freed.load(kAcquire);
  const uint64_t number = g_next_start.fetch_add(1, kRelaxed);
  // The first place is free unless ranges last long.
  for (uint64_t look = 0; look < kPlaces && g_full_at.load(kRelaxed) != now; ++look) {
    const uint64_t place = (number + look) % kPlaces;
    Started& started = g_started[place];
    uint64_t free = started.id.load(kRelaxed);
    // Left open by the host of a former recorder.
    const bool is_stale = free > kBusy && started.gate.load(kRelaxed) != RecorderOf(*ring);
    if ((free != 0 && !is_stale) || !started.id.compare_exchange_strong(free, kBusy, std::memory_order_acq_rel))
      continue;
    for (uint32_t i = 0; i < trace::kMaxOpenArgs; ++i) started.words[i].store(event.words[i], kRelease);
    started.tid.store(ring->tid, kRelease);
    started.gate.store(RecorderOf(*ring), kRelease);
    started.says.store(event.says, kRelease);
    started.begin_ticks.store(detail::Clock(ring->gate), kRelease);
    const uint64_t id = number * kPlaces + place;
    started.id.store(id, kRelease);
    return id;
  }
  g_full_at.store(now, kRelaxed);
  Count(&GetCounts().starts_refused);
  return 0;
}

void End(uint64_t id) noexcept {
  const trace::ThreadRing* const ring = trace::EnterThread();
  if (ring == nullptr) return;
  Started& started = g_started[id % kPlaces];
  if (id <= kBusy || !started.id.compare_exchange_strong(id, kBusy, kAcquire))
    return Count(&GetCounts().ends_without_start);
  uint64_t words[trace::kMaxOpenArgs];
  for (uint32_t i = 0; i < trace::kMaxOpenArgs; ++i) words[i] = started.words[i].load(kRelaxed);
  const uint64_t begin = started.begin_ticks.load(kRelaxed);
  const int64_t tid = started.tid.load(kRelaxed);
  const uint32_t says = started.says.load(kRelaxed);
  const bool is_ours = started.gate.load(kRelaxed) == RecorderOf(*ring);
  started.id.store(0, kRelease);
  g_freed.fetch_add(1, kRelease);
  if (!is_ours) return Count(&GetCounts().ends_without_start);
  if (tid == ring->tid) return trace::RecordEvent(&kSites[kRange][says], begin, words);
  const double ticks_per_ns =
      static_cast<double>(__atomic_load_n(&detail::g_ticks_per_ns_q32, __ATOMIC_RELAXED)) / 4294967296.0;
  // Clocks of two CPUs may differ a little.
  const uint64_t now = std::max(detail::Clock(ring->gate), begin);
  words[2] = static_cast<uint64_t>(static_cast<double>(now - begin) / ticks_per_ns);
  words[3] = static_cast<uint64_t>(tid);
  trace::RecordEvent(&kEndedElsewhere, 0, words);
}

void FindRangesUnderWay(std::vector<RangeUnderWay>* ranges) noexcept {
  ranges->clear();
  const uint32_t recorder = trace::RecorderOf(__atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED));
  for (const Started& started : g_started) {
    const uint64_t id = started.id.load(kAcquire);
    if (id <= kBusy || started.gate.load(kAcquire) != recorder) continue;
    const auto name = static_cast<uint32_t>(started.words[0].load(kAcquire));
    const auto domain = static_cast<uint32_t>(started.words[1].load(kAcquire));
    const uint64_t begin = started.begin_ticks.load(kAcquire);
    if (started.id.load(kRelaxed) != id) continue;
    ranges->push_back({name, domain, begin});
  }
}

}  // namespace pitot::nvtx
