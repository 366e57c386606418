// SPDX-License-Identifier: Apache-2.0
//
// Finds GPU records that cannot be true, by the other records of the trace.
#ifndef PITOT_LIB_READ_DOUBTFUL_GPU_H_
#define PITOT_LIB_READ_DOUBTFUL_GPU_H_

#include <cstdint>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::read {

enum class Doubt : uint8_t { kNone, kNoTime, kDuration };

// Adds to `doubts`, one for each row of `gpu`. Events and calls are in order, rows of `gpu` by (stream, begin).
//
// kNoTime: a begin of 0, or one further from the host's records than 10 s and their length, unless most of the device's
// work is as far away (its clock then differs).
// kDuration: on a stream whose other work comes one after the other, it goes on while two or more later things begin
// and end, and is not one of many that could be a second queue. Or it is longer than from its launch to the end of a
// wait for it. Or it is ten times as long as the rest of the trace. `are_launches_sure`: calls can be trusted to be the
// work's own.
void FindDoubts(const model::Trace& trace, bool are_launches_sure, std::vector<Doubt>* doubts);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_DOUBTFUL_GPU_H_
