// SPDX-License-Identifier: Apache-2.0
//
// Puts the rows of a trace in order, for readers of Pitot's own traces in other formats.
#ifndef PITOT_LIB_READ_SORT_ROWS_H_
#define PITOT_LIB_READ_SORT_ROWS_H_

#include "pitot/model/trace.h"

namespace pitot::read {

// The rows of all tables may be in any order before; rows refer to each other by their places. All columns are filled.
// Sorts them as pitot/model/trace.h says, changes the references, and sets the ranges of threads, streams and batches.
void SortRows(model::Trace* trace);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_SORT_ROWS_H_
