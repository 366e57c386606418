// SPDX-License-Identifier: Apache-2.0
//
// The basic types of a trace's tables.
#ifndef PITOT_MODEL_TYPES_H_
#define PITOT_MODEL_TYPES_H_

#include <stdint.h>

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN
namespace model {

using StringId = uint32_t;                     // a row of Trace::strings; 0 is ""
inline constexpr uint32_t kNone = 0xffffffff;  // no row
inline constexpr int64_t kOpen = -1;           // duration of anything that had not ended when the snapshot was taken
// No time or interval end is negative or later. 146 years of uptime: differences and sums of two fit.
inline constexpr int64_t kMaxTimeNs = int64_t{1} << 62;

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_TYPES_H_
