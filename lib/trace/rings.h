// SPDX-License-Identifier: Apache-2.0
//
// The rings of all threads: their owners, sizes and states. Locks are taken at a thread's first event, at its end, and
// by the recorder; never per event.
//
// A ring is in one of three states. Live: a thread writes it. Retired: its thread exited; it stays readable. If it is
// at most half full, or the budget has no room for another ring, a new thread takes it over. The records of former
// threads stay until they are overwritten. Parked: its recorder stopped; its pages are given back, but its addresses
// stay, because the thread may be in the middle of a write.
#ifndef PITOT_LIB_TRACE_RINGS_H_
#define PITOT_LIB_TRACE_RINGS_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "pitot/trace.h"

namespace pitot::trace {

inline constexpr uint32_t kThreadNameBytes = 64;

enum class RingState : uint8_t { kLive, kRetired, kParked };

inline constexpr uint32_t kMaxOpenArgs = 4;
inline constexpr uint32_t kMaxOwners = 128;  // of scopes that begin by calls (manual.h)
// Set in a thread's depth while its open stack has a hole, because a scope was closed before one inside it. It sends
// every close to CloseOutOfOrder, and hides scopes that open meanwhile. The bits below it count the open scopes.
inline constexpr uint32_t kHoles = 0x80000000;

// The arguments of an open scope, for dumps; its record has them only at its end. Examples are the resource of a wait,
// and a name given at run time. Valid for the open scope of its depth if both began at the same tick. Written by
// detail::ShowArgs.
struct OpenArgs {
  uint64_t begin;
  uint64_t words[kMaxOpenArgs];
};

// Which words a ring holds, and where. Its thread changes the size while others read: from word `changed_at` on words
// lie by the present size, older ones by the former. All of it is one word, so that no reader finds it torn:
// changed_at:52 | log2(former size):6 | log2(size):6. Sizes are in words.
class RingShape {
 public:
  explicit constexpr RingShape(uint64_t bits) : bits_(bits) {}
  static RingShape Of(uint64_t words) { return RingShape(0).ChangedAt(0, words).ChangedAt(0, words); }
  RingShape ChangedAt(uint64_t head, uint64_t words) const {
    return RingShape(head << 12 | (bits_ & 63) << 6 | static_cast<uint64_t>(std::countr_zero(words)));
  }

  uint64_t bits() const { return bits_; }
  uint64_t words() const { return uint64_t{1} << (bits_ & 63); }
  uint64_t former_words() const { return uint64_t{1} << (bits_ >> 6 & 63); }
  uint64_t changed_at() const { return bits_ >> 12; }
  // What the words before the change have as room until the last of them is gone.
  uint64_t least_words() const { return std::min(words(), former_words()); }

  uint64_t MaskAt(uint64_t word) const { return (word < changed_at() ? former_words() : words()) - 1; }
  uint64_t PlaceOf(uint64_t word) const { return word & MaskAt(word); }
  // The oldest word that is there when `written` words have been written.
  uint64_t OldestAt(uint64_t written) const {
    const auto before = [written](uint64_t room) { return written > room ? written - room : 0; };
    return std::max(before(words()), std::min(changed_at(), before(least_words())));
  }
  // Whether the words of all sizes before the present one are gone.
  bool HasTurnedAt(uint64_t head) const { return head >= changed_at() + words(); }

