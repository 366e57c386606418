// SPDX-License-Identifier: Apache-2.0
//
// Reads records backwards from a copy of a ring. The header is a record's last word, so the newest record comes first
// and no boundary needs to be known. The writer is detail::Append in pitot/trace.h.
#ifndef PITOT_LIB_SNAPSHOT_RECORD_H_
#define PITOT_LIB_SNAPSHOT_RECORD_H_

#include <cstdint>

#include "pitot/trace.h"

namespace pitot::snapshot {

struct Record {
  uint64_t site;  // address
  uint64_t begin_ticks;
  uint64_t end_ticks;
  const uint64_t* args;
  uint32_t arg_words;
};

class RecordCursor {
 public:
  // Reads words [first, last); the newest is before `last`. `now_ticks` is at or after the end of the newest record:
  // times are stored in 52 bits and completed from it.
  RecordCursor(const uint64_t* first, const uint64_t* last, uint64_t now_ticks)
      : first_(first), at_(last), reference_(now_ticks) {}

  // Steps to the next older record. False at the end. Then either AtStart() (every word was used), or IsBroken(), or
  // the oldest record is cut off.
  bool Next(Record* record) {
    const auto left = static_cast<uint64_t>(at_ - first_);
    if (left < 2) return false;
    const uint64_t header = at_[-1], stamp = at_[-2];
    const uint64_t site = header >> 16;
    const bool is_long = (header & 8) != 0;
    uint64_t arg_words = header & 7, words = 2;
    if (site == 0) return broken_ = true, false;
    if (is_long) ++words;
    if (arg_words == 7) {
      ++words;
      if (left < words) return false;
      arg_words = at_[-static_cast<int64_t>(words)];
      if (arg_words > detail::kMaxRecordWords - 4) return broken_ = true, false;
    }
    if (left < words + arg_words) return false;
    constexpr uint64_t kMask = (uint64_t{1} << 52) - 1;
    uint64_t end = (reference_ & ~kMask) | (stamp >> 24) | (header >> 4 & 0xfff) << 40;
    // A stamp a little after the reference comes from the counter of another CPU. A stamp further after it is from the
    // previous turn of the counter. (A turn takes 17 days at 3 GHz.)
    constexpr uint64_t kSkew = uint64_t{1} << 30;
    if (end > reference_ + kSkew && end > kMask) end -= kMask + 1;
    reference_ = end;
    record->site = site;
    record->end_ticks = end;
    record->begin_ticks = end - (is_long ? at_[-3] : stamp & 0xffffff);
    record->arg_words = static_cast<uint32_t>(arg_words);
    at_ -= words + arg_words;
    record->args = at_;
    return true;
  }

  // The first word of the record returned last by Next.
  const uint64_t* at() const { return at_; }
  bool AtStart() const { return at_ == first_; }
  bool IsBroken() const { return broken_; }

 private:
  const uint64_t* first_;
  const uint64_t* at_;
  uint64_t reference_;
  bool broken_ = false;
};

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_RECORD_H_
