// SPDX-License-Identifier: Apache-2.0
//
// How often findings were true in runs with known faults, by code and size. A finding of a kind that was mostly false
// is silent.
#ifndef PITOT_LIB_ANALYZE_CATALOGUE_PRECISION_H_
#define PITOT_LIB_ANALYZE_CATALOGUE_PRECISION_H_

#include <cstddef>
#include <cstdint>

#include "analyze/catalogue/namespace.h"
#include "pitot/analyze/analyze.h"

namespace pitot::catalogue {

// Large findings cost this share of the window or more. tools/accuracy/precision.py has the same.
inline constexpr double kLargeShare = 0.01;
enum class Size : uint8_t { kSmall, kLarge };

// Claims of one code and size: `right` of `of` were true.
struct PrecisionCount {
  const char* code;
  Size size;
  uint32_t right, of;
};

// The counts of lib/analyze/catalogue/precision_counts.h.
struct PrecisionTable {
  const PrecisionCount* rows;
  size_t size;
};
PrecisionTable MeasuredPrecision();

// Sets FindingRow::right_in, of_measured and precision, from its confidence and cost. Findings that claim nothing, and
// those with a threshold of the host's, count as not measured.
void Calibrate(const PrecisionTable& table, int64_t window_ns, FindingRow* finding);
void Calibrate(const PrecisionTable& table, AnalysisReport* report);

}  // namespace pitot::catalogue

#endif  // PITOT_LIB_ANALYZE_CATALOGUE_PRECISION_H_
