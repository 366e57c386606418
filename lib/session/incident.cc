// SPDX-License-Identifier: Apache-2.0
#include "session/incident.h"

#include <algorithm>

namespace pitot::session {

uint64_t SlowRequests(const Incident& incident) noexcept {
  const std::vector<QueuedFiring>& firings = incident.firings;
  uint64_t requests = incident.slow_requests;
  for (auto firing = firings.begin(); firing != firings.end(); ++firing) {
    const auto is_it = [&](auto& other) { return other.request == firing->request; };
    requests += firing->request != 0 && std::none_of(firings.begin(), firing, is_it);
  }
  return requests;
}

void KeepForHooks(Incident* incident) noexcept {
  incident->overhead.reset();
  incident->depths = {};
  if (incident->firings.size() <= 1) return;
  const uint64_t requests = SlowRequests(*incident);
  incident->firings.resize(1);
  incident->firings.shrink_to_fit();
  incident->slow_requests = 0;
  incident->slow_requests = requests - SlowRequests(*incident);
}

}  // namespace pitot::session
