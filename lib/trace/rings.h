// SPDX-License-Identifier: Apache-2.0
//
// The rings of all threads: who has one, of what size, and what becomes of it. Locks are taken at a thread's first
// event, at its end, and by the recorder; never per event.
//
// A ring is live (a thread writes it), retired (its thread exited; readable until the budget has no room for another
// thread's: then the one retired first is recycled) or parked (its recorder stopped; its pages are given back, its
// addresses stay because the thread may be in the middle of a write).
#ifndef PITOT_LIB_TRACE_RINGS_H_
#define PITOT_LIB_TRACE_RINGS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "pitot/trace.h"

namespace pitot::trace {

inline constexpr uint32_t kThreadNameBytes = 64;

enum class RingState : uint8_t { kLive, kRetired, kParked };

inline constexpr uint32_t kMaxOpenArgs = 4;
inline constexpr uint32_t kMaxOwners = 128;  // of scopes that calls begin (manual.h)
// In a thread's depth, while its open stack has a hole because a scope was closed before one it encloses: it makes
// every close go to CloseOutOfOrder and hides scopes that open meanwhile; below the bit the depth counts those that are
// open.
inline constexpr uint32_t kHoles = 0x80000000;

// The arguments of an open scope, which its record says only at its end: what a wait waits for, how a scope is named at
// run time. Holds for the open scope of its depth if both began at the same tick. detail::ShowArgs writes it.
struct OpenArgs {
  uint64_t begin;
  uint64_t words[kMaxOpenArgs];
};

// A thread's ring with what only the library touches. Lives in the first page of its mapping; the words follow.
struct ThreadRing : detail::Ring {
  ThreadRing* next;              // in the registry
  uint64_t bytes;                // of the words
  std::atomic<RingState> state;  // written under the registry's lock
  uint32_t pins;                 // snapshots that read it: not recycled meanwhile
  uint32_t number;
  int64_t tid;
  ThreadRing* next_retired;  // retired after this one
  uint64_t attach_ticks;
  uint64_t exit_ticks;                               // of a retired one
  uint64_t floor;                                    // words before this one are of a former thread or recorder
  std::atomic<uint64_t> name[kThreadNameBytes / 8];  // read while its thread may rename itself
  std::atomic<uint64_t> misnested;
  std::atomic<bool> named;         // by SetThreadName
  uint8_t begun;                   // depth of the newest scope that a call began (manual.h), plus one
  uint32_t begun_unrecorded;       // how many the host began since that found no room
  uint8_t ranges_open;             // of others than the host
  uint8_t gaps;                    // below the depth, where such a range has ended; 0 while there are holes
  uint64_t usage_ticks;            // when the thread recorded its usage last (usage.h)
  std::atomic<int32_t> schedstat;  // its file to read then, plus 1; 0: none
  std::atomic<bool> is_reading;    // it
  uint8_t
      begun_before[detail::kMaxOpen];  // of a scope begun at that depth: the one begun before that is open, as `begun`
  uint8_t begun_by[detail::kMaxOpen];  // its owner
  uint8_t ranges_unrecorded[kMaxOwners];  // of an owner's, how many found no room since
  OpenArgs open_args[detail::kMaxOpen];
};

struct RingLimits {
  uint64_t budget_bytes = 0;  // of the words and of a page for each ring's header
  uint64_t max_bytes = 0;
  uint64_t min_bytes = 0;
};

struct RingCounts {
  uint64_t bytes_used = 0, bytes_parked = 0;
  uint32_t live = 0, retired = 0;
  uint64_t threads_refused = 0, events_refused = 0, closed_elsewhere = 0, misnested = 0;
  uint64_t begins_refused = 0;  // of scopes that calls began within kMaxOpen others
  uint64_t events = 0;          // by all threads since the gate was opened
  uint64_t searches = 0;        // how often a thread without a ring looked for one
  // What recycling took from the incidents to come, since the gate was opened: rings, the events recorded in them, and
  // when the last of their threads exited.
  uint64_t rings_recycled = 0, events_recycled = 0, recycled_exit_ticks = 0;
};

// A ring of a thread that exited, taken over by another: its events are gone.
struct RecycledRing {
  uint32_t number = 0;
  int64_t tid = 0;
  uint64_t events = 0;
  uint64_t attach_ticks = 0, exit_ticks = 0;
  char name[kThreadNameBytes] = {};
};
inline constexpr uint32_t kMaxRecycledKept = 64;

// Opens the gate: threads attach from now on. `slow_clock` as NeedsSlowClock said. False if thread-exit keys are
// exhausted.
bool OpenRings(const RingLimits& limits, bool slow_clock) noexcept;
// Closes it. Retired rings are unmapped, the others parked.
void CloseRings() noexcept;
// In the child of a fork, on its only thread: unmaps every ring.
void ForgetRingsAfterFork() noexcept;

// The rings worth reading, by thread number. While this lives they are neither recycled nor unmapped, and CloseRings
// waits: keep it short. May throw bad_alloc.
class PinnedRings {
 public:
  PinnedRings();
  ~PinnedRings();
  PinnedRings(const PinnedRings&) = delete;
  PinnedRings& operator=(const PinnedRings&) = delete;
  size_t size() const { return rings_.size(); }
  const ThreadRing& operator[](size_t i) const { return *rings_[i]; }
  auto begin() const { return rings_.begin(); }
  auto end() const { return rings_.end(); }

 private:
  std::vector<ThreadRing*> rings_;
};

// Closes an open scope that is not the newest, and counts that where one it encloses is open still.
void CloseOutOfOrder(detail::Ring* ring, uint32_t depth) noexcept;

RingCounts CountRings() noexcept;
void CountRefusedBegin() noexcept;
// The last kMaxRecycledKept that were recycled, the newest last. May throw bad_alloc.
std::vector<RecycledRing> RecentlyRecycled();

// The calling thread's ring while the gate is open, else null.
inline ThreadRing* EnterThread() noexcept { return static_cast<ThreadRing*>(detail::Enter()); }

// A copy of the ring's thread name: SetThreadName's, else the system's.
void CopyThreadName(const ThreadRing& ring, char (&out)[kThreadNameBytes]) noexcept;

// For tests that play many threads on one: makes the calling thread continue as the thread of `ring` (from a former
// call that returned it), or as a new one for null. Returns the ring, null if there is none.
ThreadRing* SwitchThreadForTesting(ThreadRing* ring, const char* name) noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_RINGS_H_
