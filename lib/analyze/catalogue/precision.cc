// SPDX-License-Identifier: Apache-2.0
#include "analyze/catalogue/precision.h"

#include <algorithm>
#include <iterator>

#include "analyze/catalogue/precision_counts.h"

namespace pitot::catalogue {
namespace {

// The finding's own confidence counts as this many measured findings. So it decides where few were measured.
constexpr double kOwn = 2;

bool IsClaim(const FindingRow& finding) {
  return !finding.is_undetermined && finding.severity != Severity::kInfo && finding.threshold.source != "config";
}

}  // namespace

PrecisionTable MeasuredPrecision() { return {kPrecisionCounts, std::size(kPrecisionCounts)}; }

void Calibrate(const PrecisionTable& table, int64_t window_ns, FindingRow* finding) {
  finding->precision = finding->confidence;
  finding->right_in = finding->of_measured = 0;
  const bool is_large =
      finding->cost_ns != 0 && static_cast<double>(finding->cost_ns) >= kLargeShare * static_cast<double>(window_ns);
  const Size size = is_large ? Size::kLarge : Size::kSmall;
  const PrecisionCount* const end = table.rows + table.size;
  const auto row = std::find_if(
      table.rows, end, [&](const PrecisionCount& count) { return count.size == size && finding->code == count.code; });
  if (row == end || !IsClaim(*finding)) return;
  finding->right_in = row->right;
  finding->of_measured = row->of;
  finding->precision = (row->right + kOwn * finding->confidence) / (row->of + kOwn);
}

void Calibrate(const PrecisionTable& table, AnalysisReport* report) {
  for (AnalyzerReport& analyzer : report->analyzers) {
    for (FindingRow& finding : analyzer.findings) Calibrate(table, report->window_ns, &finding);
  }
}

}  // namespace pitot::catalogue
