// SPDX-License-Identifier: Apache-2.0
//
// The scopes around calls.
#ifndef PITOT_LIB_MODEL_ENCLOSING_H_
#define PITOT_LIB_MODEL_ENCLOSING_H_

#include <cstdint>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::model {

// For each call the innermost scope of its thread that was open when it began, as a row of `events`; otherwise kNone.
// O(n), and the depth of scopes for scopes that overlap without nesting.
inline std::vector<uint32_t> FindEnclosing(const Trace& trace) {
  std::vector<uint32_t> enclosing(trace.calls.size(), kNone), open;
  uint32_t event = 0, last = 0, thread = kNone;
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    if (trace.calls.thread[call] == kNone) break;  // they come last
    if (trace.calls.thread[call] != thread) {
      thread = trace.calls.thread[call];
      event = trace.threads[thread].first_event;
      last = event + trace.threads[thread].event_count;
      open.clear();
    }
    const int64_t at_ns = trace.calls.begin_ns[call];
    const auto close = [&](int64_t until_ns) {
      while (!open.empty() && trace.EventEnd(open.back()) <= until_ns) open.pop_back();
    };
    for (; event < last && trace.events.begin_ns[event] <= at_ns; ++event) {
      if (!IsScope(trace.sites[trace.events.site[event]].kind)) continue;
      close(trace.events.begin_ns[event]);
      open.push_back(event);
    }
    close(at_ns);
    if (!open.empty()) enclosing[call] = open.back();
  }
  return enclosing;
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_ENCLOSING_H_
