// SPDX-License-Identifier: Apache-2.0
//
// Which incidents that fail one after the other the log speaks of.
#ifndef PITOT_LIB_SESSION_FAILURES_IN_A_ROW_H_
#define PITOT_LIB_SESSION_FAILURES_IN_A_ROW_H_

#include <bit>
#include <cstdint>

namespace pitot::session {

// A full disk fails every incident, and may stay full for days: of a row the log speaks of the 1st, the 2nd, the 4th,
// the 8th and so on. Not thread-safe.
class FailuresInARow {
 public:
  // Counts an incident that fails, once however often it is called for it. Whether the log says why.
  bool Add(uint64_t incident) {
    if (incident != newest_) newest_ = incident, ++count_;
    return std::has_single_bit(count_);
  }
  uint64_t count() const { return count_; }
  // An incident did not fail.
  void End() { newest_ = count_ = 0; }

 private:
  uint64_t newest_ = 0;  // they are numbered from 1
  uint64_t count_ = 0;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_FAILURES_IN_A_ROW_H_
