// SPDX-License-Identifier: Apache-2.0
//
// The gates that decide whether a change is a regression.
#ifndef PITOT_LIB_ANALYZE_DIFF_DIFF_GATES_H_
#define PITOT_LIB_ANALYZE_DIFF_DIFF_GATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/diff/namespace.h"
#include "pitot/analyze/diff.h"

namespace pitot::diff {

// The requests of two sides that are compared, and how far the sides differ in routes and sizes.
struct Matched {
  std::vector<uint32_t> before, after;  // indices: all, if the mix is much the same; otherwise as many of each kind
  double mix_shift = 0;                 // half the sum of the differences of shares
};
Matched Match(const std::vector<std::string>& before, const std::vector<std::string>& after, double most_mix_shift);

std::vector<double> Pick(const std::vector<double>& values, const std::vector<uint32_t>& indices);

// A gate for times, in the order of time: by the shift's interval.
DiffGate TimeGate(const char* name, const std::vector<double>& before, const std::vector<double>& after, double limit);
// A gate for a quantile, by its order statistics.
DiffGate QuantileGate(const char* name, double q, const std::vector<double>& before, const std::vector<double>& after,
                      double limit);
// A gate for counts, which have hardly any noise. If requests of a side differ, a growth must also be significant.
DiffGate CountGate(const char* name, const char* unit, const std::vector<double>& before,
                   const std::vector<double>& after, double limit, double q);

}  // namespace pitot::diff

#endif  // PITOT_LIB_ANALYZE_DIFF_DIFF_GATES_H_
