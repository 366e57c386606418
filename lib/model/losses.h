// SPDX-License-Identifier: Apache-2.0
//
// The effect of losses on a trace.
#ifndef PITOT_LIB_MODEL_LOSSES_H_
#define PITOT_LIB_MODEL_LOSSES_H_

#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace model {

// Whether events are missing, rather than the record of a scope or a request.
constexpr bool IsOfEvents(LossReason reason) {
  return reason == LossReason::kOverwritten || reason == LossReason::kCopying || reason == LossReason::kReserve ||
         reason == LossReason::kUnreadable;
}

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_MODEL_LOSSES_H_
