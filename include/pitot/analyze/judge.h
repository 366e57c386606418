// SPDX-License-Identifier: Apache-2.0
//
// Explains in each incident why its request was slow. report.txt then opens with the verdict, and verdict.json and
// report.html are added. In a host:
//
//   recorder.Add(pitot::MakeWhyJudge());
//
// It keeps learning what is normal, from a small sample now and then, across incidents. With a file it also does so
// across restarts. docs/reference/why.md describes the method and its cost.
#ifndef PITOT_ANALYZE_JUDGE_H_
#define PITOT_ANALYZE_JUDGE_H_

#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

#include "pitot/analyze/analyze.h"
#include "pitot/analyze/baseline.h"
#include "pitot/analyze/judgement.h"
#include "pitot/export.h"
#include "pitot/extend/analyzer.h"
#include "pitot/extend/judge.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

struct WhyJudgeOptions {
  // CPU time of one verdict, and again of the findings of its window, ms.
  uint32_t budget_ms = 2000;
  // Whether to write report.html, too.
  bool html = true;
  // Shortest time between samples, ms; they also use at most 0.5 % of one CPU. 0: only incidents teach what is normal.
  // sample_window_ms is how far back a sample reaches, ms; it holds the newest 1 MiB of events at most.
  uint32_t sample_every_ms = 10'000;
  uint32_t sample_window_ms = 8'000;
  // Requests that begin within this time after the judge was made are not normal, ms.
  uint32_t warm_up_ms = 30'000;
  // File that keeps what is normal. It is read when the judge is made, and replaced as a whole every five minutes and
  // with each incident. Null: no file. report.txt names any problem with it.
  const char* baseline_file = nullptr;
};

// Makes the judge; null without memory. Memory: for what is normal an eighth of what rings, requests and names leave of
// the recorder's budget, at most 11 MiB; while it judges, three times the incident's trace. `analyzers` are the host's
// own. They run on the recorder's worker for each incident, after the built-in ones. Each gets half a second of CPU
// time, out of the rest of `budget_ms`. One that fails, throws or overruns it is named in report.txt.
PITOT_EXPORT std::unique_ptr<Judge> MakeWhyJudge(const WhyJudgeOptions& options = {},
                                                 std::vector<std::unique_ptr<Analyzer>> analyzers = {}) noexcept;

namespace analyze {

struct HtmlReport;

// Whole lines of report.txt that only the judge has.
struct OpeningLines {
  std::string scopes;    // the usual lengths of the causes' scopes
  std::string troubles;  // with the baseline's file
};
// The opening of report.txt. At most 38 lines come first: the sentence, the tree, advice, losses, the gravest findings,
// others that fired. The verdict's numbers follow after a line "APPENDIX"; they belong behind that line of the report.
// `of` is the same as for report.html. Words are wrapped at `columns`. Throws std::bad_alloc.
PITOT_EXPORT std::string OpeningText(const model::Trace& trace, const HtmlReport& of, const OpeningLines& more = {},
                                     size_t columns = 100);

// ---- Additional texts of report.txt; all throw std::bad_alloc. For each of the three slowest other requests that
// fired a trigger, a line about the culprit: "0000000000008f0c 20.1 ms: host_lock ...". Leaves out requests that cannot
// be judged, and ends early once the index's time is up. The request of `judgement` is not among them, and its verdict
// stays.
PITOT_EXPORT std::vector<std::string> OthersThatFired(const model::Trace& trace, const Baseline* kept,
                                                      Judgement* judgement);
// Text for each of them: "also fired  0000000000008f0c 20.1 ms: host_lock ...", wrapped at `columns`.
PITOT_EXPORT std::string AlsoFiredText(const std::vector<std::string>& others, size_t columns = 100);
// The three gravest findings, "in window   a04.idle: ...", and the analyzers that failed. Leaves out undetermined and
// merely informative findings, those of half the server's last windows or more (FindingRow::usual_in), and silent ones
// (FindingRow::IsSilent). Wrapped at `columns`. If the verdict `of` a request names causes, findings of low severity,
// or with evidence for less than a tenth of its time, are left out.
PITOT_EXPORT std::string FindingsText(const AnalysisReport& analysis, size_t columns = 100,
                                      const Judgement* of = nullptr);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_JUDGE_H_
