// SPDX-License-Identifier: Apache-2.0
//
// Threads in formats that know them by tid.
#ifndef PITOT_LIB_SERIALIZE_THREAD_IDS_H_
#define PITOT_LIB_SERIALIZE_THREAD_IDS_H_

#include <stdint.h>

#include <unordered_set>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::serialize {

// By row: the thread's tid. If threads of several processes have the same one, or it was used again, the first keeps it
// and the others get free numbers.
inline std::vector<int64_t> ThreadIds(const model::Trace& trace) {
  std::unordered_set<int64_t> taken, seen;
  for (const model::ThreadRow& thread : trace.threads) taken.insert(thread.tid);
  std::vector<int64_t> ids;
  int64_t last = 0;
  for (const model::ThreadRow& thread : trace.threads) {
    const bool is_first = seen.insert(thread.tid).second;
    while (!is_first && !taken.insert(++last).second) {}
    ids.push_back(is_first ? thread.tid : last);
  }
  return ids;
}

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_THREAD_IDS_H_
