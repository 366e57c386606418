// SPDX-License-Identifier: Apache-2.0
//
// The NVML collector and its environment: MakeNvmlCollector passes the system's, tests pass their own.
#ifndef PITOT_LIB_COLLECT_NVML_COLLECTOR_H_
#define PITOT_LIB_COLLECT_NVML_COLLECTOR_H_

#include <stdint.h>

#include <memory>
#include <string>

#include "base/timer.h"
#include "collect/nvml/sampler.h"
#include "pitot/collect/nvml.h"

namespace pitot::nvml {

struct Environment {
  std::shared_ptr<base::Timer> timer;
  OwnProcess own;
  bool rests = false;  // it looks rarely while the host works at nothing (trace/rest.h)
  // How long Start waits for the driver's answer, and Stop for the thread to return from the driver; real time, ns.
  int64_t start_patience_ns = 10'000'000'000;
  int64_t stop_patience_ns = 2'000'000'000;
  std::string without_driver;  // ends Start's kNotFound: what else the machine lacks then
};

// Throws when out of memory.
Environment SystemEnvironment();

// Ok, or which option is wrong: Start then does nothing, and returns the same.
Status Check(const NvmlOptions& options) noexcept;

// Makes the collector. Throws when out of memory.
std::unique_ptr<Collector> MakeCollector(const NvmlOptions& options, Environment environment);

}  // namespace pitot::nvml

#endif  // PITOT_LIB_COLLECT_NVML_COLLECTOR_H_
