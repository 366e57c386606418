// SPDX-License-Identifier: Apache-2.0
//
// Runs analyzers over a trace: the built-in catalogue and a host's own. What `pitot analyze` shows; docs/reference/analyzers.md
// says what each analyzer answers.
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
  Compat compat = Compat::kPitot;
  std::vector<std::string> only;  // analyzers by name; empty: all
  std::vector<ThresholdSetting> thresholds;
  int64_t budget_ns = 2'000'000'000;  // CPU time of one analyzer, without that of is_over
  // Of the same trace, so that it is not made again for analyzers that ask about requests; null: it is, if they do.
  const BlameIndex* index = nullptr;
  // Asked now and then, on the calling thread: the time for all of them is up. Who runs is then cut off, and the rest
  // are not run; each is named. Null: there is no such limit.
  bool (*is_over)(void* context) = nullptr;
  void* is_over_context = nullptr;
};

// As the structs of pitot/extend/analyzer.h, with texts of their own.
struct MeasureRow {
  std::string name, subject, unit;
  double value = 0;
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
// Another finding that cannot be true as well, and why (docs/reference/analyzers.md#findings-together).
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
  std::vector<std::string> caveats;  // what is damaged of what it rests on (a39)
  uint32_t repeats = 0;              // lesser findings of this code, subject and metric, which are left out
  std::vector<Contradiction> contradictions;
};

// What one analyzer answered.
struct AnalyzerReport {
  std::string name, title;
  Status status;  // not ok: it failed, or was cut off (kResourceExhausted); what it added is dropped
  int64_t cpu_ns = 0;
  std::vector<MeasureRow> measures;
  std::vector<FindingRow> findings;  // most severe first, of those the dearest
};
struct AnalysisReport {
  int64_t window_ns = 0;
  int64_t index_cpu_ns = 0;  // of the indexes that all share
  std::vector<AnalyzerReport> analyzers;
  // Of the first of this name and subject ("" is any); null where there is none.
  PITOT_EXPORT const MeasureRow* Find(const std::string& analyzer, const std::string& measure,
                                      const std::string& subject = "") const;
  // All findings, most severe first, of those the dearest. Their costs are never added: they may overlap. Lifetime: the
  // report's. Throws std::bad_alloc.
  PITOT_EXPORT std::vector<const FindingRow*> Ranked() const;
};

// The built-in analyzers, by name.
PITOT_EXPORT std::vector<std::unique_ptr<Analyzer>> MakeCatalogue();

// Runs each in turn. An analyzer that fails, throws or overruns its budget is named in its report; the others answer
// all the same. Where a part of the trace is damaged (a39), findings of analyzers that read it carry that as a caveat,
// and their confidence is multiplied by the share that is whole, at least 0.5. Of an analyzer's findings that judge the
// same metric of the same subject by the same code the gravest is kept; findings that exclude each other are kept, half
// as sure. Threads: any; one at a time per analyzer. Errors: kInvalidArgument (`only` or `thresholds` name what there
// is not), kResourceExhausted.
PITOT_EXPORT Status Analyze(const model::Trace& trace, const std::vector<std::unique_ptr<Analyzer>>& analyzers,
                            const AnalyzeOptions& options, AnalysisReport* report) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_ANALYZE_H_
