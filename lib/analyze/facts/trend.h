// SPDX-License-Identifier: Apache-2.0
//
// Does a series grow?
#ifndef PITOT_LIB_ANALYZE_FACTS_TREND_H_
#define PITOT_LIB_ANALYZE_FACTS_TREND_H_

#include <vector>

#include "pitot/export.h"

namespace pitot::facts {

struct Trend {
  double slope = 0;  // a step; the median over all pairs (Theil 1950, Sen 1968)
  double level = 0;  // the median
  double p = 1;      // two-sided, that a series without a trend moves one way so much (Mann 1945, Kendall 1975)
};
// The trend of values in their order, one a step. Mann-Kendall by its normal approximation with continuity correction
// and variance for ties; below 8 values p is 1. It assumes independent values: for dependent ones p is too small.
// O(n^2): for some hundred values.
Trend FindTrend(const std::vector<double>& values);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_TREND_H_
