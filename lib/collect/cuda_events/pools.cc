// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_events/pools.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "collect/cuda_events/replays.h"
#include "trace/names.h"
#include "trace/process.h"
#include "trace/stream_use.h"

namespace pitot::cuda_events {
namespace {

void Count(std::atomic<uint64_t>* count) { count->fetch_add(1, std::memory_order_relaxed); }

// Asked before anything else: to ask for a captured stream's number would end the capture.
bool IsCaptured(const Driver& driver, void* stream) {
  int status = kNotCapturing;
  // Asking about the legacy stream is an error while another stream is being captured.
  return driver.is_capturing != nullptr &&
         (driver.is_capturing(stream, &status) != kSuccess || status != kNotCapturing);
}

// The driver's number if it has one; otherwise one that no other stream has at the time.
uint32_t StreamNumber(const Driver& driver, void* stream) {
  unsigned long long id = 0;
  if (driver.get_stream_id != nullptr && driver.get_stream_id(stream, &id) == kSuccess)
    return static_cast<uint32_t>(id);
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream) >> 4);
}

// Called by the driver once a graph, and all made of it, are gone. A scope that has not ended yet finds out by itself.
void LetGo(void* pair) noexcept {
  auto& held = *static_cast<Pair*>(pair);
  const uint32_t word = held.word.load();  // before: afterwards it may be taken anew
  const PairPhase phase = Pair::PhaseOf(word);
  if (held.graphs.fetch_sub(1) != 1 || phase == PairPhase::kEmpty || phase == PairPhase::kFree) return;
  if (held.Change(Pair::With(word, PairPhase::kCaptured), Pair::Next(word, PairPhase::kFree)))
    held.pool->captured.fetch_sub(1);
}

// The innermost open scope of this thread in a capture, while its pair has this word.
struct OpenInCapture {
  Pair* pair = nullptr;
  uint32_t word = 0;
};
thread_local OpenInCapture t_open_in_capture{};

// Its name after those of the open scopes around it: "forward / attention".
Name PathOf(const OpenInCapture& outer, Name name) {
  if (outer.pair == nullptr || outer.pair->word.load(std::memory_order_relaxed) != outer.word) return name;
  const std::string_view around = trace::NameText(outer.pair->name), own = trace::NameText(name.index);
  char path[2 * trace::kMaxNameBytes + 4];
  const int size = std::snprintf(path, sizeof path, "%.*s / %.*s", static_cast<int>(around.size()), around.data(),
                                 static_cast<int>(own.size()), own.data());
  return trace::InternText({path, static_cast<size_t>(std::clamp<int>(size, 0, sizeof path - 1))});
}

// The innermost open scope that the host placed on this thread.
thread_local detail::CudaSpan t_scope{};

int CountScopes(Pool* pool, const void* graph) {
  Pair* const pairs = pool->pairs.load(std::memory_order_acquire);
  int count = 0;
  for (uint32_t i = 0; pairs != nullptr && i < pool->owner->pair_count(); ++i)
    count += Pair::PhaseOf(pairs[i].word.load(std::memory_order_relaxed)) == PairPhase::kCaptured &&
             pairs[i].graph.load(std::memory_order_relaxed) == graph;
  return count;
}

}  // namespace

bool Pools::IsUsable() const noexcept {
  return is_running.load(std::memory_order_relaxed) && !until_exit.is_closed() && fork_epoch_ == trace::ForkEpoch();
}

void Pools::Fail(int result) noexcept {
  Count(&counts_.failed);
  counts_.last_error.store(result, std::memory_order_relaxed);
}

bool Pools::IsCapturing(const Driver& driver, void* stream) noexcept {
  const bool is_captured = IsCaptured(driver, stream);
  if (is_captured) Count(&counts_.capturing);
  return is_captured;
}

// Whether the pool's context was destroyed: another may have its address now. Threads: any that has a driver.
bool Pools::IsGone(const Pool& pool) const noexcept {
  const uint64_t memory = pool.witness.load(std::memory_order_relaxed);
  unsigned long long id = 0;
  return memory != 0 && (found_.get_pointer_attribute(&id, kBufferId, memory) != kSuccess ||
                         id != pool.witness_id.load(std::memory_order_relaxed));
}

