// SPDX-License-Identifier: Apache-2.0
//
// The host collector with what it gets from outside: MakeHostCollector gives it the system's, tests their own.
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
  std::string root;  // stands before /proc and /sys
  std::shared_ptr<base::Timer> timer;
  CpuReader read_cpu = nullptr;
  trace::UsageReader read_usage = nullptr;
};

// The system's.
Environment SystemEnvironment();

// Throws where there is no memory.
std::unique_ptr<Collector> MakeCollector(const HostOptions& options, Environment environment);

}  // namespace pitot::host

#endif  // PITOT_LIB_COLLECT_HOST_COLLECTOR_H_
