// SPDX-License-Identifier: Apache-2.0
//
// How long the records are that the loaded CUPTI fills.
#ifndef PITOT_LIB_COLLECT_CUPTI_STRIDES_H_
#define PITOT_LIB_COLLECT_CUPTI_STRIDES_H_

#include <array>

#include "collect/cupti/api.h"

namespace pitot::cupti {

// Bytes of a record by kind; 0: a kind that this library does not know, or whose records are shorter than what is read
// of them.
using Strides = std::array<uint32_t, kKindCount>;

// Asks the library to step through buffers that hold nothing but kinds. Works without a GPU and without a driver. Cost:
// some microseconds. Throws bad_alloc.
Strides ProbeStrides(const Api& api);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_STRIDES_H_
