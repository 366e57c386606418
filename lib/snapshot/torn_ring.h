// SPDX-License-Identifier: Apache-2.0
//
// Rings in a file that has outlived its machine, or whose disk failed. The kernel writes pages back one by one, so each
// page is of another moment: one may be missing, or hold the records of an earlier turn of the ring. Called by
// BoxReader.
#ifndef PITOT_LIB_SNAPSHOT_TORN_RING_H_
#define PITOT_LIB_SNAPSHOT_TORN_RING_H_

#include <cstdint>
#include <functional>

#include "snapshot/ring_reader.h"
#include "trace/rings.h"

namespace pitot::snapshot {

enum class SiteOrder : uint8_t {
  kUnknown,   // perhaps words are taken for a record by mistake
  kAnyOrder,  // its records may end before those that the thread wrote earlier
  kInOrder
};
using OrderOf = std::function<SiteOrder(uint64_t site)>;

// The newest place, at most the ring's head, before which several records follow each other, but for pages of an
// earlier turn. Without one: the head. Records end between `start_ticks` and `latest_ticks`. Cost: some ms for each
// MiB. Throws bad_alloc.
uint64_t NewestReadable(const trace::ThreadRing& ring, uint64_t start_ticks, uint64_t latest_ticks,
                        const OrderOf& order_of);

// Leaves out the records from the first gap on, going back in time: what is left is in order and without holes, as far
// as stamps can tell. The copy ends at the ring's head.
void LeaveOutTorn(const trace::ThreadRing& ring, uint64_t start_ticks, const OrderOf& order_of, RingCopy* copy);

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_TORN_RING_H_
