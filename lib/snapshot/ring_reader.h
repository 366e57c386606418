// SPDX-License-Identifier: Apache-2.0
//
// Copies the newest part of a ring while its thread goes on writing.
#ifndef PITOT_LIB_SNAPSHOT_RING_READER_H_
#define PITOT_LIB_SNAPSHOT_RING_READER_H_

#include <cstdint>
#include <vector>

#include "trace/rings.h"

namespace pitot::snapshot {

// Why a copy does not reach back further.
enum class Oldest : uint8_t {
  kWindow,       // it holds the whole window
  kAttach,       // it holds all that the thread ever recorded
  kOverwritten,  // older records were overwritten before the copy began
  kCopying,      // while it was made
  kReserve,      // there was no room for more
  kBroken,       // a record that makes no sense
};

struct OpenScopeCopy {
  uint64_t site;
  uint64_t begin_ticks;
  uint32_t arg_words = 0;  // where it says arguments while it is open
  uint64_t args[trace::kMaxOpenArgs] = {};
};

// Adds the open scopes of `ring`, outermost first. Never waits for the writer. May throw bad_alloc.
void CopyOpenScopes(const trace::ThreadRing& ring, std::vector<OpenScopeCopy>* out);

// A copy of one ring. Holds words [first, last), whole records but possibly the oldest.
struct RingCopy {
  uint32_t number = 0;
  int64_t tid = 0;
  char name[trace::kThreadNameBytes] = {};
  bool exited = false;
  const uint64_t* first = nullptr;
  const uint64_t* last = nullptr;
  uint64_t cut_ticks = 0;     // scopes that began later are not whole: leave them out, but for the open ones
  uint64_t now_ticks = 0;     // after the newest record
  uint64_t attach_ticks = 0;  // the thread's first event
  uint64_t exit_ticks = 0;    // 0: had not exited
  uint64_t events = 0;        // it ever recorded
  uint64_t misnested = 0;
  uint64_t request = 0, batch = 0;  // context, unless a context record in the copy says otherwise
  Oldest oldest = Oldest::kWindow;
  uint64_t lapped_words = 0;
  std::vector<OpenScopeCopy> open;  // and not closed in the copy; outermost first
};

// Room for copies, filled from its end downwards, because rings are read backwards.
struct Reserve {
  uint64_t* first = nullptr;
  uint64_t* last = nullptr;
};

// Copies all but the thread's name: what `ring` recorded since `window_begin_ticks` to the end of `reserve` and takes
// it off it. Never waits for the writer. May throw bad_alloc (before anything is copied). Cost: about 0.1 ns a byte
// when the ring is in no cache; the writer pays for taking the lines back.
void CopyRing(const trace::ThreadRing& ring, uint64_t window_begin_ticks, Reserve* reserve, RingCopy* copy);

// What CopyRing does last: makes the closed and the open scopes of a copy agree, whose `fresh_words` newest words were
// written while the open stack was read. A scope is recorded before it leaves the stack: one that was found there may
// be recorded, too, in those words or just before them. One that began after the last record before them may miss the
// scope around it: `cut_ticks` is that record's end, 0 if the copy does not reach back to it.
void Settle(uint64_t fresh_words, RingCopy* copy);

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_RING_READER_H_
