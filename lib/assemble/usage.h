// SPDX-License-Identifier: Apache-2.0
//
// What threads recorded of themselves at the edges of their work (trace/usage.h) becomes counters.
#ifndef PITOT_LIB_ASSEMBLE_USAGE_H_
#define PITOT_LIB_ASSEMBLE_USAGE_H_

#include <cstdint>
#include <vector>

#include "pitot/extend/collector.h"
#include "trace/usage.h"

namespace pitot::assemble {

struct RawUsage {
  int64_t at_ns;
  int64_t tid;
  trace::Usage usage;
};

// Those of a thread follow each other, its newest first. Of what did not change since the one before there is no
// sample, but of on-CPU time, run-queue delay
// and voluntary switches: these say when the thread looked.
void AddUsages(const std::vector<RawUsage>& usages, TraceBuilder* trace);

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_USAGE_H_