bool Pools::MakeWitness(Pool* pool) noexcept {
  if (found_.get_context_id != nullptr || pool->witness.load(std::memory_order_relaxed) != 0) return true;
  unsigned long long memory = 0, id = 0;
  int result = found_.allocate(&memory, 1);
  if (result == kSuccess && (result = found_.get_pointer_attribute(&id, kBufferId, memory)) != kSuccess)
    found_.free(memory);
  if (result != kSuccess) {
    Fail(result);
    return false;
  }
  pool->witness_id.store(id, std::memory_order_relaxed);
  pool->witness.store(memory, std::memory_order_relaxed);
  return true;
}

Pool* Pools::Find(void* context, uint64_t id) noexcept {
  for (Pool& pool : pools_) {
    if (pool.context.load(std::memory_order_acquire) == context &&
        pool.context_id.load(std::memory_order_relaxed) == id &&
        pool.phase.load(std::memory_order_acquire) != PoolPhase::kUnused)
      return &pool;
  }
  return nullptr;
}

// Claims a pool for a context, one thread at a time; scopes of the others come too early anyway.
void Pools::Claim(void* context, uint64_t id) noexcept {
  if (is_claiming_.exchange(true, std::memory_order_acquire)) return;
  Pool* pool = Find(context, id);
  PoolPhase expected = pool != nullptr ? PoolPhase::kParked : PoolPhase::kUnused;
  if (pool == nullptr) {
    for (Pool& other : pools_) {
      if (other.phase.load(std::memory_order_acquire) == PoolPhase::kUnused) pool = &other;
    }
  }
  if (pool == nullptr) {
    Count(&counts_.no_room);
    wants_room.store(true);
    WakeIfIdle();
  } else if (pool->phase.compare_exchange_strong(expected, PoolPhase::kClaimed)) {
    pool->context_id.store(id, std::memory_order_relaxed);
    pool->context.store(context, std::memory_order_release);
    pool->phase.store(PoolPhase::kWanted, std::memory_order_release);
    wants_pool.store(true);
    WakeIfIdle();
  }
  is_claiming_.store(false, std::memory_order_release);
}

// Requests the missing parts of the pool again, some time after they failed.
void Pools::Retry(Pool* pool) noexcept {
  int64_t at_ns = pool->retry_at_ns.load(std::memory_order_acquire);
  if (at_ns == kRetryNow || at_ns == kNothingMissing || base::ClockNs(CLOCK_MONOTONIC) < at_ns) return;
  if (!pool->retry_at_ns.compare_exchange_strong(at_ns, kRetryNow)) return;
  wants_pool.store(true);
  WakeIfIdle();
}

Pair* Pools::Take(Pool* pool, uint32_t* word) noexcept {
  Pair* const pairs = pool->pairs.load(std::memory_order_acquire);
  const uint32_t from = pool->next.fetch_add(1, std::memory_order_relaxed);
  // `pairs` is null if its context was destroyed meanwhile.
  for (uint32_t i = 0; pairs != nullptr && i < pair_count_; ++i) {
    Pair& pair = pairs[(from + i) % pair_count_];
    const uint32_t free = pair.word.load(std::memory_order_relaxed);
    if (Pair::PhaseOf(free) != PairPhase::kFree || pair.graphs.load(std::memory_order_acquire) != 0) continue;
    *word = Pair::With(free, PairPhase::kBeginning);
    if (pair.Change(free, *word)) return &pair;
  }
  return nullptr;
}

void Pools::Release(Pair* pair, uint32_t word) noexcept { pair->Change(word, Pair::Next(word, PairPhase::kFree)); }

