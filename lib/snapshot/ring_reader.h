// SPDX-License-Identifier: Apache-2.0
//
// Copies the newest part of a ring while its thread goes on writing.
#ifndef PITOT_LIB_SNAPSHOT_RING_READER_H_
#define PITOT_LIB_SNAPSHOT_RING_READER_H_

#include <cstdint>
#include <vector>

#include "trace/internal_sites.h"
#include "trace/rings.h"

namespace pitot::snapshot {

// A word that its thread may be writing.
inline uint64_t Acquire(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

// Why a copy does not reach further back.
enum class Oldest : uint8_t {
  kWindow,       // it holds the whole window
  kAttach,       // it holds everything the thread ever recorded
  kOverwritten,  // older records were overwritten before the copy began
  kCopying,      // or while it was made
  kReserve,      // there was no room for more
  kBroken,       // an invalid record
};

struct OpenScopeCopy {
  uint64_t site;
  uint64_t begin_ticks;
  uint32_t arg_words = 0;  // 0 if it shows no arguments while open
  uint64_t args[trace::kMaxOpenArgs] = {};
};

// Adds the open scopes of `ring`, outermost first. Never waits for the writer. May throw bad_alloc.
void CopyOpenScopes(const trace::ThreadRing& ring, std::vector<OpenScopeCopy>* out);

// A copy of one ring. Holds words [first, last): whole records, except possibly the oldest.
struct RingCopy {
  uint32_t number = 0;
  int64_t tid = 0;
  char name[trace::kThreadNameBytes] = {};
  bool exited = false;
  const uint64_t* first = nullptr;
  const uint64_t* last = nullptr;
  uint64_t cut_ticks = 0;     // scopes that began later are incomplete: leave them out, except for open ones
  uint64_t now_ticks = 0;     // after the newest record
  uint64_t attach_ticks = 0;  // the thread's first event
  uint64_t exit_ticks = 0;    // 0: not exited
  uint64_t events = 0;        // recorded in total
  uint64_t misnested = 0;
  uint64_t request = 0, batch = 0;  // the context, unless a context record in the copy has another
  Oldest oldest = Oldest::kWindow;
  uint64_t lapped_words = 0;
  uint32_t former_threads = 0;      // earlier ones of its ring, without copies of their own
  std::vector<OpenScopeCopy> open;  // those not closed in the copy; outermost first
};

// The end of a request: its record, apart from its ring.
struct EndCopy {
  uint32_t thread = 0;  // number of the one that finished it
  uint32_t count = 0;   // of words; 0: none
  uint64_t begin_ticks = 0, end_ticks = 0;
  uint64_t head = 0;                              // of the thread's ring at the copy
  uint64_t words[trace::kRequestMostWords] = {};  // as kRequestEnd, in internal_sites.h
};

// Copies the end of this request, if it is among the newest records of `ring`. Called by the ring's own thread: never
// blocks, never allocates. Cost: reads at most 256 words.
void CopyNewestEnd(const trace::ThreadRing& ring, uint64_t request, EndCopy* out) noexcept;

// Room for copies. Filled from its end downwards, because rings are read backwards.
struct Reserve {
  uint64_t* first = nullptr;
  uint64_t* last = nullptr;
};

// Copies everything except the thread's name: the records of `ring` since `window_begin_ticks` go to the end of
// `reserve`, which then ends before them. Those of its former threads are among them (former_threads.h). Never waits
// for the writer. May throw bad_alloc (before anything is copied). Cost: reading the ring from memory; the writer pays
// for getting its cache lines back.
void CopyRing(const trace::ThreadRing& ring, uint64_t window_begin_ticks, Reserve* reserve, RingCopy* copy);
// The same for a ring of another process, of which no record is later than `now_ticks`. With the thread's name. The
// copy has the number 0 if no thread has the ring now.
void CopyRingOfOther(const trace::ThreadRing& ring, uint64_t window_begin_ticks, uint64_t now_ticks, Reserve* reserve,
                     RingCopy* copy);

// The last step of CopyRing. It makes the closed and the open scopes of a copy agree; the `fresh_words` newest words
// were written while the open stack was read. A scope is recorded before it leaves the stack. A scope found there may
// therefore also be recorded, in those words or just before them. A scope that began after the last record before them
// may miss its enclosing scope. `cut_ticks` therefore becomes that record's end, or 0 if the copy does not reach it.
void Settle(uint64_t fresh_words, RingCopy* copy);

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_RING_READER_H_
