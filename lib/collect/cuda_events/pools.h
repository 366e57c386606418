// SPDX-License-Identifier: Apache-2.0
//
// Pairs of CUDA events, a pool for each context. The host's threads take a pair, record both events and hand it over.
// The collector's thread makes pools, sees which pairs the GPU has finished, and gives them back.
//
// A pair's state is a word: its PairPhase, and how many times it was given back, so an old ticket changes nothing.
// Memory of pairs is kept for the life of the process, because a scope may end at any time.
#ifndef PITOT_LIB_COLLECT_CUDA_EVENTS_POOLS_H_
#define PITOT_LIB_COLLECT_CUDA_EVENTS_POOLS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/semaphore.h"
#include "base/until_exit.h"
#include "collect/cuda_events/driver.h"
#include "pitot/collect/cuda_events.h"
#include "pitot/extend/call.h"
#include "pitot/trace.h"

namespace pitot::cuda_events {

inline constexpr char kCollectorName[] = "cuda_events";
// The name of the calls that mark where spans begin (model::IsMark).
inline constexpr char kCallName[] = "CudaEventScope";

inline constexpr uint32_t kMaxContexts = 16;

enum class PairPhase : uint32_t {
  kEmpty,      // has no events
  kFree,       // in the pool
  kBeginning,  // the host's thread records the first event
  kOpen,       // its scope is open
  kEnding,     // the host's thread records the second event
  kPending,    // the collector's thread waits for the GPU
  kCapturing,  // its scope is open in a capture, whose graph has the node of the first event
  kCaptured,   // a graph has the nodes of both events
};

struct Pool;

// A graph may have been launched, unseen.
inline void* const kAnyGraph = reinterpret_cast<void*>(~uintptr_t{0});  // NOLINT(performance-no-int-to-ptr)

struct alignas(64) Pair {
  static constexpr uint32_t kPhaseBits = 3;
  static PairPhase PhaseOf(uint32_t word) { return static_cast<PairPhase>(word & ((1u << kPhaseBits) - 1)); }
  static uint32_t With(uint32_t word, PairPhase phase) {
    return (word >> kPhaseBits << kPhaseBits) | static_cast<uint32_t>(phase);
  }
  // The word for the pair's next use.
  static uint32_t Next(uint32_t word, PairPhase phase) { return With(word + (1u << kPhaseBits), phase); }
  bool Change(uint32_t from, uint32_t to) {
    return word.compare_exchange_strong(from, to, std::memory_order_acq_rel, std::memory_order_acquire);
  }

  std::atomic<uint32_t> word{0};
  std::atomic<uint32_t> name{0};  // index of a Name
  std::atomic<uint32_t> stream_number{0};
  uint32_t correlation = 0;
  bool has_begin = false;  // its first event was recorded
  // The executable graph last launched in its scope, null or kAnyGraph. In phase kCaptured the one in which it is, once
  // that is known.
  std::atomic<void*> graph{nullptr};
  // Where its graph's scopes are among the pool's parts, once they were read (replays.h).
  bool was_read = false;
  uint32_t first_part = 0, part_count = 0;
  std::atomic<int64_t> recorded_ns{0};  // CLOCK_MONOTONIC, before the first event was recorded
  Pool* pool = nullptr;
  void* stream = nullptr;  // the host's
  void* begin = nullptr;
  void* end = nullptr;

  // For pairs in graphs.
  std::atomic<uint32_t> graphs{0};  // that hold it; it is not taken again before there is none
  Pair* outer = nullptr;            // the scope around it, while that has outer_word
  uint32_t outer_word = 0;
};

enum class PoolPhase : uint32_t {
  kUnused,
  kClaimed,  // by a thread that is writing its context
  kWanted,   // by the host; the collector's thread will make it
  kReady,
  kFailed,  // could not be made, yet
  kParked,  // the collector stopped; some pairs may still be in flight
};

// Ties a context's GPU to CLOCK_MONOTONIC: one event, its time known to half of `width_ns`.
struct Anchor {
  void* event = nullptr;
  int64_t at_ns = 0;
  int64_t width_ns = 0;  // 0: not measured
};

class Pools;

inline constexpr int64_t kRetryNow = 0;  // the collector's thread was told
inline constexpr int64_t kNothingMissing = INT64_MAX;

// A scope of a graph in the replay of a launch.
struct Part {
  std::atomic<uint64_t> key{0};  // correlation of the launch's pair, and the index of a Name; 0: being written
  std::atomic<int64_t> to_end_ns{0}, duration_ns{0};  // from its begin to the end of the launch's span; its own length
};
inline constexpr uint32_t kPartsPerPair = 8;  // between two rounds a graph is replayed several times

struct Pool {
  Pools* owner = nullptr;
  std::atomic<PoolPhase> phase{PoolPhase::kUnused};
  // The pool's context: written while claimed, kept until the pool is unused again.
  std::atomic<void*> context{nullptr};
  std::atomic<uint64_t> context_id{0};  // unlike the address, never reused; 0: unknown
  // Memory of the context and its number, never reused for other memory: proof that the context still exists. 0: none.
  std::atomic<uint64_t> witness{0}, witness_id{0};
  std::atomic<Pair*> pairs{nullptr};
  std::atomic<uint32_t> next{0};     // where the search for a free pair begins
  std::atomic<int32_t> pending{0};   // pairs in phase kPending
  std::atomic<int32_t> captured{0};  // pairs that are or become parts of graphs
  std::atomic<int32_t> reading{0};   // threads of the host that read parts of graphs
  std::atomic<uint64_t> next_part{0};
  std::atomic<Part*> parts{nullptr};  // kPartsPerPair for each pair
  // When a scope may ask again for parts that could not be made: CLOCK_MONOTONIC, kRetryNow or kNothingMissing.
  std::atomic<int64_t> retry_at_ns{kNothingMissing};