// The pool of the current context. If it is not ready, or if nothing can be recorded: gives the reason, has the pool
// made or repaired, and returns null.
Pool* Pools::ReadyPool(const Driver& driver, std::atomic<uint64_t>** reason) noexcept {
  void* context = nullptr;
  unsigned long long id = 0;
  *reason = &counts_.no_context;
  if (driver.get_context(&context) != kSuccess || context == nullptr) return nullptr;
  if (driver.get_context_id != nullptr && driver.get_context_id(context, &id) != kSuccess) id = 0;
  Pool* const pool = Find(context, id);
  const PoolPhase phase = pool != nullptr ? pool->phase.load(std::memory_order_acquire) : PoolPhase::kUnused;
  if (phase == PoolPhase::kFailed) {
    *reason = &counts_.failed_pool;
    Retry(pool);
    return nullptr;
  }
  *reason = &counts_.no_pool;
  if (phase != PoolPhase::kReady) {
    if (pool == nullptr || phase == PoolPhase::kParked) Claim(context, id);
    return nullptr;
  }
  if (IsGone(*pool)) {
    wants_room.store(true);
    WakeIfIdle();
    return nullptr;
  }
  return pool;
}

// The host captures once, and early. The thread needs a few ms for the driver and the pool. False: no longer.
bool Pools::Wait() noexcept {
  constexpr int64_t kStepNs = 1'000'000;
  if (patience_ns_.fetch_sub(kStepNs, std::memory_order_relaxed) <= 0) return false;
  std::this_thread::sleep_for(std::chrono::nanoseconds(kStepNs));
  return true;
}

const Driver* Pools::AwaitDriver() noexcept {
  const Driver* driver = driver_.load(std::memory_order_acquire);
  while (driver == nullptr) {
    if (!wants_driver.exchange(true)) WakeIfIdle();
    if (!Wait()) return nullptr;
    driver = driver_.load(std::memory_order_acquire);
  }
  return driver;
}

Pool* Pools::AwaitPool(const Driver& driver) noexcept {
  std::atomic<uint64_t>* reason = nullptr;
  Pool* pool = ReadyPool(driver, &reason);
  while (pool == nullptr && reason == &counts_.no_pool && Wait()) pool = ReadyPool(driver, &reason);
  if (pool == nullptr) Count(reason);
  return pool;
}

detail::CudaSpan Pools::Begin(void* stream, Name name, bool is_stream_idle) noexcept {
  if (!IsUsable()) return {};
  const Driver* const driver = driver_.load(std::memory_order_acquire);
  if (driver == nullptr) {
    Count(&counts_.no_driver);
    if (!wants_driver.exchange(true)) WakeIfIdle();
    return {};
  }
  std::atomic<uint64_t>* reason = nullptr;
  Pool* const pool = ReadyPool(*driver, &reason);
  if (pool == nullptr) Count(reason);
  if (pool == nullptr || IsCapturing(*driver, stream)) return {};
  uint32_t word = 0;
  Pair* const pair = Take(pool, &word);
  if (pair == nullptr) {
    Count(&counts_.no_pair);
    Retry(pool);
    return {};
  }
  pair->name = name.index;
  pair->stream = stream;
  pair->stream_number = StreamNumber(*driver, stream);
  while (pair->correlation = correlation_.fetch_add(1, std::memory_order_relaxed), pair->correlation == 0) {}
  const uint64_t begin_ticks = BeginCall();
  pair->recorded_ns = base::ClockNs(CLOCK_MONOTONIC);
  pair->has_begin = !is_stream_idle;
  pair->graph.store(nullptr, std::memory_order_relaxed);
  pair->was_read = false;
  pair->part_count = 0;
  if (const int result = is_stream_idle ? kSuccess : driver->record_event(pair->begin, stream); result != kSuccess) {
    Fail(result);
    Count(&counts_.failed_record);
    Release(pair, word);
    return {};
  }
  EndCall(begin_ticks, {.collector = collector_name_, .api = call_name_, .correlation = pair->correlation});
  const uint32_t open = Pair::With(word, PairPhase::kOpen);
  if (!pair->Change(word, open)) return {};
  return {pair, open};
}

