// SPDX-License-Identifier: Apache-2.0
#include "simulator/world.h"

#include <algorithm>
#include <stdexcept>

#include "assemble/assemble.h"
#include "snapshot/snapshot.h"
#include "trace/requests.h"

namespace simulator {
namespace {

constexpr int64_t kBeginNs = 1'000'000'000;
constexpr uint32_t kMaxOpenRequests = 4096;

int64_t g_now_ns = 0;
bool g_is_over = false;
uint64_t Clock() { return static_cast<uint64_t>(g_now_ns); }

}  // namespace

World::World(const Recording& recording, uint64_t seed) : recording_(recording), home_(pitot::detail::t_ring) {
  g_now_ns = kBeginNs;
  g_is_over = false;
  trace::SetClockForTesting(Clock);
  __atomic_store_n(&pitot::detail::g_ticks_per_ns_q32, uint64_t{1} << 32, __ATOMIC_RELAXED);
  start_ = trace::ReadClocks(true);
  if (!trace::OpenRequests(kMaxOpenRequests)) throw std::runtime_error("no memory for requests");
  trace::SeedIdsForTesting(seed);
  // Enough for any number of rings of that size.
  if (!trace::OpenRings({uint64_t{1} << 40, recording.ring_bytes, recording.ring_bytes}, true))
    throw std::runtime_error("no rings");
}

World::~World() {
  g_is_over = true;
  for (Thread* thread : threads_) {
    Become(thread);  // its frames close their scopes on their thread
    thread->program_ = {};
  }
  pitot::detail::t_ring = home_;
  // Their threads are gone: Close gives them back.
  for (Thread* thread : threads_) {
    if (thread->ring_ != nullptr) thread->ring_->state = trace::RingState::kRetired;
  }
  trace::CloseRings();
  trace::CloseRequests();
  trace::SetClockForTesting(nullptr);
}

int64_t World::now_ns() { return g_now_ns; }
bool World::is_over() { return g_is_over; }

void World::Become(Thread* thread) const { pitot::detail::t_ring = thread->ring_ != nullptr ? thread->ring_ : home_; }

void World::Start(Thread* thread, const char* name, Task<> program) {
  threads_.push_back(thread);
  if (name != nullptr) {
    thread->ring_ = trace::SwitchThreadForTesting(nullptr, name);
    if (thread->ring_ == nullptr) throw std::runtime_error("no ring");
    pitot::detail::t_ring = home_;
  }
  thread->program_ = std::move(program);
  thread->at_ = thread->program_.handle();
  Schedule(now_ns(), thread, false);
}

void World::Schedule(int64_t at_ns, Thread* thread, bool woken) {
  agenda_.push({at_ns, next_order_++, thread, thread->pauses_, woken});
}

void World::Pause::await_suspend(std::coroutine_handle<> at) {
  thread->at_ = at;
  if (until_ns < kForever) world->Schedule(until_ns, thread, false);
}

void World::Wake(Thread* thread, int64_t latency_ns) { Schedule(now_ns() + latency_ns, thread, true); }

void World::RunUntil(int64_t ns) {
  while (!agenda_.empty() && agenda_.top().at_ns <= ns) {
    const Resumption next = agenda_.top();
    agenda_.pop();
    if (next.pause != next.thread->pauses_) continue;  // that pause is over
    g_now_ns = next.at_ns;
    ++next.thread->pauses_;
    next.thread->woken_ = next.woken;
    Become(next.thread);
    next.thread->at_.resume();
    pitot::detail::t_ring = home_;
  }
  if (ns < kForever) g_now_ns = std::max(g_now_ns, ns);
}

pitot::model::Trace World::TakeTrace() const {
  pitot::snapshot::ReserveMemory memory;
  if (!memory.Map(recording_.reserve_bytes)) throw std::runtime_error("no memory for the snapshot");
  const int64_t begin_ns = recording_.window_ns < now_ns() ? now_ns() - recording_.window_ns : 0;
  pitot::snapshot::Snapshot snapshot;
  pitot::snapshot::TakeSnapshot(start_, true, static_cast<uint64_t>(begin_ns), {}, memory.Whole(), &snapshot);
  return pitot::assemble::Assemble(snapshot);
}

}  // namespace simulator
