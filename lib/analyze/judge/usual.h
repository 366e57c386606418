// SPDX-License-Identifier: Apache-2.0
//
// Remembers which findings the last windows of a server had. One that half of them had does not explain an incident.
#ifndef PITOT_LIB_ANALYZE_JUDGE_USUAL_H_
#define PITOT_LIB_ANALYZE_JUDGE_USUAL_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "analyze/judge/namespace.h"
#include "pitot/analyze/analyze.h"
#include "pitot/model/intervals.h"

namespace pitot::judge {

class UsualFindings {
 public:
  // Sets FindingRow::usual_in and of_windows, by the windows noted before.
  void Mark(AnalysisReport* analysis) const;
  // Notes a window's findings. A window that overlaps the last one noted is left out: it has the same events.
  void Note(const model::Interval& window, const AnalysisReport& analysis);
  // Whether the next sample should be analyzed: the first 32, then every eighth. Counts the call.
  bool IsSampleDue() { return samples_++ < kWindows || samples_ % kEachSample == 0; }
  size_t size() const { return had_.size(); }  // findings remembered

 private:
  static constexpr uint32_t kWindows = 32, kEachSample = 8;
  static constexpr size_t kMostKnown = 1024;  // findings; about 40 KiB

  std::unordered_map<uint64_t, uint32_t> had_;  // by code and subject: a bit for each window, the newest lowest
  uint32_t windows_ = 0;                        // noted, at most kWindows
  uint64_t samples_ = 0;
  int64_t end_ns_ = INT64_MIN;  // of the last window noted
};

}  // namespace pitot::judge

#endif  // PITOT_LIB_ANALYZE_JUDGE_USUAL_H_
