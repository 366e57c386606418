// SPDX-License-Identifier: Apache-2.0
//
// Has each incident say why its request was slow: report.txt opens with the verdict, verdict.json and report.html are
// added. In a host:
//
//   recorder.Add(pitot::MakeWhyJudge());
//
// What is normal it learns all the time (a small sample now and then), keeps across incidents, and across restarts
// where it is given a file. docs/reference/why.md says how, and what that costs.
#ifndef PITOT_ANALYZE_JUDGE_H_
#define PITOT_ANALYZE_JUDGE_H_

#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

#include "pitot/analyze/analyze.h"
#include "pitot/analyze/baseline.h"
#include "pitot/analyze/verdict.h"
#include "pitot/analyze/why.h"
#include "pitot/export.h"
#include "pitot/extend/analyzer.h"
#include "pitot/extend/judge.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

struct WhyJudgeOptions {
  // CPU time of one verdict with all that belongs to it, ms.
  uint32_t budget_ms = 2000;
  // Whether report.html is written, too.
  bool html = true;
  // A sample at most every so often, ms, and no more often than 0.5 % of one CPU allow; 0: only incidents teach what is
  // normal. How far back it reaches, ms; at most 1 MiB of events, the newest.
  uint32_t sample_every_ms = 10'000;
  uint32_t sample_window_ms = 8'000;
  // Requests that began in the first so many ms after the judge was made are not normal.
  uint32_t warm_up_ms = 30'000;
  // Where what is normal is kept: read when the judge is made, written every five minutes and with each incident,
  // whole. Null: nowhere. What is wrong with it is said in report.txt.
  const char* baseline_file = nullptr;
};

// Memory beside the recorder's budget: under 8 MiB for what is normal; while it judges, up to three times the
// incident's trace (docs/reference/why.md has numbers). `analyzers` are the host's own, asked about each incident after the
// built-in ones, on the recorder's worker, with half a second of CPU time each of what the verdict left of `budget_ms`;
// one that fails, throws or overruns it is named in report.txt. Null: no memory.
PITOT_EXPORT std::unique_ptr<Judge> MakeWhyJudge(const WhyJudgeOptions& options = {},
                                                 std::vector<std::unique_ptr<Analyzer>> analyzers = {}) noexcept;

namespace analyze {

// The row of the request that is asked about: with the id; of id 0 the slowest of those that a trigger fired for, else
// the slowest that began and ended in the trace. model::kNone: there is none.
PITOT_EXPORT uint32_t ChooseRequest(const model::Trace& trace, uint64_t id) noexcept;

struct Judgement {
  BlameIndex index;
  RequestBlame blame;
  Verdict verdict;
  Learned learned;  // of the trace, for the next request
};

// The verdict on the request of that row, by `kept` (null: nothing is) where that knows enough of its route and size,
// else by the other requests of the trace, if they know more. Makes the index unless it was made.
// Errors: those of BlameIndex::Make, FindBlame, LearnBaseline and FindVerdict.
PITOT_EXPORT Status JudgeRequest(const model::Trace& trace, uint32_t request, const Baseline* kept,
                                 Judgement* judgement) noexcept;

// ---- What report.txt says beside the verdict; all throw std::bad_alloc.
// Of the three slowest others that a trigger fired for, whose fault it was: "0000000000008f0c 20.1 ms: host_lock ...".
// Fewer where the index's time is up; what cannot be judged is left out. Others than the request that `judgement` is
// of, which stays.
PITOT_EXPORT std::vector<std::string> OthersThatFired(const model::Trace& trace, const Baseline* kept,
                                                      Judgement* judgement);
// A line of text for each: "also fired  0000000000008f0c 20.1 ms: host_lock ...", wrapped at `columns`.
PITOT_EXPORT std::string AlsoFiredText(const std::vector<std::string>& others, size_t columns = 100);
// The three gravest findings, without undetermined ones and those that claim nothing that is wrong: "in window
// a04.idle: ..."; and which analyzers failed. Wrapped at `columns`.
PITOT_EXPORT std::string FindingsText(const AnalysisReport& analysis, size_t columns = 100);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_JUDGE_H_
