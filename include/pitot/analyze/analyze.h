// SPDX-License-Identifier: Apache-2.0
//
// Runs analyzers over a trace: the built-in catalogue and the host's own. `pitot analyze` prints the result.
// docs/reference/analyzers.md describes each analyzer.
#ifndef PITOT_ANALYZE_ANALYZE_H_
#define PITOT_ANALYZE_ANALYZE_H_

#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

#include "pitot/export.h"
#include "pitot/extend/analyzer.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

class BlameIndex;  // pitot/analyze/why.h

struct ThresholdSetting {
  std::string name;  // "a04.idle_share"
  double value = 0;
};

struct AnalyzeOptions {
  std::vector<std::string> only;  // analyzers to run, by name; empty: all
  std::vector<ThresholdSetting> thresholds;
  int64_t budget_ns = 2'000'000'000;  // CPU time of one analyzer; time spent in is_over does not count
  // An index of the same trace, for analyzers that ask about requests. Null: one is made if any of them asks.
  const BlameIndex* index = nullptr;
  // Polled on the calling thread; returns true once the time for all analyzers together is up. The running analyzer is
  // then cut off and the rest are skipped; each of them is named in the report. Null: no such limit.
  bool (*is_over)(void* context) = nullptr;
  void* is_over_context = nullptr;
};

// These rows mirror the structs of pitot/extend/analyzer.h, but own their texts.
struct MeasureRow {
  std::string name, subject, unit;
  double value = 0;  // NaN: not recorded
};
struct ThresholdRow {
  std::string name, unit, source;
  double value = 0;
};
struct EvidenceRow {
  EvidenceTable table = EvidenceTable::kWindow;
  uint32_t first_row = 0, rows = 0;
  int64_t begin_ns = 0, end_ns = 0;
  std::string note;
};
// Another finding that excludes this one, and why (docs/reference/analyzers.md#findings-together).
struct Contradiction {
  std::string code, subject, why;
};
struct FindingRow {
  std::string code, subject, metric, summary, recommendation;
  Severity severity = Severity::kInfo;
  double confidence = 0, value = 0;
  bool is_undetermined = false;
  int64_t cost_ns = 0;
  ThresholdRow threshold;
  std::vector<EvidenceRow> evidence;
  std::vector<std::string> caveats;  // damage to the data behind it (analyzer a39)
  uint32_t repeats = 0;              // lesser findings of the same code, subject and metric that were left out
  std::vector<Contradiction> contradictions;
  // By a judge: `usual_in` of the last `of_windows` windows of the server (at most 32) had it, for the same subject.
  uint32_t usual_in = 0, of_windows = 0;
  // In runs with known faults `right_in` of `of_measured` findings of this code, and as large, were true. 0 of 0: they
  // were never measured. `precision` is how likely this one is true, by that and by its confidence.
  uint32_t right_in = 0, of_measured = 0;
  double precision = 0;
  // Whether such claims are more often false than true. Reports have them in the appendix only. Fewer than three
  // measured ones do not tell.
  bool IsSilent() const { return !is_undetermined && of_measured >= 3 && precision < 0.5; }
};

// The result of one analyzer.
struct AnalyzerReport {
  std::string name, title;
  Status status;  // not ok: it failed, or was cut off (kResourceExhausted); its measures and findings are dropped
  int64_t cpu_ns = 0;
  std::vector<MeasureRow> measures;
  std::vector<FindingRow> findings;  // most severe first, then the most expensive
};
struct AnalysisReport {
  int64_t window_ns = 0;
  int64_t index_cpu_ns = 0;  // of the indexes that all analyzers share
  std::vector<AnalyzerReport> analyzers;
  // The first measure with this name and subject (any subject if ""); null if there is none.
  PITOT_EXPORT const MeasureRow* Find(const std::string& analyzer, const std::string& measure,
                                      const std::string& subject = "") const;
  // Returns all findings, most severe first, then the most expensive. Never add up their costs: they may overlap.
  // Lifetime: that of the report. Throws std::bad_alloc.
  PITOT_EXPORT std::vector<const FindingRow*> Ranked() const;
};

// The built-in analyzers, by name.
PITOT_EXPORT std::vector<std::unique_ptr<Analyzer>> MakeCatalogue();

// Runs each analyzer in turn. An analyzer that fails, throws or overruns its budget is named in its report; the others
// still answer. If a part of the trace is damaged (analyzer a39), findings that rest on it carry a caveat. Their
// confidence is multiplied by the undamaged share of that part, at least 0.5. If one analyzer judges the same metric of
// the same subject by the same code several times, only the gravest finding is kept. Findings that exclude each other
// are both kept, at half their confidence.
// Threads: any; one at a time per analyzer.
// Errors: kInvalidArgument (`only` or `thresholds` holds an unknown name), kResourceExhausted.
PITOT_EXPORT Status Analyze(const model::Trace& trace, const std::vector<std::unique_ptr<Analyzer>>& analyzers,
                            const AnalyzeOptions& options, AnalysisReport* report) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_ANALYZE_H_