void Pools::End(detail::CudaSpan span) noexcept {
  auto* const pair = static_cast<Pair*>(span.pair);
  if (t_scope.pair == span.pair && t_scope.ticket == span.ticket) t_scope = {pair->outer, pair->outer_word};
  Pool& pool = *pair->pool;
  Pools& pools = *pool.owner;
  const uint32_t word = Pair::With(span.ticket, PairPhase::kEnding);
  if (pools.until_exit.is_closed() || pools.fork_epoch_ != trace::ForkEpoch() || !pair->Change(span.ticket, word))
    return;
  const Driver& driver = *pools.driver_.load(std::memory_order_acquire);
  if (Pair::PhaseOf(span.ticket) == PairPhase::kCapturing) return pools.EndCaptured(driver, pair, word);
  if (pools.IsCapturing(driver, pair->stream)) return Release(pair, word);
  const uint64_t begin_ticks = BeginCall();
  if (const int result = driver.record_event(pair->end, pair->stream); result != kSuccess) {
    pools.Fail(result);
    Count(&pools.counts_.failed_record);
    return Release(pair, word);
  }
  if (BeginCall() - begin_ticks >= pools.slow_end_ticks.load(std::memory_order_relaxed))
    EndCall(begin_ticks, {.collector = pools.collector_name_, .api = pools.call_name_});
  pool.pending.fetch_add(1);
  if (pair->Change(word, Pair::With(word, PairPhase::kPending))) return pools.WakeIfIdle();
  pool.pending.fetch_sub(1);
}

detail::CudaSpan Pools::BeginScope(void* stream, Name name) noexcept {
  const bool is_asked = most_graph_scopes.load(std::memory_order_relaxed) != 0 && IsUsable();
  const Driver* const driver = is_asked ? AwaitDriver() : nullptr;
  if (driver != nullptr && driver->CanDivideGraphs() && IsCaptured(*driver, stream))
    return BeginCaptured(*driver, stream, name);
  const detail::CudaSpan span = Begin(stream, name);
  if (auto* const pair = static_cast<Pair*>(span.pair); pair != nullptr) {
    pair->outer = static_cast<Pair*>(t_scope.pair), pair->outer_word = t_scope.ticket;
    t_scope = span;
  }
  if (!are_launches_seen.load(std::memory_order_relaxed)) NoteGraph(span, kAnyGraph);
  return span;
}

detail::CudaSpan Pools::OpenScope(void* stream) noexcept {
  const auto* const pair = static_cast<const Pair*>(t_scope.pair);
  const bool is_open = pair != nullptr && pair->word.load(std::memory_order_relaxed) == t_scope.ticket;
  return is_open && pair->stream == stream ? t_scope : detail::CudaSpan();
}

// The graph gets the pair first: a node must never outlive its event.
detail::CudaSpan Pools::BeginCaptured(const Driver& driver, void* stream, Name name) noexcept {
  Pool* const pool = AwaitPool(driver);
  if (pool == nullptr) return {};
  int status = kNotCapturing;
  unsigned long long id = 0;
  void* graph = nullptr;
  if (const int result = driver.get_capture(stream, &status, &id, &graph, nullptr, nullptr);
      result != kSuccess || graph == nullptr) {
    if (result != kSuccess) Fail(result);
    Count(&counts_.capturing);
    return {};
  }
  if (pool->captured.fetch_add(1) >= static_cast<int32_t>(most_graph_scopes.load(std::memory_order_relaxed))) {
    pool->captured.fetch_sub(1);
    Count(&counts_.no_graph_scope);
    return {};
  }
  uint32_t word = 0;
  Pair* const pair = Take(pool, &word);
  if (pair == nullptr) {
    pool->captured.fetch_sub(1);
    Count(&counts_.no_pair);
    Retry(pool);
    return {};
  }
  pair->name = PathOf(t_open_in_capture, name).index;
  pair->stream = stream;
  pair->graph.store(nullptr, std::memory_order_relaxed);
  pair->graphs.fetch_add(1);
  void* object = nullptr;
  int result = driver.create_object(&object, pair, LetGo, 1, kAsynchronous);
  if (result != kSuccess) {
    pair->graphs.fetch_sub(1);
  } else if ((result = driver.hold_object(graph, object, 1, kMove)) != kSuccess) {
    driver.release_object(object, 1);  // which lets go
  } else {
    result = driver.record_node(pair->begin, stream, kExternal);
  }
  const uint32_t open = Pair::With(word, PairPhase::kCapturing);
  if (result != kSuccess) {
    Fail(result);
    Count(&counts_.failed_record);
    Release(pair, word);
  } else if (pair->outer = t_open_in_capture.pair, pair->outer_word = t_open_in_capture.word;
             pair->Change(word, open)) {
    t_open_in_capture = {pair, open};
    return {pair, open};
  }
  pool->captured.fetch_sub(1);
  return {};
}

