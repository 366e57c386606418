// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/lasting_cost.h"
#include "base/memory_order.h"

#include <algorithm>
#include <iterator>

namespace pitot::cupti {
namespace {

using base::kRelaxed;

// For values written by one thread at a time.
void Increase(std::atomic<int64_t>* value, int64_t by) { value->store(value->load(kRelaxed) + by, kRelaxed); }

bool MayWait(base::CallClass call_class) { return base::IsSynchronization(call_class) || base::IsCopy(call_class); }

}  // namespace

// The thread's row in this look. A row of an earlier look is free for anyone, its former owner included: changing its
// look to kTaking takes it. A thread in Add since an earlier look may add one call to another's row.
LastingCost::Thread* LastingCost::Find(uint64_t id) noexcept {
  const uint32_t look = look_.load(kRelaxed);
  for (uint32_t i = 0; i < kThreads; ++i) {
    Thread& thread = threads_[((id * 0x9e3779b97f4a7c15u >> 58) + i) % kThreads];
    uint32_t of_look = thread.look.load(std::memory_order_acquire);
    if (of_look == look) {
      if (thread.id.load(kRelaxed) == id) return &thread;
      continue;
    }
    // The taker may be stopped until a later look: threads of that look cannot take the row then.
    if (of_look == kTaking || !thread.look.compare_exchange_strong(of_look, kTaking, kRelaxed)) continue;
    thread.id.store(id, kRelaxed);
    for (auto* value : {&thread.launches, &thread.hidden_ns, &thread.busy_ns, &thread.end_ns, &thread.counted_end_ns,
                        &thread.launches_since_wait, &thread.busy_since_wait_ns})
      value->store(0, kRelaxed);
    thread.begin_ns.store(INT64_MIN, kRelaxed);
    thread.kind.store(base::CallClass::kOther, kRelaxed);
    // Publish: an acquire of look shows the row's owner, and that it is empty.
    thread.look.store(look, std::memory_order_release);
    return &thread;
  }
  return nullptr;
}

// Counts the last call, because it is not inside another.
void LastingCost::CountLast(Thread* thread) noexcept {
  if (thread->begin_ns.load(kRelaxed) == INT64_MIN) return;
  const int64_t begin_ns = thread->begin_ns.load(kRelaxed), ns = thread->end_ns.load(kRelaxed) - begin_ns;
  const base::CallClass kind = thread->kind.load(kRelaxed);
  const int64_t gap_ns = begin_ns - thread->counted_end_ns.load(kRelaxed);
  if (gap_ns > 0 && gap_ns < kPauseNs) {
    Increase(&thread->busy_ns, gap_ns);
    Increase(&thread->busy_since_wait_ns, gap_ns);
  }
  thread->counted_end_ns.store(begin_ns + ns, kRelaxed);
  Increase(&thread->busy_ns, ns);
  if (kind == base::CallClass::kLaunch) {
    Increase(&thread->launches, 1);
    Increase(&thread->launches_since_wait, 1);
  }
  if (!MayWait(kind) || ns <= kNoWaitNs) return Increase(&thread->busy_since_wait_ns, ns);
  if (ns * kLongWait >= thread->busy_since_wait_ns.load(kRelaxed))
    Increase(&thread->hidden_ns, std::min(ns, thread->launches_since_wait.load(kRelaxed) * kPerLaunchNs));
  thread->launches_since_wait.store(0, kRelaxed);
  thread->busy_since_wait_ns.store(0, kRelaxed);
}

void LastingCost::Add(uint64_t id, base::CallClass kind, int64_t begin_ns, int64_t end_ns) noexcept {
  if (id == 0 || end_ns < begin_ns) return;
  Thread* const thread = Find(id);
  if (thread == nullptr) return;
  if (begin_ns > thread->begin_ns.load(kRelaxed) || end_ns < thread->end_ns.load(kRelaxed)) CountLast(thread);
  thread->begin_ns.store(begin_ns, kRelaxed);
  thread->end_ns.store(end_ns, kRelaxed);
  thread->kind.store(kind, kRelaxed);
}

void LastingCost::EndLook(int64_t ns) noexcept {
  double percent = 0;
  int64_t launches = 0;
  const uint32_t look = look_.fetch_add(1, kRelaxed);
  for (Thread& thread : threads_) {
    if (thread.look.load(std::memory_order_acquire) != look) continue;
    CountLast(&thread);
    const int64_t of_thread = thread.launches.load(kRelaxed), busy_ns = thread.busy_ns.load(kRelaxed);
    launches += of_thread;
    if (of_thread < kLeastLaunches || busy_ns <= 0) continue;
    const auto added_ns = static_cast<double>(of_thread * kPerLaunchNs - thread.hidden_ns.load(kRelaxed));
    percent = std::max(percent, 100 * added_ns / static_cast<double>(busy_ns));
  }
  if (launches >= kLeastLaunches) {
    percents_[looks_++ % kLooks] = percent;
    sparse_percent_ = sparse_looks_ = 0;
  } else if (launches > 0) {
    ++sparse_looks_;
    sparse_percent_ =
        std::max(sparse_percent_, 100 * static_cast<double>(launches * kPerLaunchNs) / static_cast<double>(ns));
  }
}

double LastingCost::percent() const noexcept {
  if (sparse_looks_ >= kSparseLooks) return sparse_percent_;
  return *std::max_element(std::begin(percents_), std::end(percents_));
}

}  // namespace pitot::cupti
