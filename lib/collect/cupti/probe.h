// SPDX-License-Identifier: Apache-2.0
//
// Whether CUPTI can be had here, for `pitot doctor`: asked as the collector asks it.
#ifndef PITOT_LIB_COLLECT_CUPTI_PROBE_H_
#define PITOT_LIB_COLLECT_CUPTI_PROBE_H_

#include "collect/cupti/api.h"
#include "pitot/status.h"

namespace pitot::cupti {

// Takes CUPTI, has it record kernels, and hands it back: what Recorder::Add would say. Nothing is read of what is
// recorded meanwhile. A driver that hangs, hangs this, and CUPTI may crash: for a process that can be lost. Throws
// bad_alloc. Errors: kUnavailable, with CUPTI's reason and who has it.
Status TryCupti(const Api& api);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_PROBE_H_
