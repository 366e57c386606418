// SPDX-License-Identifier: Apache-2.0
//
// For join.cc: differences of windows, and of the depths of GPUs.
#ifndef PITOT_LIB_READ_JOIN_WINDOWS_H_
#define PITOT_LIB_READ_JOIN_WINDOWS_H_

#include <string>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/read/join.h"

namespace pitot::read {

// Ends open rows at the window's end. `end_known` of requests stays false; other rows have no such mark. Stays in
// queues end with their request.
void EndOpenRows(model::Trace* trace);

// The depths of GPUs. At each moment there is one row, or two of the same time: the least and the most of all parts.
// A part with requests or batches and without GPU work has depth kScopes. Empty if no part tells, and none differs.
std::vector<model::DepthRow> JoinDepths(const std::vector<TracePart>& parts);
// The same for operators. A part without such depths has kScopes. Empty if no part has some.
std::vector<model::DepthRow> JoinOperatorDepths(const std::vector<TracePart>& parts);

// On one clock: the names of parts with a window of their own.
std::vector<std::string> PartsApart(const std::vector<TracePart>& parts);

// On one clock: refuses two parts of one process with overlapping windows. Both have the same rows.
Status CheckProcesses(const std::vector<TracePart>& parts);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_JOIN_WINDOWS_H_
