// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_events/replays.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/clock.h"

namespace pitot::cuda_events {
namespace {

constexpr int64_t kReplaySlackNs = 2000;  // two stamps of the GPU

uint64_t KeyOf(const Pair& whole, uint32_t name) { return uint64_t{whole.correlation} << 32 | name; }

// How long a finished span took at most.
int64_t LongestNs(const Driver& driver, const Pair& whole) noexcept {
  float ms = 0;
  const bool is_measured = whole.has_begin && driver.elapsed_time(&ms, whole.begin, whole.end) == kSuccess;
  return is_measured && std::isfinite(ms) ? NsOf(ms) : base::ClockNs(CLOCK_MONOTONIC) - whole.recorded_ns.load();
}

struct Times {
  int64_t to_end_ns = 0, duration_ns = 0;
};

// The newest replay of `scope`. kNotReady: it is under way.
int TimesOf(const Driver& driver, const Pair& scope, const Pair& whole, Times* times) noexcept {
  float ms = 0, to_end_ms = 0;
  int result = driver.query_event(scope.end);
  if (result == kSuccess) result = driver.elapsed_time(&ms, scope.begin, scope.end);
  if (result == kSuccess) result = driver.elapsed_time(&to_end_ms, scope.begin, whole.end);
  if (result != kSuccess) return result;
  if (!std::isfinite(ms) || !std::isfinite(to_end_ms) || ms < 0) return kNotReady;  // the next one has begun
  *times = {NsOf(to_end_ms), NsOf(ms)};
  return kSuccess;
}

bool IsWithin(const Times& times, int64_t longest_ns) {
  return times.to_end_ns >= times.duration_ns - kReplaySlackNs && times.to_end_ns <= longest_ns + kReplaySlackNs;
}

}  // namespace

int ReadParts(const Driver& driver, Pair* whole) noexcept {
  Pool& pool = *whole->pool;
  Pools& pools = *pool.owner;
  Pair* const pairs = pool.pairs.load(std::memory_order_acquire);
  Part* const parts = pool.parts.load(std::memory_order_acquire);
  void* const graph = whole->graph.load(std::memory_order_relaxed);
  if (pairs == nullptr || parts == nullptr || graph == nullptr || whole->was_read) return kSuccess;
  const auto is_of_graph = [&](const Pair& scope, uint32_t word) {
    return Pair::PhaseOf(word) == PairPhase::kCaptured &&
           (graph == kAnyGraph || scope.graph.load(std::memory_order_relaxed) == graph);
  };
  uint32_t most = 0;
  for (uint32_t i = 0; i < pools.pair_count(); ++i) most += is_of_graph(pairs[i], pairs[i].word.load());
  if (most == 0) return kSuccess;
  whole->was_read = true;
  const int64_t longest_ns = LongestNs(driver, *whole);
  const uint64_t room = uint64_t{kPartsPerPair} * pools.pair_count();
  const uint64_t first = pool.next_part.fetch_add(most);
  whole->first_part = static_cast<uint32_t>(first % room);
  for (uint32_t i = 0; i < pools.pair_count() && whole->part_count < most; ++i) {
    Pair& scope = pairs[i];
    const uint32_t word = scope.word.load(std::memory_order_acquire), name = scope.name.load();
    if (!is_of_graph(scope, word)) continue;
    Times times;
    const int result = TimesOf(driver, scope, *whole, &times);
    if (IsContextGone(result)) return result;
    if (scope.word.load(std::memory_order_acquire) != word) continue;  // its graph is gone, and it may be another's
    const bool is_later = result == kNotReady || (result == kSuccess && times.to_end_ns < times.duration_ns);
    if (result == kSuccess && IsWithin(times, longest_ns)) {
      Part& part = parts[(first + whole->part_count++) % room];
      part.key.store(0, std::memory_order_relaxed);
      part.to_end_ns.store(times.to_end_ns, std::memory_order_release);
      part.duration_ns.store(times.duration_ns, std::memory_order_release);
      part.key.store(KeyOf(*whole, name), std::memory_order_release);
    } else if (graph == kAnyGraph) {
      continue;  // it may be of another
    } else if (is_later) {
      pools.counts().replays_missed.fetch_add(1, std::memory_order_relaxed);
    } else if (void* bound = graph; result == kSuccess) {
      scope.graph.compare_exchange_strong(bound, nullptr);  // it did not run: so it is not in this graph
    }
  }
  return kSuccess;
}

void TakeParts(const Pair& whole, const Span& span, std::vector<Replayed>* scopes) noexcept {
  Pools& pools = *whole.pool->owner;
  const uint64_t room = uint64_t{kPartsPerPair} * pools.pair_count();
  const Part* const parts = whole.pool->parts.load(std::memory_order_acquire);
  scopes->clear();
  for (uint32_t i = 0; i < whole.part_count && scopes->size() < scopes->capacity(); ++i) {
    const Part& part = parts[(whole.first_part + i) % room];
    const uint64_t key = part.key.load(std::memory_order_acquire);
    const int64_t begin_ns = span.begin_ns + span.duration_ns - part.to_end_ns.load(std::memory_order_acquire);
    const int64_t end_ns = begin_ns + part.duration_ns.load(std::memory_order_acquire);
    const bool is_whole = key == part.key.load(std::memory_order_relaxed) && key >> 32 == whole.correlation;
    if (is_whole) {
      scopes->push_back({std::max(begin_ns, span.begin_ns), end_ns, static_cast<uint32_t>(key)});
    } else {
      pools.counts().replays_missed.fetch_add(1, std::memory_order_relaxed);  // overwritten by newer ones
    }
  }
  std::sort(scopes->begin(), scopes->end(), [](const Replayed& a, const Replayed& b) {
    return std::tuple(a.begin_ns, -a.end_ns) < std::tuple(b.begin_ns, -b.end_ns);
  });
}

bool RanIn(const Driver& driver, const Pair& scope, const Pair& whole, int64_t longest_ns) noexcept {
  Times times;
  return TimesOf(driver, scope, whole, &times) == kSuccess && IsWithin(times, longest_ns);
}

}  // namespace pitot::cuda_events