void Pools::EndCaptured(const Driver& driver, Pair* pair, uint32_t word) noexcept {
  if (t_open_in_capture.pair == pair) t_open_in_capture = {pair->outer, pair->outer_word};
  // A scope that outlives its capture has no end.
  const bool is_captured = IsCaptured(driver, pair->stream);
  const int result = is_captured ? driver.record_node(pair->end, pair->stream, kExternal) : kSuccess;
  if (result != kSuccess) Fail(result);
  if (is_captured && result == kSuccess) {
    const uint32_t captured = Pair::With(word, PairPhase::kCaptured);
    if (pair->Change(word, captured)) {
      if (pair->graphs.load() != 0 || !pair->Change(captured, Pair::Next(captured, PairPhase::kFree))) return;
    }
  } else {
    Count(&counts_.failed_record);
    Release(pair, word);
  }
  pair->pool->captured.fetch_sub(1);
}

void Pools::NoteGraph(detail::CudaSpan span, void* graph) noexcept {
  auto* const pair = static_cast<Pair*>(span.pair);
  if (pair == nullptr || pair->word.load(std::memory_order_relaxed) != span.ticket) return;
  const void* const before = pair->graph.exchange(graph, std::memory_order_relaxed);
  if (before == nullptr || before == kAnyGraph || pair->pool->captured.load(std::memory_order_relaxed) <= 0) return;
  pair->pool->owner->counts_.replays_missed.fetch_add(static_cast<uint64_t>(CountScopes(pair->pool, before)),
                                                      std::memory_order_relaxed);
}

void Pools::ReadReplay(detail::CudaSpan span) noexcept {
  auto* const pair = static_cast<Pair*>(span.pair);
  if (pair == nullptr || pair->pool->captured.load(std::memory_order_relaxed) <= 0) return;
  Pool& pool = *pair->pool;
  Pools& pools = *pool.owner;
  const base::UntilExit::Entered entered(&pools.until_exit);
  if (!entered) return;
  const uint32_t pending = Pair::With(span.ticket, PairPhase::kPending);
  const uint32_t word = Pair::With(span.ticket, PairPhase::kEnding);
  pool.reading.fetch_add(1);  // from now on Park destroys no events
  // Unless it is still open, or the collector's thread has read it.
  if (pools.is_running.load() && pools.IsUsable() && pair->Change(pending, word)) {
    const Driver& driver = *pools.driver_.load(std::memory_order_acquire);
    int mode = kRelaxedCapture;  // the calls must not spoil a capture
    if (driver.exchange_capture_mode(&mode) == kSuccess) {
      if (driver.query_event(pair->end) == kSuccess) ReadParts(driver, pair);
      driver.exchange_capture_mode(&mode);
    }
    if (!pair->Change(word, pending)) pool.pending.fetch_sub(1);  // dropped meanwhile
  }
  pool.reading.fetch_sub(1);
}

void Pools::Rename(detail::CudaSpan span, Name name) noexcept {
  auto* const pair = static_cast<Pair*>(span.pair);
  // Kept from the collector's thread meanwhile: it may drop the pair with its context.
  const uint32_t word = Pair::With(span.ticket, PairPhase::kEnding);
  if (!pair->Change(span.ticket, word)) return;
  pair->name = name.index;
  pair->Change(word, span.ticket);
}

void Pools::Cancel(detail::CudaSpan span) noexcept {
  auto* const pair = static_cast<Pair*>(span.pair);
  if (pair != nullptr && pair->pool->owner->fork_epoch_ == trace::ForkEpoch()) Release(pair, span.ticket);
}

void Pools::AddTarget(void* stream, DeviceCall* call) const noexcept {
  const Driver* const driver = IsUsable() ? driver_.load(std::memory_order_acquire) : nullptr;
  if (driver == nullptr || driver->get_context_id == nullptr || driver->get_stream_id == nullptr) return;
  unsigned long long context = 0, number = kAllStreams;
  const bool is_known = stream == trace::kEveryStream ||
                        (!IsCaptured(*driver, stream) && driver->get_stream_id(stream, &number) == kSuccess);
  if (!is_known || driver->get_context_id(nullptr, &context) != kSuccess) return;
  call->collector = collector_name_;
  call->context = static_cast<uint32_t>(context), call->stream = static_cast<uint32_t>(number);
}

