// SPDX-License-Identifier: Apache-2.0
//
// How long the watcher sleeps between two rounds, if nothing wakes it.
#ifndef PITOT_LIB_SESSION_WATCH_PACE_H_
#define PITOT_LIB_SESSION_WATCH_PACE_H_

#include <algorithm>
#include <cstdint>

namespace pitot::session {

// What the watcher knows of the host after a round.
struct WatchState {
  bool is_watching = false;             // triggers watch open work, or depth is governed
  bool watches_scopes = false;          // a trigger watches open scopes
  bool is_at_rest = false;              // nothing is open: no request, batch, firing or incident
  int64_t scope_open_ns = INT64_MAX;    // how long the newest open scope has been; INT64_MAX: there is none
  int64_t governor_due_ns = INT64_MAX;  // in how many ns the governor moves on; INT64_MAX: it does not
};

inline int64_t LongestSleepNs(const WatchState& state) noexcept {
  constexpr int64_t kTickNs = 10'000'000;      // between looks for stalls
  constexpr int64_t kIdleTickNs = 50'000'000;  // if nothing watches open work: firings wake the watcher themselves
  constexpr int64_t kRestNs = 1'000'000'000;   // between notes on how far rings have been written
  // No thread tells of a scope. The first look at one may be late by this, and the look at its stall by this part.
  constexpr int64_t kScopesNs = 400'000'000, kScopePart = 8;
  if (!state.is_at_rest) return state.is_watching ? kTickNs : kIdleTickNs;
  const int64_t scope_ns = std::clamp(state.scope_open_ns / kScopePart, kTickNs, kScopesNs);
  return std::min(state.watches_scopes ? scope_ns : kRestNs, std::max(state.governor_due_ns, kTickNs));
}

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_WATCH_PACE_H_
