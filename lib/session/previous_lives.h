// SPDX-License-Identifier: Apache-2.0
//
// At the start of a recorder: makes incidents of the black boxes that processes with the same incident directory left
// when they died, and removes those boxes. On the worker, before anything else.
#ifndef PITOT_LIB_SESSION_PREVIOUS_LIVES_H_
#define PITOT_LIB_SESSION_PREVIOUS_LIVES_H_

#include "session/cpu_throttle.h"
#include "session/host_calls.h"
#include "session/memory_budget.h"
#include "session/options.h"

namespace pitot::session {

class PreviousLives {
 public:
  // All outlive it.
  PreviousLives(const OwnedOptions* options, const MemoryBudget* budget, HostCalls* host, CpuThrottle* throttle)
      : options_(*options), budget_(*budget), host_(*host), throttle_(*throttle) {}

  // Tells the host of each, by its log and Hooks::on_incident. In the memory for judging one incident.
  void Recover() noexcept;

 private:
  bool IsOthers(const std::string& path) const;
  void RecoverOne(const std::string& path);

  const OwnedOptions& options_;
  const MemoryBudget& budget_;
  HostCalls& host_;
  CpuThrottle& throttle_;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_PREVIOUS_LIVES_H_