void Pools::SetDriver(const Driver& driver) noexcept {
  found_ = driver;
  driver_.store(&found_, std::memory_order_release);
}

bool Pools::Enter(Pool* pool) noexcept {
  void* const context = pool->context.load(std::memory_order_relaxed);
  if (const int result = found_.push_context(context); result != kSuccess) {
    if (IsContextGone(result)) {
      Drop(pool);
    } else {
      Fail(result);
    }
    return false;
  }
  unsigned long long id = 0;
  if (found_.get_context_id != nullptr && found_.get_context_id(context, &id) != kSuccess) id = 0;
  if (id == pool->context_id.load(std::memory_order_relaxed) && !IsGone(*pool)) return true;
  // Another context has the same address.
  Leave();
  Drop(pool);
  return false;
}

void Pools::Leave() noexcept {
  void* context = nullptr;
  if (const int result = found_.pop_context(&context); result != kSuccess) Fail(result);
}

// Makes the missing pairs and returns how many exist, up to the first failure. Throws bad_alloc.
uint32_t Pools::MakePairs(Pool* pool) {
  Pair* pairs = pool->pairs.load(std::memory_order_relaxed);
  if (pairs == nullptr) {
    memory_.push_back(std::make_unique<Pair[]>(pair_count_));
    pairs = memory_.back().get();
    for (uint32_t i = 0; i < pair_count_; ++i) pairs[i].pool = pool;
    pool->pairs.store(pairs, std::memory_order_release);
  }
  if (most_graph_scopes.load() != 0 && pool->parts.load(std::memory_order_relaxed) == nullptr) {
    part_memory_.push_back(std::make_unique<Part[]>(size_t{kPartsPerPair} * pair_count_));
    pool->parts.store(part_memory_.back().get(), std::memory_order_release);
  }
  uint32_t made = 0;
  for (uint32_t i = 0; i < pair_count_; ++i, ++made) {
    Pair& pair = pairs[i];
    const uint32_t word = pair.word.load(std::memory_order_acquire);
    if (Pair::PhaseOf(word) != PairPhase::kEmpty) continue;
    int result = found_.create_event(&pair.begin, kDefaultEvent);
    if (result == kSuccess && (result = found_.create_event(&pair.end, kDefaultEvent)) != kSuccess)
      found_.destroy_event(pair.begin);
    if (result != kSuccess) {
      Fail(result);
      break;
    }
    pair.Change(word, Pair::With(word, PairPhase::kFree));
  }
  return made;
}

void Pools::MakeLater(Pool* pool) noexcept {
  Count(&counts_.failed_tries);
  pool->retry_at_ns.store(base::ClockNs(CLOCK_MONOTONIC) + retry_ns.load(std::memory_order_relaxed),
                          std::memory_order_release);
  PoolPhase wanted = PoolPhase::kWanted;
  pool->phase.compare_exchange_strong(wanted, PoolPhase::kFailed);
}

void Pools::Make(Pool* pool) noexcept {
  const auto is_made = [&](int result) {
    if (result != kSuccess) Fail(result);
    return result == kSuccess;
  };
  is_used.store(true);
  pool->retry_at_ns.store(kNothingMissing, std::memory_order_relaxed);
  uint32_t made = 0;
  if (MakeWitness(pool)) {
    if (!is_made(found_.get_device(&pool->device))) pool->device = -1;
    // Without these, a span's place in time is known only to within a round of the thread.
    if (pool->stream == nullptr && !is_made(found_.create_stream(&pool->stream, kNonBlocking))) pool->stream = nullptr;
    for (void** event : {&pool->anchor.event, &pool->spare_event}) {
      if (*event == nullptr && !is_made(found_.create_event(event, kDefaultEvent))) *event = nullptr;
    }
    try {
      made = MakePairs(pool);
    } catch (const std::bad_alloc&) {
      // Tried again with all missing parts.
    }
  }
  if (made != pair_count_) MakeLater(pool);
  pool->phase.store(made != 0 ? PoolPhase::kReady : PoolPhase::kFailed, std::memory_order_release);
}

