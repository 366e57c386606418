// SPDX-License-Identifier: Apache-2.0
#include "session/meter.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/quantile.h"
#include "session/calibrate.h"
#include "session/ring_growth.h"
#include "trace/names.h"
#include "trace/requests.h"
#include "trace/rings.h"

namespace pitot::session {
namespace {

using base::MutexLock;

constexpr uint64_t kAgesNs = 1'000'000'000;      // between notes on how far rings have been written
constexpr uint64_t kLongestReadNs = 10'000'000;  // of all rings, for a note that takes them as read at once

std::vector<RingAt> LiveRings() {
  const trace::PinnedRings pinned;
  std::vector<RingAt> rings;
  for (const trace::ThreadRing* ring : pinned) {
    if (ring->state != trace::RingState::kLive) continue;
    const uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
    const trace::RingShape shape = trace::ShapeOf(*ring);
    const bool is_grown = shape.OldestAt(head) >= shape.changed_at();  // until then it forgets as it did before
    rings.push_back({ring->number, ring->attach_ticks, ring->floor, head,
                     is_grown ? shape.words() : shape.least_words(), is_grown ? shape.changed_at() : 0});
  }
  return rings;
}

}  // namespace

void Meter::Begin() {
  scope_cost_ns_ = CalibrateScopeCost(slow_clock_);
  start_ns_ = base::ClockNs(CLOCK_MONOTONIC);
  start_cpu_ns_ = base::ClockNs(CLOCK_PROCESS_CPUTIME_ID);
  names_refused_before_ = trace::NamesRefused();
}

int64_t Meter::AgeNs() const noexcept { return base::ClockNs(CLOCK_MONOTONIC) - start_ns_; }

Stats Meter::Get() noexcept {
  if (!lifetime_.IsOfThisProcess()) return {};  // the lock below may be held forever
  if (lifetime_.IsRunning()) return Count();
  Stats last;
  {
    const MutexLock lock(&mutex_);
    last = last_;
  }
  counts_.CopyTo(&last);
  return last;
}

void Meter::CountLast() noexcept {
  const Stats last = Count();
  const MutexLock lock(&mutex_);
  last_ = last;
}

Stats Meter::Count() noexcept {
  Stats stats{};
  counts_.CopyTo(&stats);
  stats.scope_cost_ns = scope_cost_ns_;
  const trace::RingCounts rings = trace::CountRings();
  stats.ring_bytes_used = rings.bytes_used;
  stats.address_bytes_parked = rings.bytes_parked;
  stats.threads_recording = rings.live;
  stats.threads_retired = rings.retired;
  stats.events_recorded = rings.events;
  stats.threads_refused = rings.threads_refused;
  stats.events_refused = rings.events_refused + rings.begins_refused;
  stats.scopes_closed_elsewhere = rings.closed_elsewhere;
  stats.scopes_misnested = rings.misnested;
  const trace::RequestCounts requests = trace::CountRequests();
  stats.requests_begun = requests.begun;
  stats.requests_finished = requests.finished;
  stats.requests_abandoned = requests.abandoned;
  stats.requests_open = requests.open;
  stats.requests_refused = requests.refused;
  stats.labels_folded = requests.labels_folded;
  stats.details_refused = requests.details_refused;
  stats.names_refused = trace::NamesRefused() - names_refused_before_;
  AddHistory(&stats);
  depths_.CopyTo(&stats.depth);
  stats.collector_bytes = depths_.HeldBytes();
  stats.memory = budget_.With(stats.collector_bytes);

  const auto process_ns = static_cast<double>(base::ClockNs(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns_);
  if (process_ns > 0) {
    stats.recording_cpu_percent = 100 * static_cast<double>(rings.events) * scope_cost_ns_ / process_ns;
    stats.own_threads_cpu_percent = 100 * static_cast<double>(threads_.CpuNs()) / process_ns;
  }
  return stats;
}

void Meter::AddHistory(Stats* stats) noexcept {
  try {
    const std::vector<RingAt> rings = LiveRings();
    const uint64_t now = trace::NowTicks(slow_clock_);
    const double ticks_per_ms = TicksPerNs() * 1e6;
    std::vector<uint64_t> each;
    const MutexLock lock(&mutex_);
    for (const RingAt& ring : rings) {
      if (ring.head == ring.floor) continue;
      each.push_back(static_cast<uint64_t>(static_cast<double>(ages_.Age(ring, now)) / ticks_per_ms));
    }
    if (each.empty()) return;
    stats->history_shortest_ms = *std::min_element(each.begin(), each.end());
    stats->history_median_ms = base::Median(std::move(each));
  } catch (const std::bad_alloc&) {
    // Zero means unknown.
  }
}

std::vector<RingAt> Meter::Rings() const { return LiveRings(); }

std::vector<WatchedRing> Meter::RingsFor(uint64_t window_begin_ticks) {
  const std::vector<RingAt> rings = LiveRings();
  const uint64_t now = trace::NowTicks(slow_clock_);
  const double ticks_per_ns = TicksPerNs();
  std::vector<WatchedRing> watched;
  watched.reserve(rings.size());
  const MutexLock lock(&mutex_);
  for (const RingAt& ring : rings) {
    const auto age_ns = static_cast<int64_t>(static_cast<double>(ages_.Age(ring, now)) / ticks_per_ns);
    watched.push_back({ring, ages_.WordBefore(ring.number, window_begin_ticks), age_ns});
  }
  return watched;
}

void Meter::NoteRings() noexcept {
  const uint64_t now = trace::NowTicks(slow_clock_);
  if (now - ages_noted_ticks_ < detail::TicksOf(kAgesNs)) return;
  ages_noted_ticks_ = now;
  const uint64_t window = detail::TicksOf(static_cast<uint64_t>(window_ns_));
  try {
    wishes_.clear();
    const std::vector<RingAt> rings = LiveRings();
    // This thread lost its CPU in between, and rings seem to be written faster than they are. The next look tries
    // again.
    if (trace::NowTicks(slow_clock_) - now > detail::TicksOf(kLongestReadNs)) return;
    const MutexLock lock(&mutex_);
    ages_.Note(rings, now);
    for (const RingAt& ring : rings) {
      const uint64_t words = WordsNeeded(ring, ages_.Age(ring, now), window);
      if (words > ring.capacity) wishes_.push_back({ring.number, words * 8});
    }
  } catch (const std::bad_alloc&) {
    // The next note fills the gap.
  }
}

void Meter::GrowRings() noexcept {
  if (wishes_.empty()) return;
  trace::GrowRings(wishes_);
  wishes_.clear();
}

}  // namespace pitot::session
