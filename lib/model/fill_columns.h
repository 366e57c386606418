// SPDX-License-Identifier: Apache-2.0
//
// Lets those who make traces ignore the columns that they have no values for.
#ifndef PITOT_LIB_MODEL_FILL_COLUMNS_H_
#define PITOT_LIB_MODEL_FILL_COLUMNS_H_

#include "pitot/model/trace.h"

namespace pitot::schema {

// Makes the columns of each table as long as its first one, with none or 0. To be called when the trace is complete.
void FillColumns(model::Trace* trace);

}  // namespace pitot::schema

#endif  // PITOT_LIB_MODEL_FILL_COLUMNS_H_
