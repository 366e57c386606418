// SPDX-License-Identifier: Apache-2.0
//
// Chooses which of several failures in a row are logged.
#ifndef PITOT_LIB_SESSION_FAILURES_IN_A_ROW_H_
#define PITOT_LIB_SESSION_FAILURES_IN_A_ROW_H_

#include <bit>
#include <cstdint>

namespace pitot::session {

// A full disk fails every incident, and may stay full for days. The log has the 1st, the 2nd, the 4th, the 8th
// and so on of incidents failing in a row. Not thread-safe.
class FailuresInARow {
 public:
  // Counts a failed incident, once however often this is called for it. Returns whether to log the reason.
  bool Add(uint64_t incident) {
    if (incident != newest_) newest_ = incident, ++count_;
    return std::has_single_bit(count_);
  }
  uint64_t count() const { return count_; }
  // Ends the row: an incident did not fail.
  void End() { newest_ = count_ = 0; }

 private:
  uint64_t newest_ = 0;  // they are numbered from 1
  uint64_t count_ = 0;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_FAILURES_IN_A_ROW_H_
