// SPDX-License-Identifier: Apache-2.0
//
// Written by tools/precision from tools/accuracy/precision.json: do not edit.
#ifndef PITOT_LIB_ANALYZE_CATALOGUE_PRECISION_COUNTS_H_
#define PITOT_LIB_ANALYZE_CATALOGUE_PRECISION_COUNTS_H_

#include "analyze/catalogue/precision.h"

namespace pitot::catalogue {

// clang-format off
inline constexpr PrecisionCount kPrecisionCounts[] = {
    {"a03.utilisation_low", Size::kLarge, 6, 6},
    {"a04.idle", Size::kLarge, 6, 6},
    {"a05.input_bound", Size::kLarge, 0, 1},
    {"a09.sync_stalls", Size::kLarge, 3, 3},
    {"a23.leak", Size::kSmall, 1, 1},
    {"a26.throttled", Size::kLarge, 2, 2},
    {"a27.blocked", Size::kLarge, 2, 3},
    {"a27.pagefaults", Size::kLarge, 1, 1},
    {"a27.runqueue", Size::kLarge, 5, 5},
    {"a29.prefill_mixed", Size::kLarge, 2, 3},
    {"a29.queueing", Size::kLarge, 2, 3},
    {"a35.latency", Size::kLarge, 5, 5},
    {"a36.outliers", Size::kSmall, 2, 2},
    {"a41.driver", Size::kLarge, 10, 10},
    {"a42.beyond_knee", Size::kLarge, 0, 1},
};
// clang-format on

}  // namespace pitot::catalogue

#endif  // PITOT_LIB_ANALYZE_CATALOGUE_PRECISION_COUNTS_H_
