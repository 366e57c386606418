// SPDX-License-Identifier: Apache-2.0
#include "analyze/judge/usual.h"

#include <algorithm>
#include <bitset>
#include <functional>
#include <string>

namespace pitot::judge {
namespace {

uint64_t KeyOf(const FindingRow& finding) { return std::hash<std::string>()(finding.code + '\n' + finding.subject); }

}  // namespace

void UsualFindings::Mark(AnalysisReport* analysis) const {
  for (AnalyzerReport& report : analysis->analyzers) {
    for (FindingRow& finding : report.findings) {
      const auto at = had_.find(KeyOf(finding));
      finding.of_windows = windows_;
      finding.usual_in = at == had_.end() ? 0 : static_cast<uint32_t>(std::bitset<kWindows>(at->second).count());
    }
  }
}

void UsualFindings::Note(const model::Interval& window, const AnalysisReport& analysis) {
  if (window.begin_ns < end_ns_) return;
  end_ns_ = window.end_ns;
  windows_ = std::min(windows_ + 1, kWindows);
  for (auto& [key, had] : had_) had <<= 1;
  std::erase_if(had_, [](const auto& one) { return one.second == 0; });
  for (const AnalyzerReport& report : analysis.analyzers) {
    for (const FindingRow& finding : report.findings) {
      if (had_.size() < kMostKnown || had_.count(KeyOf(finding)) != 0) had_[KeyOf(finding)] |= 1;
    }
  }
}

}  // namespace pitot::judge
