// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_events/rounds.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/clock.h"
#include "collect/cuda_events/replays.h"

namespace pitot::cuda_events {
namespace {

constexpr int64_t kLookNs = 1'000'000'000;      // between looks for the driver
constexpr int64_t kRenewNs = 200'000'000;       // between anchors, while there are spans
constexpr int64_t kRenewAgainNs = 50'000'000;   // after a failed one
constexpr int64_t kAnchorPatienceNs = 200'000;  // for the GPU to reach it
constexpr int kAnchorTries = 3;
constexpr int64_t kGoodWidthNs = 10'000;
constexpr int64_t kNsPerDriftNs = 20'000;        // 50 ppm, much for a crystal
constexpr int64_t kStampNs = 1000;               // resolution of a GPU's stamps
constexpr int64_t kLoneGraphNs = 1'000'000'000;  // so long a graph launched in no span may run
constexpr int64_t kFindShare = 50;

int64_t Now() { return base::ClockNs(CLOCK_MONOTONIC); }

// The largest error of a moment derived from an anchor.
int64_t ErrorNs(const Anchor& anchor, int64_t at_ns) {
  return kStampNs + anchor.width_ns / 2 + std::abs(at_ns - anchor.at_ns) / kNsPerDriftNs;
}

// Whether the object of a call is gone with its context, which was entered: nobody else destroys our events and
// streams. That is not a failure; Drop counts the loss.
bool IsGone(int result) { return result == kInvalidHandle || IsContextGone(result); }

}  // namespace

Rounds::Rounds(Pools* pools, History* history) : pools_(*pools), history_(*history) {
  finished_.reserve(pools->pair_count());
  others_.reserve(pools->pair_count());
  scopes_.reserve(pools->pair_count());
  open_.reserve(pools->pair_count());
}

bool Rounds::HasWork() noexcept {
  if (pools_.wants_pool.load() || pools_.wants_room.load()) return true;
  if (pools_.wants_driver.load() && look_again_ns_ <= Now()) return true;
  return std::any_of(pools_.begin(), pools_.end(), [](const Pool& pool) {
    return pool.phase.load() == PoolPhase::kReady && pool.pending.load() > 0;
  });
}

bool Rounds::FindDriver() noexcept {
  if (pools_.HasDriver()) return true;
  const int64_t now_ns = Now();
  if (!pools_.wants_driver.load() || now_ns < look_again_ns_) return false;
  Driver driver;
  if (cuda_events::FindDriver(pools_.library().c_str(), &driver) != nullptr) {
    look_again_ns_ = now_ns + kLookNs;
    return false;
  }
  look_again_ns_ = 0;
  pools_.wants_driver.store(false);
  pools_.SetDriver(driver);
  return true;
}

// Runs once on the thread: its calls must not spoil captures by other threads.
void Rounds::Prepare() noexcept {
  if (std::exchange(is_prepared_, true)) return;
  int mode = kRelaxedCapture;
  if (const int result = pools_.driver().exchange_capture_mode(&mode); result != kSuccess) pools_.Fail(result);
}

void Rounds::MakePools() noexcept {
  if (!pools_.wants_pool.exchange(false)) return;
  for (Pool& pool : pools_) {
    const PoolPhase phase = pool.phase.load(std::memory_order_acquire);
    const bool is_again = (phase == PoolPhase::kFailed || phase == PoolPhase::kReady) &&
                          pool.retry_at_ns.load(std::memory_order_acquire) == kRetryNow;
    if (phase != PoolPhase::kWanted && !is_again) continue;
    if (!pools_.Enter(&pool)) {
      if (pool.phase.load(std::memory_order_relaxed) == phase) pools_.MakeLater(&pool);  // it is not gone
      continue;
    }
    pools_.Make(&pool);
    char name[96] = "";
    const Driver& driver = pools_.driver();
    if (pool.device >= 0 && driver.get_device_name != nullptr &&
        driver.get_device_name(name, sizeof name - 1, pool.device) == kSuccess)
      history_.NameDevice(static_cast<uint32_t>(pool.device), name);
    pools_.Leave();
  }
}

// Looks for destroyed contexts. Otherwise they are noticed only while they have spans in flight.
void Rounds::FindRoom() noexcept {
  if (!pools_.wants_room.exchange(false)) return;
  for (Pool& pool : pools_) {
    const PoolPhase phase = pool.phase.load(std::memory_order_acquire);
    if (phase != PoolPhase::kUnused && phase != PoolPhase::kClaimed && pools_.Enter(&pool)) pools_.Leave();
  }
}

void Rounds::Round() noexcept {
  if (!FindDriver()) return;
  Prepare();
  FindRoom();
  MakePools();
  seen_under_way_ = 0;
  seen_oldest_ns_ = INT64_MAX;
  for (Pool& pool : pools_) {
    const PoolPhase phase = pool.phase.load(std::memory_order_acquire);
    if (phase != PoolPhase::kReady || pool.pending.load() <= 0 || !pools_.Enter(&pool)) continue;
    const bool is_there = Renew(&pool) && Poll(&pool);
    pools_.Leave();
    if (!is_there) pools_.Drop(&pool);
  }
  under_way_.store(seen_under_way_, std::memory_order_relaxed);
  oldest_ns_.store(seen_oldest_ns_, std::memory_order_relaxed);
}

void Rounds::Close() noexcept {
  if (!pools_.HasDriver()) return;
  Prepare();
  for (Pool& pool : pools_) {
    const PoolPhase phase = pool.phase.load(std::memory_order_acquire);
    if (phase == PoolPhase::kUnused || phase == PoolPhase::kClaimed || !pools_.Enter(&pool)) continue;
    pools_.Park(&pool);
    pools_.Leave();
  }
}

// Has the GPU stamp an event on an otherwise empty stream, between two readings of the clock. Returns the driver's last
// result: kNotReady if the GPU did not reach it in time.
int Rounds::Measure(const Pool& pool, Anchor* anchor) noexcept {
  const Driver& driver = pools_.driver();
  const int64_t before_ns = Now();
  int64_t after_ns = before_ns;
  int result = driver.record_event(anchor->event, pool.stream);
  if (result == kSuccess) {
    do {
      result = driver.query_event(anchor->event);
      after_ns = Now();
    } while (result == kNotReady && after_ns - before_ns < kAnchorPatienceNs);
  }
  anchor->at_ns = before_ns + (after_ns - before_ns) / 2;
  anchor->width_ns = std::max<int64_t>(1, after_ns - before_ns);
  return result;
}

// Renews the anchor if it is time. False: the context is gone.
bool Rounds::Renew(Pool* pool) noexcept {
  const int64_t now_ns = Now();
  const bool is_possible = pool->stream != nullptr && pool->anchor.event != nullptr && pool->spare_event != nullptr;
  if (now_ns < pool->renew_at_ns || !is_possible) return true;
  pool->renew_at_ns = now_ns + kRenewAgainNs;
  for (int i = 0; i < kAnchorTries; ++i) {
    Anchor made{pool->spare_event};
    if (const int result = Measure(*pool, &made); result != kSuccess) {
      if (IsGone(result)) return false;
      if (result != kNotReady) pools_.Fail(result);
      return true;
    }
    pool->renew_at_ns = now_ns + kRenewNs;
    if (pool->anchor.width_ns == 0 || ErrorNs(made, made.at_ns) < ErrorNs(pool->anchor, made.at_ns))
      pool->spare_event = std::exchange(pool->anchor, made).event;
    if (made.width_ns <= kGoodWidthNs) return true;
  }
  return true;
}

// When the GPU reached an event, from `earliest_ns` to `latest_ns`, and the largest error of that, by the anchor.
// Returns the driver's last result.
int Rounds::TimeOf(const Pool& pool, void* event, int64_t earliest_ns, int64_t latest_ns, Stamp* stamp) noexcept {
  *stamp = {latest_ns, latest_ns - earliest_ns};
  if (pool.anchor.width_ns == 0) return kSuccess;
  float ms = 0;
  const int result = pools_.driver().elapsed_time(&ms, pool.anchor.event, event);
  if (IsGone(result)) return result;
  if (result != kSuccess) pools_.Fail(result);
  if (result != kSuccess || !std::isfinite(ms)) return kSuccess;
  const int64_t at_ns = pool.anchor.at_ns + NsOf(ms);
  stamp->at_ns = std::clamp(at_ns, earliest_ns, latest_ns);
  stamp->error_ns = std::min(stamp->error_ns, ErrorNs(pool.anchor, at_ns));
  return kSuccess;
}

// The span of a finished pair, of a length below 0 if it has no time. Returns the driver's last result.
int Rounds::SpanOf(const Pool& pool, const Pair& pair, Span* of) noexcept {
  const int64_t seen_ns = Now();
  Span& span = *of = {};
  Stamp stamp;
  if (pair.has_begin) {
    float ms = 0;
    if (const int result = pools_.driver().elapsed_time(&ms, pair.begin, pair.end); result != kSuccess) return result;
    if (!std::isfinite(ms) || ms < 0) {
      pools_.counts().no_time.fetch_add(1, std::memory_order_relaxed);
      span.duration_ns = -1;
      return kSuccess;
    }
    span.duration_ns = NsOf(ms);
    // The GPU reached the first event after it was recorded, and the second before that was seen.
    const int64_t latest_ns = std::max(pair.recorded_ns.load(), seen_ns - span.duration_ns);
    if (const int result = TimeOf(pool, pair.begin, pair.recorded_ns, latest_ns, &stamp); result != kSuccess)
      return result;
    span.begin_ns = stamp.at_ns;
  } else {
    if (const int result = TimeOf(pool, pair.end, pair.recorded_ns, seen_ns, &stamp); result != kSuccess) return result;
    span.begin_ns = pair.recorded_ns;
    span.duration_ns = stamp.at_ns - span.begin_ns;
  }
  span.error_us = static_cast<uint32_t>(std::min<int64_t>((stamp.error_ns + 999) / 1000, UINT32_MAX));
  span.name = pair.name;
  span.correlation = pair.correlation;
  span.context = static_cast<uint32_t>(pool.context_id.load(std::memory_order_relaxed));
  span.stream = pair.stream_number;
  span.device = pool.device >= 0 ? static_cast<uint32_t>(pool.device) : 0;
  return kSuccess;
}

// Adds the spans of pairs finished by now. False: the context is gone.
bool Rounds::Poll(Pool* pool) noexcept {
  Pair* const pairs = pool->pairs.load(std::memory_order_relaxed);
  finished_.clear();
  others_.clear();
  for (uint32_t i = 0; i < pools_.pair_count(); ++i) {
    Pair& pair = pairs[i];
    const uint32_t word = pair.word.load(std::memory_order_acquire);
    const PairPhase phase = Pair::PhaseOf(word);
    if (phase == PairPhase::kOpen || phase == PairPhase::kEnding) AddOther(pair, word);
    if (phase != PairPhase::kPending) continue;
    int result = pools_.driver().query_event(pair.end);
    if (result == kNotReady) {
      ++seen_under_way_;
      seen_oldest_ns_ = std::min(seen_oldest_ns_, pair.recorded_ns.load());
      AddOther(pair, word);
      continue;
    }
    if (IsGone(result)) return GiveBack();
    // Its thread may read the graph's scopes just now, before it launches another graph.
    Finished finished{&pair, word, Pair::With(word, PairPhase::kEnding), {}};
    if (!pair.Change(word, finished.own_word)) continue;
    if (result == kSuccess) result = SpanOf(*pool, pair, &finished.span);
    finished_.push_back(finished);
    if (IsGone(result)) return GiveBack();
    if (result != kSuccess) pools_.Fail(result);
    if (result == kSuccess && finished.span.duration_ns >= 0) continue;
    finished_.pop_back();
    Pools::Finish(&pair, finished.own_word);
  }
  FindGraphs(pool);
  for (const Finished& finished : finished_) {
    scopes_.clear();
    if (IsSure(finished)) {
      const int result = ReadParts(pools_.driver(), finished.pair);
      if (result != kSuccess && !IsContextGone(result)) pools_.Fail(result);
      TakeParts(*finished.pair, finished.span, &scopes_);
    }
    AddDivided(finished.span, scopes_, &open_, &history_);
    Pools::Finish(finished.pair, finished.own_word);
  }
  return true;
}

// A span that is not finished, in which a graph runs or may run.
void Rounds::AddOther(const Pair& pair, uint32_t word) noexcept {
  const Other other{pair.stream_number, pair.recorded_ns};
  const bool has_graph = pair.graph.load(std::memory_order_relaxed) != nullptr;
  if (has_graph && pair.word.load(std::memory_order_acquire) == word) others_.push_back(other);
}

// The context is gone, and Drop takes pairs that are pending. False.
bool Rounds::GiveBack() noexcept {
  for (const Finished& finished : finished_) finished.pair->Change(finished.own_word, finished.word);
  return false;
}

// Learns in which graphs scopes are, from spans of graphs that ran alone. Takes a fiftieth of the thread's time at
// most.
void Rounds::FindGraphs(Pool* pool) noexcept {
  if (pool->captured.load() <= 0 || Now() < pool->next_find_ns) return;
  const int64_t cpu_ns = base::ClockNs(CLOCK_THREAD_CPUTIME_ID);
  for (const Finished& finished : finished_) {
    void* const graph = finished.pair->graph.load(std::memory_order_relaxed);
    const bool is_alone = IsAlone(finished) && pools_.lone_graph_ns.load() < finished.span.begin_ns - kLoneGraphNs;
    if (graph != nullptr && graph != kAnyGraph && is_alone) FindScopesOf(finished, graph);
  }
  pool->next_find_ns = Now() + kFindShare * (base::ClockNs(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
}

void Rounds::FindScopesOf(const Finished& finished, void* graph) noexcept {
  const Pair& whole = *finished.pair;
  if (!whole.has_begin && whole.pool->anchor.width_ns == 0) return;  // nobody knows when it ran
  const int64_t longest_ns = finished.span.duration_ns + int64_t{1'000} * finished.span.error_us;
  Pair* const pairs = whole.pool->pairs.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < pools_.pair_count(); ++i) {
    Pair& scope = pairs[i];
    void* unknown = nullptr;
    const bool is_captured = Pair::PhaseOf(scope.word.load(std::memory_order_acquire)) == PairPhase::kCaptured;
    if (is_captured && scope.graph.load(std::memory_order_relaxed) == nullptr &&
        RanIn(pools_.driver(), scope, whole, longest_ns))
      scope.graph.compare_exchange_strong(unknown, graph);
  }
}

// Whether no graph may have run on another stream meanwhile.
bool Rounds::IsAlone(const Finished& finished) const noexcept {
  const Span& span = finished.span;
  const int64_t end_ns = span.begin_ns + span.duration_ns;
  return std::none_of(finished_.begin(), finished_.end(),
                      [&](const Finished& other) {
                        return other.pair->graph.load(std::memory_order_relaxed) != nullptr &&
                               other.span.stream != span.stream && other.span.begin_ns < end_ns &&
                               other.span.begin_ns + other.span.duration_ns > span.begin_ns;
                      }) &&
         std::none_of(others_.begin(), others_.end(),
                      [&](const Other& other) { return other.stream != span.stream && other.recorded_ns < end_ns; });
}

// Whether what graphs recorded in the time of a span is the span's. Without its launches nobody knows the graph.
bool Rounds::IsSure(const Finished& finished) noexcept {
  Pool& pool = *finished.pair->pool;
  void* const graph = finished.pair->graph.load(std::memory_order_relaxed);
  if (graph == nullptr || pool.captured.load() <= 0) return false;
  if (graph != kAnyGraph) return true;
  if (pools_.are_launches_seen.load(std::memory_order_relaxed)) return false;
  if (IsAlone(finished) && finished.span.begin_ns >= pool.unsure_until_ns) return true;
  // Nor is it the other's, which may end later.
  pool.unsure_until_ns = std::max(pool.unsure_until_ns, finished.span.begin_ns + finished.span.duration_ns);
  pools_.counts().replays_unsure.fetch_add(1, std::memory_order_relaxed);
  return false;
}

}  // namespace pitot::cuda_events
