// SPDX-License-Identifier: Apache-2.0
//
// Whether CUPTI can be used here, for `pitot doctor`, by the collector's own calls.
#ifndef PITOT_LIB_COLLECT_CUPTI_PROBE_H_
#define PITOT_LIB_COLLECT_CUPTI_PROBE_H_

#include "collect/cupti/api.h"
#include "pitot/status.h"

namespace pitot::cupti {

// Takes CUPTI, has it record kernels, and hands it back. Returns the result that Recorder::Add would have. Nothing
// recorded meanwhile is read. A hanging driver hangs this, and CUPTI may crash: call it in a process that can be lost.
// Throws bad_alloc. Errors: kUnavailable, with CUPTI's reason and its owner.
Status TryCupti(const Api& api);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_PROBE_H_
