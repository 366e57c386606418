// SPDX-License-Identifier: Apache-2.0
//
// The way of firings from the triggers to the pipeline of incidents.
#ifndef PITOT_LIB_SESSION_FIRING_TAKER_H_
#define PITOT_LIB_SESSION_FIRING_TAKER_H_

#include <cstdint>

#include "pitot/extend/trigger.h"

namespace pitot::session {

// Takes firings, with the begin of their request or scope.
class FiringTaker {
 public:
  // Threads: any. Never blocks and never allocates. False: there is no room.
  virtual bool Push(const Firing& firing, uint64_t begin_ticks) noexcept = 0;
  // As FiringSink::MayJoin. Threads: any.
  virtual bool MayJoin() noexcept = 0;
  // Takes a firing about open work at once: all stalls of one moment are one incident. On the watcher.
  virtual bool TakeStall(const Firing& firing, uint64_t begin_ticks) noexcept = 0;

 protected:
  ~FiringTaker() = default;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_FIRING_TAKER_H_