 private:
  uint64_t bits_;
};

// A thread's ring, with the fields that only the library uses. From `head` on it lies in the page before the ring's
// words, in a black box if one is open (box.h); RingEntry in rings.cc has what only this process needs.
struct ThreadRing : detail::Ring {
  uint64_t box_next;             // offset in the black box of the ring that was made before this one; 0: none
  std::atomic<uint64_t> shape;   // RingShape; written by the thread
  std::atomic<uint64_t> offer;   // words that the ring may have from its thread's next event on; usually its size
  std::atomic<RingState> state;  // written under the registry's lock
  std::atomic<uint32_t> number;  // 0: the ring is on its way to another thread
  int64_t tid;
  uint64_t attach_ticks;
  uint64_t exit_ticks;  // for a retired ring
  uint64_t floor;       // words before this one are not the thread's
  // Words before this one are nobody's. From here to `floor` they are those of former threads: the records of each, and
  // then one of its end (Record::kThreadEnd).
  uint64_t first_word;
  std::atomic<uint32_t> former_threads;              // that left their records in it
  std::atomic<uint64_t> name[kThreadNameBytes / 8];  // may be read while its thread renames itself
  std::atomic<uint64_t> misnested;
  std::atomic<bool> named;           // by SetThreadName
  uint8_t begun;                     // depth of the newest scope begun by a call (manual.h), plus one
  uint32_t begun_unrecorded;         // scopes of the host without room, begun since
  uint8_t ranges_open;               // ranges of other callers
  uint8_t gaps;                      // places below the depth where such a range has ended; 0 while there are holes
  uint64_t usage_due;                // from then on the thread may record its usage again (usage.h)
  std::atomic<int32_t> schedstat;    // the file to read for that, plus 1; 0: none
  std::atomic<bool> is_reading;      // whether it is being read
  std::atomic<uint64_t> step_begin;  // ticks; of the step that its thread runs (interpreter.h); 0: none
  uint8_t
      // For a scope begun at that depth: the previous begun scope that is open, in the form of `begun`.
      begun_before[detail::kMaxOpen];
  uint8_t begun_by[detail::kMaxOpen];  // its owner
  // By owner: scopes without room, begun since.
  uint8_t ranges_unrecorded[kMaxOwners];
  OpenArgs open_args[detail::kMaxOpen];
};

class Box;

struct RingLimits {
  uint64_t budget_bytes = 0;  // for the words, and a page for each ring's header
  uint64_t max_bytes = 0;     // of a new ring
  uint64_t min_bytes = 0;
  uint64_t max_grown_bytes = 0;  // of a ring that has grown; up to max_bytes: none grows
};

struct RingCounts {
  uint64_t bytes_used = 0, bytes_parked = 0;
  uint32_t live = 0, retired = 0;
  uint32_t outside_box = 0;  // a black box is open, and they did not fit into it
  uint64_t threads_refused = 0, events_refused = 0, closed_elsewhere = 0, misnested = 0;
  uint64_t begins_refused = 0;  // scopes begun by calls inside kMaxOpen others
  uint64_t events = 0;          // by all threads since the gate was opened
  uint64_t searches = 0;        // how often a thread without a ring looked for one
  // Losses by recycling for later incidents, since the gate was opened: rings, the events recorded in them, and the
  // exit time of the last of their threads.
  uint64_t rings_recycled = 0, events_recycled = 0, recycled_exit_ticks = 0;
};

// A ring of an exited thread that another thread took over, without its records: the thread exited inside a scope.
struct RecycledRing {
  uint32_t number = 0;
  int64_t tid = 0;
  uint64_t events = 0;
  uint64_t attach_ticks = 0, exit_ticks = 0;
  char name[kThreadNameBytes] = {};
  bool had_former_threads = false;  // whose records went with it
};
inline constexpr uint32_t kMaxRecycledKept = 64;

// Opens the gate: threads attach from now on. `slow_clock` is the result of NeedsSlowClock. False if the system has no
// more thread-exit keys. With a black box, rings lie in it as far as its file has room, until CloseRings.
bool OpenRings(const RingLimits& limits, bool slow_clock, Box* box = nullptr) noexcept;
// Threads attach and record no more. Rings stay as they are.
void CloseGate() noexcept;
// Closes the gate. Retired rings are unmapped, the others parked. False: rings were pinned for all of `patience_ns`,
// and stay as they are; it may be called again.
bool CloseRings(int64_t patience_ns = INT64_MAX) noexcept;
// In the child of a fork, on its only thread: unmaps every ring.
void ForgetRingsAfterFork() noexcept;
// In a child that no handler told of its fork (clone, _Fork): the calling thread's ring writes no more into its
// parent's black box. Its open scopes may still end.
void LeaveParentsBox() noexcept;

// A ring that should be larger.
struct RingWish {
  uint32_t number;
  uint64_t bytes;  // a power of two
};
// Offers each of these rings, by number, as much of what it wishes as the budget has. The ring's thread takes the offer
// at its next event, in a few instructions: the pages are here already. Nothing is offered to a ring that has not
// turned since its last change. Threads: one at a time, and not one that records. Cost: touches each new page, about
// 0.3 ms for 1 MiB.
void GrowRings(const std::vector<RingWish>& wishes) noexcept;

// The shape of a ring. Loaded after a head, it fits all words before that head.
inline RingShape ShapeOf(const ThreadRing& ring) noexcept {
  return RingShape(ring.shape.load(std::memory_order_acquire));
}

// The recorder that a gate belongs to. Its lowest bit changes with mirrors, its highest when rings are offered more.
inline constexpr uint32_t kOffersShift = 27, kRecorderMask = (1u << kOffersShift) - 2;
inline uint32_t RecorderOf(uint32_t gate) noexcept { return gate & kRecorderMask; }

// The readable rings, by thread number. While this object lives they are neither recycled nor unmapped, and CloseRings
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

// Closes an open scope that is not the newest. Counts it if a scope inside it is still open.
void CloseOutOfOrder(detail::Ring* ring, uint32_t depth) noexcept;

RingCounts CountRings() noexcept;
void CountRefusedBegin() noexcept;
// The kMaxRecycledKept rings that were recycled last, the newest last. May throw bad_alloc.
std::vector<RecycledRing> RecentlyRecycled();

// The calling thread's ring while the gate is open, otherwise null.
inline ThreadRing* EnterThread() noexcept { return static_cast<ThreadRing*>(detail::Enter()); }

// The calling thread's ring if it has one and the gate is open, otherwise null. Never gets it one.
inline const ThreadRing* AttachedRing() noexcept {
  const uint32_t gate = __atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED);
  const detail::Ring* const ring = detail::t_ring;
  return gate != 0 && RecorderOf(ring->gate) == RecorderOf(gate) ? static_cast<const ThreadRing*>(ring) : nullptr;
}

