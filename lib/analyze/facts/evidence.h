// SPDX-License-Identifier: Apache-2.0
//
// The end of a finding: its severity, confidence and cost, its words, and the rows that prove it best.
#ifndef PITOT_LIB_ANALYZE_FACTS_EVIDENCE_H_
#define PITOT_LIB_ANALYZE_FACTS_EVIDENCE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "pitot/extend/analyzer.h"
#include "pitot/model/intervals.h"

namespace pitot::facts {

// Keeps the few longest of the rows shown to it, longest first.
class Longest {
 public:
  explicit Longest(EvidenceTable table, const char* note) : table_(table), note_(note) {}
  void Show(uint32_t row, model::Interval time) {
    if (rows_.size() == kMost && time.end_ns - time.begin_ns <= rows_.back().end_ns - rows_.back().begin_ns) return;
    const auto at = std::find_if(rows_.begin(), rows_.end(), [&](const Evidence& other) {
      return other.end_ns - other.begin_ns < time.end_ns - time.begin_ns;
    });
    rows_.insert(at,
                 Evidence{table_, row, table_ == EvidenceTable::kWindow ? 0u : 1u, time.begin_ns, time.end_ns, note_});
    if (rows_.size() > kMost) rows_.pop_back();
  }
  void AddTo(Finding* finding) const {
    finding->evidence = rows_.data();
    finding->evidence_count = static_cast<uint32_t>(rows_.size());
  }

 private:
  static constexpr size_t kMost = 5;
  EvidenceTable table_;
  const char* note_;
  std::vector<Evidence> rows_;
};

// The conclusion about a judged value.
struct Conclusion {
  Severity severity = Severity::kInfo;
  double confidence = 0;
  bool is_undetermined = false;
  int64_t cost_ns = 0;
  std::string summary;
  std::string recommendation;
};

// Adds the finding.
inline void Conclude(Analysis& analysis, Finding finding, const Conclusion& conclusion) {
  finding.severity = conclusion.severity;
  finding.confidence = conclusion.confidence;
  finding.is_undetermined = conclusion.is_undetermined;
  finding.cost_ns = conclusion.cost_ns;
  finding.summary = conclusion.summary.c_str();
  finding.recommendation = conclusion.recommendation.c_str();
  analysis.Add(finding);
}
inline void Conclude(Analysis& analysis, Finding finding, const Conclusion& conclusion, const Longest& evidence) {
  evidence.AddTo(&finding);
  Conclude(analysis, finding, conclusion);
}
inline void Conclude(Analysis& analysis, Finding finding, const Conclusion& conclusion, const Evidence& evidence) {
  finding.evidence = &evidence;
  finding.evidence_count = 1;
  Conclude(analysis, finding, conclusion);
}
inline void Conclude(Analysis& analysis, Finding finding, const Conclusion& conclusion,
                     const std::vector<Evidence>& evidence) {
  finding.evidence = evidence.data();
  finding.evidence_count = static_cast<uint32_t>(evidence.size());
  Conclude(analysis, finding, conclusion);
}

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_EVIDENCE_H_
