// SPDX-License-Identifier: Apache-2.0
//
// Leaves findings without confidence out of reports. Ranks those lower that are about other requests, usual, mostly
// false, or explained by the verdict.
#ifndef PITOT_LIB_ANALYZE_JUDGE_SHOWN_H_
#define PITOT_LIB_ANALYZE_JUDGE_SHOWN_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "analyze/judge/namespace.h"
#include "base/columns.h"
#include "pitot/analyze/analyze.h"
#include "pitot/analyze/judgement.h"
#include "pitot/model/intervals.h"

namespace pitot::judge {

// False where its confidence would be printed as 0.00.
inline bool IsShown(const FindingRow& finding) { return finding.confidence >= 0.005; }

// Whether half of the server's windows or more had it. Fewer than 8 windows say nothing.
inline bool IsUsual(const FindingRow& finding) {
  return finding.of_windows >= 8 && 2 * finding.usual_in >= finding.of_windows;
}
// "usual here: in 28 of the last 32 windows".
inline std::string UsualText(const FindingRow& finding) {
  return base::Format("usual here: in %u of the last %u windows", finding.usual_in, finding.of_windows);
}

// "3 of 19 such findings were true in runs with known faults".
inline std::string PrecisionText(const FindingRow& finding) {
  return base::Format("%u of %u such findings were true in runs with known faults", finding.right_in,
                      finding.of_measured);
}

// The time of the judged request if the verdict names its causes; otherwise empty, and every finding may help.
inline model::Interval ExplainedTime(const Judgement* judgement) {
  if (judgement == nullptr || judgement->verdict.kind != VerdictKind::kCauses) return {0, 0};
  return {judgement->blame.begin_ns, judgement->blame.end_ns};
}

// Whether a finding matters for that time: its evidence covers a tenth of it, or it is about the recording itself.
inline bool IsAbout(const FindingRow& finding, const model::Interval& time) {
  if (time.begin_ns == time.end_ns || finding.code.rfind("a39.", 0) == 0) return true;
  int64_t covered_ns = 0;
  for (const EvidenceRow& row : finding.evidence)
    covered_ns += std::max<int64_t>(0, std::min(row.end_ns, time.end_ns) - std::max(row.begin_ns, time.begin_ns));
  return finding.evidence.empty() || covered_ns >= (time.end_ns - time.begin_ns + 9) / 10;
}

// Whether a finding says what was lost, and not why: a GPU without work, gaps, sleep.
inline bool IsSymptom(const FindingRow& finding) {
  static constexpr std::string_view kSymptoms[] = {"a03.utilisation_low", "a04.idle",       "a05.input_bound",
                                                   "a27.blocked",         "a29.long_gaps",  "a34.idle_cost",
                                                   "a36.outliers",        "a43.idle_energy"};
  return std::find(std::begin(kSymptoms), std::end(kSymptoms), finding.code) != std::end(kSymptoms);
}

inline constexpr double kLeastLikely = 0.5;  // confidence of a cause that explains findings

// Whether the verdict explains a finding: a symptom whose evidence in the request's time is mostly time that the
// verdict's likely causes took.
inline bool IsExplained(const FindingRow& finding, const Judgement* judgement) {
  const model::Interval time = ExplainedTime(judgement);
  if (time.begin_ns == time.end_ns || !IsSymptom(finding)) return false;
  const auto overlap_ns = [](const EvidenceRow& row, int64_t begin_ns, int64_t end_ns) {
    return std::max<int64_t>(0, std::min(row.end_ns, end_ns) - std::max(row.begin_ns, begin_ns));
  };
  uint32_t causes = 0;
  for (const Cause& cause : judgement->verdict.causes)
    causes |= cause.confidence >= kLeastLikely ? BlameBit(cause.blame) : 0;
  int64_t inside_ns = 0, caused_ns = 0;
  for (const EvidenceRow& row : finding.evidence) {
    inside_ns += overlap_ns(row, time.begin_ns, time.end_ns);
    for (const BlameSegment& segment : judgement->blame.segments)
      caused_ns += (causes & BlameBit(segment.blame)) != 0 ? overlap_ns(row, segment.begin_ns, segment.end_ns) : 0;
  }
  return inside_ns > 0 && 2 * caused_ns >= inside_ns;
}
inline constexpr char kExplained[] = "explained by the verdict";

// Whether it is left out before the appendix.
inline bool IsBelow(const FindingRow& finding, const Judgement* judgement) {
  return IsUsual(finding) || finding.IsSilent() || IsExplained(finding, judgement);
}

}  // namespace pitot::judge

#endif  // PITOT_LIB_ANALYZE_JUDGE_SHOWN_H_
