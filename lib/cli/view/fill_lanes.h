// SPDX-License-Identifier: Apache-2.0
//
// Lays a trace out as lanes: requests, batches, queues, threads, GPU streams, counters.
#ifndef PITOT_LIB_CLI_VIEW_FILL_LANES_H_
#define PITOT_LIB_CLI_VIEW_FILL_LANES_H_

#include <unordered_map>

#include "cli/view/lanes.h"
#include "pitot/analyze/why.h"
#include "pitot/model/trace.h"

namespace pitot::cli::view {

// Gives each lane to `take`, so that one is in memory at a time. `walk` may be null. `briefs` gets the short names of
// kernels, by place in `texts`. O(n log n).
Lanes FillLanes(const model::Trace& trace, const analyze::RequestBlame* walk, Texts* texts,
                std::unordered_map<uint32_t, std::string>* briefs, const TakeLane& take);

}  // namespace pitot::cli::view

#endif  // PITOT_LIB_CLI_VIEW_FILL_LANES_H_
