// SPDX-License-Identifier: Apache-2.0
//
// The lengths of the loaded CUPTI's records.
#ifndef PITOT_LIB_COLLECT_CUPTI_STRIDES_H_
#define PITOT_LIB_COLLECT_CUPTI_STRIDES_H_

#include <array>

#include "collect/cupti/api.h"

namespace pitot::cupti {

// Bytes of a record by kind; 0: the library does not know the kind, or its records are shorter than the part that is
// read.
using Strides = std::array<uint32_t, kKindCount>;

// Asks the library to step through buffers that contain only kinds. Works without a GPU and without a driver. Cost:
// some microseconds. Throws bad_alloc.
Strides ProbeStrides(const Api& api);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_STRIDES_H_