void Pools::Drop(Pool* pool) noexcept {
  Pair* const pairs = pool->pairs.load(std::memory_order_relaxed);
  bool is_in_use = false;  // by a thread in the driver at this moment
  for (uint32_t i = 0; pairs != nullptr && i < pair_count_; ++i) {
    Pair& pair = pairs[i];
    uint32_t word = pair.word.load(std::memory_order_acquire);
    while (!pair.Change(word, Pair::Next(word, PairPhase::kEmpty))) word = pair.word.load(std::memory_order_acquire);
    const PairPhase phase = Pair::PhaseOf(word);
    is_in_use |= phase == PairPhase::kBeginning || phase == PairPhase::kEnding;
    const bool is_of_graph = phase == PairPhase::kCapturing || phase == PairPhase::kCaptured;
    if (phase != PairPhase::kEmpty && phase != PairPhase::kFree && !is_of_graph) Count(&counts_.dropped);
    if (phase == PairPhase::kPending) pool->pending.fetch_sub(1);
    if (is_of_graph) pool->captured.fetch_sub(1);
  }
  // Such a thread may still read its pair, so the next context gets other memory.
  if (is_in_use) pool->pairs.store(nullptr, std::memory_order_relaxed);
  pool->stream = pool->spare_event = nullptr;
  pool->witness.store(0, std::memory_order_relaxed);
  pool->anchor = {};
  pool->renew_at_ns = 0;
  pool->next_find_ns = pool->unsure_until_ns = 0;
  pool->retry_at_ns.store(kNothingMissing, std::memory_order_relaxed);
  pool->context.store(nullptr, std::memory_order_relaxed);
  pool->phase.store(PoolPhase::kUnused, std::memory_order_release);
}

void Pools::DestroyEvents(Pair* pair) noexcept {
  for (void* event : {pair->begin, pair->end}) {
    if (const int result = found_.destroy_event(event); result != kSuccess) Fail(result);
  }
}

void Pools::Park(Pool* pool) noexcept {
  pool->phase.store(PoolPhase::kParked, std::memory_order_release);
  const bool is_read = pool->reading.load() != 0;
  pool->retry_at_ns.store(kNothingMissing, std::memory_order_relaxed);
  Pair* const pairs = pool->pairs.load(std::memory_order_relaxed);
  bool is_in_use = false;
  for (uint32_t i = 0; pairs != nullptr && i < pair_count_; ++i) {
    Pair& pair = pairs[i];
    const uint32_t word = pair.word.load(std::memory_order_acquire);
    const PairPhase phase = Pair::PhaseOf(word);
    const bool is_done = phase == PairPhase::kPending && found_.query_event(pair.end) != kNotReady;
    const bool is_in_graph = pair.graphs.load() != 0;  // which may be launched later
    if ((phase == PairPhase::kFree || is_done) && !is_in_graph && !is_read &&
        pair.Change(word, Pair::Next(word, PairPhase::kEmpty))) {
      if (is_done) pool->pending.fetch_sub(1);
      DestroyEvents(&pair);
    } else if (phase != PairPhase::kEmpty) {
      is_in_use = true;
    }
  }
  for (void** event : {&pool->anchor.event, &pool->spare_event}) {
    if (*event == nullptr) continue;
    if (found_.query_event(*event) == kNotReady) {
      is_in_use = true;
    } else {
      found_.destroy_event(std::exchange(*event, nullptr));
    }
  }
  pool->anchor.width_ns = 0;
  if (is_in_use) return;
  if (pool->stream != nullptr) found_.destroy_stream(std::exchange(pool->stream, nullptr));
  if (const uint64_t memory = pool->witness.exchange(0, std::memory_order_relaxed); memory != 0) found_.free(memory);
  pool->context.store(nullptr, std::memory_order_relaxed);
  pool->phase.store(PoolPhase::kUnused, std::memory_order_release);
}

}  // namespace pitot::cuda_events
