// SPDX-License-Identifier: Apache-2.0
//
// The collector of stacks and its environment: MakeStackCollector passes the system's, tests pass their own.
#ifndef PITOT_LIB_COLLECT_STACKS_COLLECTOR_H_
#define PITOT_LIB_COLLECT_STACKS_COLLECTOR_H_

#include <memory>
#include <string>

#include "base/timer.h"
#include "collect/stacks/sampler.h"
#include "collect/stacks/unwinder.h"
#include "pitot/collect/stacks.h"

namespace pitot::stacks {

struct Environment {
  std::string root;  // a prefix of /proc
  std::shared_ptr<base::Timer> timer;
  std::unique_ptr<Unwinder> unwinder;  // null: no stacks, for the reason `why_not`
  std::string why_not;
  std::unique_ptr<Sampler> sampler;  // null: no stacks of running threads
  // As FindLateThreads (pitot/stack.h).
  uint32_t (*find_late)(int64_t* tids, uint32_t most) noexcept = nullptr;
  // CPU time of the calling thread, ns.
  int64_t (*cpu_ns)() noexcept = nullptr;
};

// The environment of the real system.
Environment SystemEnvironment(RunningThreads running_threads);

// Why stacks of sleeping threads cannot be read on this machine; "": they can.
std::string WhyNoStacks();

// Makes the collector. Throws when out of memory.
std::unique_ptr<Collector> MakeCollector(const StackOptions& options, Environment environment);

}  // namespace pitot::stacks

#endif  // PITOT_LIB_COLLECT_STACKS_COLLECTOR_H_
