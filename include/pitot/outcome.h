// SPDX-License-Identifier: Apache-2.0
//
// How requests end.
#ifndef PITOT_OUTCOME_H_
#define PITOT_OUTCOME_H_

#include <stdint.h>

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN

// How a request ended. The numbers are written to files.
enum class Outcome : uint8_t {
  kOk = 1,
  kFailed = 2,
  kCancelled = 3,
  kTimedOut = 4,
  kShed = 5,       // refused to protect the server
  kAbandoned = 6,  // the handle was dropped without an outcome
};
// Returns "ok", "failed" and so on; "open" for any other number.
PITOT_EXPORT const char* OutcomeName(Outcome outcome) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_OUTCOME_H_
