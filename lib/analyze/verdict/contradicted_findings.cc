// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <vector>

#include "analyze/verdict/contradictions.h"

namespace pitot::verdict {
namespace {

// "GPU 1" of "GPU 1 stream 7" and "GPU 1: LibTorch allocated"; otherwise "".
std::string_view GpuOf(std::string_view subject) {
  constexpr std::string_view kGpu = "GPU ";
  if (subject.substr(0, kGpu.size()) != kGpu) return {};
  const size_t end = std::min(subject.find_first_not_of("0123456789", kGpu.size()), subject.size());
  return end == kGpu.size() ? std::string_view() : subject.substr(0, end);
}

bool IsOne(const FindingRow& finding, const char* code) { return !finding.is_undetermined && finding.code == code; }

void Contradict(const Exclusion& row, const FindingRow& by, FindingRow* finding) {
  if (finding->contradictions.empty()) finding->confidence *= kContradicted;
  finding->contradictions.push_back({by.code, by.subject, row.why});
}

}  // namespace

void MarkContradictions(AnalysisReport* report) {
  std::vector<FindingRow*> findings;
  for (AnalyzerReport& analyzer : report->analyzers) {
    for (FindingRow& finding : analyzer.findings) findings.push_back(&finding);
  }
  ForExclusions([&](const Exclusion& row) {
    for (FindingRow* one : findings) {
      if (!IsOne(*one, row.one)) continue;
      for (FindingRow* other : findings) {
        const std::string_view gpu = GpuOf(one->subject);
        if (!IsOne(*other, row.other) || gpu.empty() || gpu != GpuOf(other->subject)) continue;
        Contradict(row, *other, one);
        Contradict(row, *one, other);
      }
    }
  });
}

}  // namespace pitot::verdict
