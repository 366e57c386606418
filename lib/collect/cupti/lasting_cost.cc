// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/lasting_cost.h"

#include <algorithm>
#include <iterator>

namespace pitot::cupti {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

int64_t WaitOf(CallKind kind, int64_t begin_ns, int64_t end_ns) {
  const int64_t ns = end_ns - begin_ns;
  return kind == CallKind::kWait && ns > LastingCost::kNoWaitNs ? ns : 0;
}

// Where one thread at a time writes.
void Increase(std::atomic<int64_t>* value, int64_t by) { value->store(value->load(kRelaxed) + by, kRelaxed); }

}  // namespace

LastingCost::Thread* LastingCost::Find(uint64_t id) noexcept {
  for (uint32_t i = 0; i < kThreads; ++i) {
    Thread& thread = threads_[((id * 0x9e3779b97f4a7c15u >> 58) + i) % kThreads];
    uint64_t free = 0;
    if (thread.id.load(kRelaxed) == id || thread.id.compare_exchange_strong(free, id, kRelaxed) || free == id)
      return &thread;
  }
  return nullptr;
}

void LastingCost::Add(uint64_t id, CallKind kind, int64_t begin_ns, int64_t end_ns) noexcept {
  Thread* const thread = Find(id);
  if (thread == nullptr || id == 0 || end_ns < begin_ns) return;
  const int64_t last_begin_ns = thread->begin_ns.load(kRelaxed), last_end_ns = thread->end_ns.load(kRelaxed);
  const CallKind last = thread->kind.load(kRelaxed);
  int64_t from_ns = begin_ns;
  if (begin_ns <= last_begin_ns && end_ns >= last_end_ns) {
    // The last call was made inside this one.
    if (last == CallKind::kLaunch) Increase(&thread->launches, -1);
    Increase(&thread->wait_ns, -WaitOf(last, last_begin_ns, last_end_ns));
    from_ns = last_end_ns;
  } else if (begin_ns - last_end_ns < kPauseNs) {
    from_ns = std::min(last_end_ns, end_ns);
  }
  Increase(&thread->busy_ns, end_ns - from_ns);
  if (kind == CallKind::kLaunch) Increase(&thread->launches, 1);
  Increase(&thread->wait_ns, WaitOf(kind, begin_ns, end_ns));
  thread->begin_ns.store(begin_ns, kRelaxed);
  thread->end_ns.store(end_ns, kRelaxed);
  thread->kind.store(kind, kRelaxed);
}

void LastingCost::EndLook() noexcept {
  double percent = 0;
  int64_t launches = 0;
  for (Thread& thread : threads_) {
    const int64_t of_thread = thread.launches.exchange(0, kRelaxed);
    const int64_t wait_ns = thread.wait_ns.exchange(0, kRelaxed), busy_ns = thread.busy_ns.exchange(0, kRelaxed);
    thread.id.store(0, kRelaxed);
    thread.begin_ns.store(INT64_MIN, kRelaxed);
    thread.end_ns.store(0, kRelaxed);
    thread.kind.store(CallKind::kOther, kRelaxed);
    launches += of_thread;
    if (of_thread < kLeastLaunches || busy_ns <= 0) continue;
    const auto added_ns = static_cast<double>(of_thread * kPerLaunchNs - wait_ns);
    percent = std::max(percent, 100 * added_ns / static_cast<double>(busy_ns));
  }
  if (launches >= kLeastLaunches) percents_[looks_++ % kLooks] = percent;
}

double LastingCost::percent() const noexcept { return *std::max_element(std::begin(percents_), std::end(percents_)); }

}  // namespace pitot::cupti
