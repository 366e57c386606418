// SPDX-License-Identifier: Apache-2.0
//
// The room for traces of which files and verdicts are still missing.
#ifndef PITOT_LIB_SESSION_CASE_ROOM_H_
#define PITOT_LIB_SESSION_CASE_ROOM_H_

#include <cstdint>

namespace pitot::session {

struct CaseRoom {
  uint64_t bytes = 0;  // of all together
  uint64_t times = 1;  // the one that the worker has takes so many times its size, by the judge's work on it
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_CASE_ROOM_H_
