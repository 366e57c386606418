// SPDX-License-Identifier: Apache-2.0
//
// Turns the usage that threads recorded at the edges of their work (trace/usage.h) into counters.
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

// Records of one thread are adjacent, the newest first. A value equal to the one before gets no sample. On-CPU time,
// run-queue delay and voluntary switches always get one, because they tell when the thread looked.
void AddUsages(const std::vector<RawUsage>& usages, TraceBuilder* trace);

}  // namespace pitot::assemble

#endif  // PITOT_LIB_ASSEMBLE_USAGE_H_
