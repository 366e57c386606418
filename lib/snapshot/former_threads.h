// SPDX-License-Identifier: Apache-2.0
//
// Several threads may have had a ring, one after the other: each gets a copy of its own. A record of the former
// thread's end (Record::kThreadEnd) comes before the records of the next.
#ifndef PITOT_LIB_SNAPSHOT_FORMER_THREADS_H_
#define PITOT_LIB_SNAPSHOT_FORMER_THREADS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "snapshot/ring_reader.h"

namespace pitot::snapshot {

// Splits `copy` where records have `end_site` (0: it is not known, and the words are then nobody's). It keeps the
// records of the last thread. The former ones get copies of their own, the newest first, at most `most`. If the last
// thread has an end, too, because its process died before the next one had the ring, then `copy` is left without a
// thread: its number becomes 0. May throw bad_alloc.
void SplitByThread(uint64_t end_site, size_t most, RingCopy* copy, std::vector<RingCopy>* formers);

// Splits all, into at most 16,384 more, and removes those without a thread. The order is that of their numbers. May
// throw bad_alloc.
void SplitByThreads(uint64_t end_site, std::vector<RingCopy>* copies);

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_FORMER_THREADS_H_
