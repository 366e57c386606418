// SPDX-License-Identifier: Apache-2.0
//
// What the page of `pitot view` draws of a counter.
#ifndef PITOT_LIB_CLI_VIEW_COUNTER_VALUES_H_
#define PITOT_LIB_CLI_VIEW_COUNTER_VALUES_H_

#include <vector>

#include "cli/view/lanes.h"
#include "pitot/model/trace.h"

namespace pitot::cli::view {

// The counters of a trace, without their groups, by row. A running sum has its rate: sums are drawn as a ramp in which
// nothing can be seen. From where a counter says nothing, its value is not a number. O(samples).
std::vector<ViewedCounter> CounterValues(const model::Trace& trace);

}  // namespace pitot::cli::view

#endif  // PITOT_LIB_CLI_VIEW_COUNTER_VALUES_H_
