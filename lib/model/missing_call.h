// SPDX-License-Identifier: Apache-2.0
//
// Attributes that name calls a host forgot begin so. lib/session writes them, and reports show them.
#ifndef PITOT_LIB_MODEL_MISSING_CALL_H_
#define PITOT_LIB_MODEL_MISSING_CALL_H_

namespace pitot::model {

inline constexpr char kMissingCall[] = "missing_call.";

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_MISSING_CALL_H_
