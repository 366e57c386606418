// SPDX-License-Identifier: Apache-2.0
//
// A03 for a time of the caller's choice. Called by A03 itself for the window, and by lib/peers.
#ifndef PITOT_LIB_ANALYZE_CATALOGUE_A03_UTILISATION_H_
#define PITOT_LIB_ANALYZE_CATALOGUE_A03_UTILISATION_H_

#include "pitot/extend/analyzer.h"
#include "pitot/model/intervals.h"

namespace pitot::catalogue {
namespace a03 {

// Measures and judges how each GPU was used during `time`. `counted` (null: as it is) gives the occupancy to count for
// a kernel's occupancy.
void OfTime(Analysis& analysis, model::Interval time, double (*counted)(double occupancy) = nullptr);

}  // namespace a03
}  // namespace pitot::catalogue

#endif  // PITOT_LIB_ANALYZE_CATALOGUE_A03_UTILISATION_H_
