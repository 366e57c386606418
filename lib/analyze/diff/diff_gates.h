// SPDX-License-Identifier: Apache-2.0
//
// What decides whether a change is a regression.
#ifndef PITOT_LIB_ANALYZE_DIFF_DIFF_GATES_H_
#define PITOT_LIB_ANALYZE_DIFF_DIFF_GATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pitot/analyze/diff.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Which of two lots are alike, and how many are not: requests of another route or size.
struct Matched {
  std::vector<uint32_t> before, after;  // indices: all, where the mix is much the same; else as many of each kind
  double mix_shift = 0;                 // half the sum of the differences of shares
};
Matched Match(const std::vector<std::string>& before, const std::vector<std::string>& after, double most_mix_shift);

std::vector<double> Pick(const std::vector<double>& values, const std::vector<uint32_t>& indices);

// Of times, in the order of time: by the shift's interval.
DiffGate TimeGate(const char* name, const std::vector<double>& before, const std::vector<double>& after, double limit);
// Of a quantile, by its order statistics.
DiffGate QuantileGate(const char* name, double q, const std::vector<double>& before, const std::vector<double>& after,
                      double limit);
// Of what has no noise, or hardly: where requests of a side differ, more must be significant.
DiffGate CountGate(const char* name, const char* unit, const std::vector<double>& before,
                   const std::vector<double>& after, double limit, double q);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_DIFF_DIFF_GATES_H_
