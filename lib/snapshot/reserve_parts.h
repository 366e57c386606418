// SPDX-License-Identifier: Apache-2.0
//
// Room for several copies in one reserve: a copy gets half of what is free, so that there is room for a next one. In a
// storm of incidents each reaches less far back than the one before it.
#ifndef PITOT_LIB_SNAPSHOT_RESERVE_PARTS_H_
#define PITOT_LIB_SNAPSHOT_RESERVE_PARTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "snapshot/ring_reader.h"

namespace pitot::snapshot {

// The parts of a reserve that one copy fills, from both ends of its room.
struct Filled {
  Reserve low, high;
};

// Not thread-safe.
class ReserveParts {
 public:
  void Begin(const Reserve& whole) { whole_ = mapped_ = whole; }
  // Copies have the first `words` from now on. Those that have others keep them.
  void Limit(uint64_t words) {
    whole_.last = mapped_.first + std::min<uint64_t>(words, static_cast<uint64_t>(mapped_.last - mapped_.first));
  }

  // Room for a copy. Empty: the rest is too small to be worth it.
  Reserve Room() const {
    Reserve largest{whole_.first, whole_.first};
    uint64_t* first = whole_.first;
    const auto see = [&](uint64_t* until) {
      uint64_t* const last = std::min(until, whole_.last);
      if (last - first > largest.last - largest.first) largest = {first, last};
    };
    for (const Reserve& part : used_) {
      see(part.first);
      first = part.last;
    }
    see(whole_.last);
    largest.last = largest.first + (largest.last - largest.first) / 2;
    return largest.last - largest.first < (whole_.last - whole_.first) / kLeastPart ? Reserve{} : largest;
  }
  // May throw bad_alloc, and then nothing is taken.
  void Take(const Filled& filled) {
    used_.reserve(used_.size() + 2);
    for (const Reserve& part : {filled.low, filled.high}) {
      if (part.first == part.last) continue;
      const auto before = [](const Reserve& a, const Reserve& b) { return a.first < b.first; };
      used_.insert(std::lower_bound(used_.begin(), used_.end(), part, before), part);
    }
  }
  void Free(const Filled& filled) {
    const auto is_of = [](const Reserve& part, const Reserve& of) {
      return of.first != of.last && part.first == of.first;
    };
    std::erase_if(used_, [&](const Reserve& part) { return is_of(part, filled.low) || is_of(part, filled.high); });
  }

 private:
  static constexpr int64_t kLeastPart = 64;  // of the whole
  Reserve mapped_, whole_;
  std::vector<Reserve> used_;  // in order
};

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_RESERVE_PARTS_H_
