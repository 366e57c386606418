// SPDX-License-Identifier: Apache-2.0
//
// Whether two traces are of one recording, such as a file and its conversion. Their rows must not count twice.
#ifndef PITOT_LIB_MODEL_SAME_RECORDING_H_
#define PITOT_LIB_MODEL_SAME_RECORDING_H_

#include "pitot/model/trace.h"

namespace pitot::model {

// Whether each request, event, call and record of a GPU in `part` is also in `whole`, and there is one. Rows are the
// same if they begin at the same ns and last as long: two processes never agree to the ns throughout. Some name is in
// both. Times are Unix
// times, or since the first row if one of the traces has no date. False for processes with different numbers or hosts.
// O(rows) if they differ, otherwise O(rows log rows).
bool Repeats(const Trace& part, const Trace& whole);

// Whether both are of the same moments, like a dump compared with itself: each repeats the other, with the same
// window, names, ids and bytes.
bool IsSameRecording(const Trace& a, const Trace& b);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_SAME_RECORDING_H_