  // Used by the collector's thread only.
  int device = -1;
  void* stream = nullptr;  // our own, for anchors
  Anchor anchor;
  void* spare_event = nullptr;
  int64_t renew_at_ns = 0;
  int64_t next_find_ns = 0;     // when it is looked for the graphs of scopes again
  int64_t unsure_until_ns = 0;  // until then graphs may have run on two streams at once
};

// Reasons for untimed scopes, and failed calls.
struct Counts {
  void Clear() noexcept {
    for (auto* count : {&no_driver, &no_context, &no_pool, &failed_pool, &no_room, &no_pair, &capturing, &failed_record,
                        &no_time, &dropped, &failed, &failed_tries, &no_graph_scope, &replays_missed, &replays_unsure})
      count->store(0, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> no_driver{0};    // not loaded, or not looked for yet
  std::atomic<uint64_t> no_context{0};   // none current
  std::atomic<uint64_t> no_pool{0};      // not made yet
  std::atomic<uint64_t> failed_pool{0};  // could not be made
  std::atomic<uint64_t> no_room{0};      // for another context
  std::atomic<uint64_t> no_pair{0};
  std::atomic<uint64_t> capturing{0};
  std::atomic<uint64_t> failed_record{0};   // one of their events was not recorded
  std::atomic<uint64_t> no_time{0};         // the time between their events was negative or not finite
  std::atomic<uint64_t> dropped{0};         // in flight when their context was destroyed
  std::atomic<uint64_t> failed{0};          // calls of the driver
  std::atomic<uint64_t> failed_tries{0};    // to make all of a pool
  std::atomic<uint64_t> no_graph_scope{0};  // in a capture, beyond CudaEventOptions::graph_scopes
  std::atomic<uint64_t> replays_missed{0};  // of a scope in a graph: the next one had begun when it was looked for
  std::atomic<uint64_t> replays_unsure{0};  // spans in which a graph may have run, as in one of another stream
  std::atomic<int> last_error{0};
};

class Pools {
 public:
  // Pools for the driver in `library`. `former` were made before. Throws bad_alloc.
  Pools(std::string library, uint32_t pairs, uint32_t fork_epoch, Pools* former)
      : library_(std::move(library)), fork_epoch_(fork_epoch), pair_count_(pairs), former_(former) {
    for (Pool& pool : pools_) pool.owner = this;
  }
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  // On the host's threads. `is_stream_idle`: nothing is on it, so its work begins as soon as it is enqueued: no event
  // is needed to know when.
  detail::CudaSpan Begin(void* stream, Name name, bool is_stream_idle = false) noexcept;
  static void End(detail::CudaSpan span) noexcept;
  // As Begin, for a scope placed by the host: in a capture it becomes part of the graph, as far as that is allowed.
  detail::CudaSpan BeginScope(void* stream, Name name) noexcept;
  // A graph is launched in an open span. The parts of one launched there before are missed.
  static void NoteGraph(detail::CudaSpan span, void* graph) noexcept;
  // The innermost open scope that the host placed on this thread, if it is on that stream.
  static detail::CudaSpan OpenScope(void* stream) noexcept;
  // Before its thread launches another graph: reads the scopes in the one launched in `span`, which may be over.
  static void ReadReplay(detail::CudaSpan span) noexcept;
  // Names an open span anew.
  static void Rename(detail::CudaSpan span, Name name) noexcept;
  // Gives an open span up, without a call of the driver.
  static void Cancel(detail::CudaSpan span) noexcept;
  // As trace::StreamWatcher says. Drivers older than CUDA 12 have no numbers.
  // Cost: three calls of the driver, 0.1 us.
  void AddTarget(void* stream, DeviceCall* call) const noexcept;

  // On the collector's thread.
  const std::string& library() const noexcept { return library_; }
  Pools* former() const noexcept { return former_; }
  bool HasDriver() const noexcept { return driver_.load(std::memory_order_acquire) != nullptr; }
  void SetDriver(const Driver& driver) noexcept;
  const Driver& driver() const noexcept { return found_; }
  // Makes the pool's context current. False: it is gone, and so is the pool; or it is not available now.
  bool Enter(Pool* pool) noexcept;
  void Leave() noexcept;
  // Makes the missing parts of an entered pool. Failed parts are tried again later.
  void Make(Pool* pool) noexcept;
  // Puts off the missing parts to a later try.
  void MakeLater(Pool* pool) noexcept;
  // Gives up everything lost with the context.
  void Drop(Pool* pool) noexcept;
  // Gives a pair back; does nothing if it was dropped meanwhile.
  static void Release(Pair* pair, uint32_t word) noexcept;
  // Gives back a pending pair.
  static void Finish(Pair* pair, uint32_t word) noexcept {
    pair->pool->pending.fetch_sub(1);
    Release(pair, word);
  }
  // Destroys the events of all free and finished pairs of an entered pool, and leaves pairs in use. Only once nothing
  // begins any more.
  void Park(Pool* pool) noexcept;
  void Fail(int result) noexcept;

  Pool* begin() noexcept { return pools_; }
  Pool* end() noexcept { return pools_ + kMaxContexts; }
  uint32_t pair_count() const noexcept { return pair_count_; }
  Counts& counts() noexcept { return counts_; }
  uint32_t fork_epoch() const noexcept { return fork_epoch_; }

  // Shared by the threads. The collector's sets `is_idle`, looks for work once more, and only then waits without a
  // limit.
  void WakeIfIdle() noexcept {
    if (is_idle.exchange(false)) wake.Give();
  }
  base::Semaphore wake;
  std::atomic<bool> is_idle{false};
  std::atomic<bool> is_running{false};  // otherwise nothing begins
  base::UntilExit until_exit;           // entered by the collector's thread; the host's look whether it is closed
  std::atomic<bool> is_hanging{false};  // a former collector's thread stays in the driver
  std::atomic<bool> is_used{false};     // a pool was made
  std::atomic<uint64_t> slow_end_ticks{UINT64_MAX};
  std::atomic<int64_t> retry_ns{0};            // from a try to make a pool to the next
  std::atomic<uint32_t> most_graph_scopes{0};  // of a pool
  std::atomic<bool> are_launches_seen{false};
  std::atomic<int64_t> lone_graph_ns{INT64_MIN / 2};  // when a graph was launched last in no span
  // Requests by the host.
  std::atomic<bool> wants_driver{false};
  std::atomic<bool> wants_pool{false};
  std::atomic<bool> wants_room{false};  // for another context

 private:
  Pool* Find(void* context, uint64_t id) noexcept;
  void Claim(void* context, uint64_t id) noexcept;
  Pool* ReadyPool(const Driver& driver, std::atomic<uint64_t>** reason) noexcept;
  const Driver* AwaitDriver() noexcept;
  Pool* AwaitPool(const Driver& driver) noexcept;
  bool Wait() noexcept;
  detail::CudaSpan BeginCaptured(const Driver& driver, void* stream, Name name) noexcept;
  void EndCaptured(const Driver& driver, Pair* pair, uint32_t word) noexcept;
  Pair* Take(Pool* pool, uint32_t* word) noexcept;
  bool IsCapturing(const Driver& driver, void* stream) noexcept;
  bool IsUsable() const noexcept;
  bool IsGone(const Pool& pool) const noexcept;
  void Retry(Pool* pool) noexcept;
  bool MakeWitness(Pool* pool) noexcept;
  uint32_t MakePairs(Pool* pool);
  void DestroyEvents(Pair* pair) noexcept;

  const std::string library_;
  const uint32_t fork_epoch_;  // trace::ForkEpoch() of its process
  const uint32_t pair_count_;
  Pools* const former_;
  Pool pools_[kMaxContexts];
  Driver found_{};
  std::atomic<const Driver*> driver_{nullptr};
  std::atomic<bool> is_claiming_{false};
  std::atomic<int64_t> patience_ns_{100'000'000};  // of all captures together, for the collector's thread
  std::atomic<uint32_t> correlation_{0};
  const Name collector_name_ = Intern(kCollectorName), call_name_ = Intern(kCallName);
  Counts counts_;
  std::vector<std::unique_ptr<Pair[]>> memory_;  // of all pairs ever made
  std::vector<std::unique_ptr<Part[]>> part_memory_;
};

}  // namespace pitot::cuda_events

#endif  // PITOT_LIB_COLLECT_CUDA_EVENTS_POOLS_H_
