// SPDX-License-Identifier: Apache-2.0
//
// The host collector and its environment: MakeHostCollector passes the system's, tests pass their own.
#ifndef PITOT_LIB_COLLECT_HOST_COLLECTOR_H_
#define PITOT_LIB_COLLECT_HOST_COLLECTOR_H_

#include <memory>
#include <string>

#include "base/timer.h"
#include "collect/host/threads.h"
#include "pitot/collect/host.h"
#include "trace/usage.h"

namespace pitot::host {

struct Environment {
  std::string root;  // a prefix of /proc and /sys
  std::shared_ptr<base::Timer> timer;
  CpuReader read_cpu = nullptr;
  trace::UsageReader read_usage = nullptr;
};

// The environment of the real system.
Environment SystemEnvironment();

// Makes the collector. Throws when out of memory.
std::unique_ptr<Collector> MakeCollector(const HostOptions& options, Environment environment);

}  // namespace pitot::host

#endif  // PITOT_LIB_COLLECT_HOST_COLLECTOR_H_