// A copy of the ring's thread name: the one set with SetThreadName, otherwise the system's.
void CopyThreadName(const ThreadRing& ring, char (&out)[kThreadNameBytes]) noexcept;
// The name that the ring holds: of a thread of another process, or one that has exited.
void CopyStoredName(const ThreadRing& ring, char (&out)[kThreadNameBytes]) noexcept;

// The step of a task that the calling thread is in (pitot/interpreter.h), on `ring` under `gate`.
struct Step {
  const ThreadRing* ring;
  uint32_t gate;
  uint32_t depth;                 // scopes below it were open before; 0 outside of steps
  uint32_t unrecorded;            // ThreadRing::begun_unrecorded at its beginning
  uint64_t begin;                 // ticks; 0: the thread is in no step
  bool may_be_recorded;           // the step before
  uint64_t last_begin, last_end;  // of the step before
  uint64_t slow_end;              // ticks; of the last slow step while the loop catches up, otherwise 0
  uint64_t head;                  // of the ring, at its beginning
  uint64_t marked;                // ticks; when the thread was last marked as one with a loop
  uint64_t context_head;          // of the ring, after the end of the last step with events and a request
  uint64_t outer;                 // the thread's request before the step, 0 once it has ended on the thread
};
extern __thread Step t_step __attribute__((tls_model("initial-exec")));
// The step's state, empty for a ring that is new to the thread.
inline Step* StepOn(const ThreadRing* ring) noexcept {
  if (t_step.ring != ring || RecorderOf(t_step.gate) != RecorderOf(ring->gate))
    t_step = {ring, ring->gate, 0, 0, 0, false, 0, 0, 0, 0, 0, ~uint64_t{0}, 0};
  return &t_step;
}

// Whether a thread has been in its step since that time or longer.
bool IsAnyStepSince(uint64_t ticks) noexcept;
// How many threads have got a ring.
uint32_t ThreadsAttached() noexcept;
// Has each thread call `function` before it gets a ring. Null: none.
void CallAtAttach(void (*function)() noexcept) noexcept;

// Names the live ring of that thread, unless its thread has named itself. False: there is none.
bool NameRing(int64_t tid, const char* name) noexcept;

// The size of a ring, with what it is offered.
uint64_t BytesOf(const ThreadRing& ring) noexcept;

// For tests that play many threads on one. The calling thread continues as the thread of `ring` (returned by an earlier
// call), or with null as a new one. Returns the ring, or null if there is none.
ThreadRing* SwitchThreadForTesting(ThreadRing* ring, const char* name) noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_RINGS_H_
