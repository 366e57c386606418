// SPDX-License-Identifier: Apache-2.0
//
// The opening of a report, other than the verdict.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analyze/judge/shown.h"
#include "base/columns.h"
#include "model/request_text.h"
#include "pitot/analyze/judge.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

namespace {

constexpr size_t kMostOthers = 3, kMostOpeningFindings = 3;

// Ended requests that a trigger fired for, except `but`, slowest first.
std::vector<uint32_t> SlowestThatFired(const model::Trace& trace, uint32_t but) {
  std::vector<uint64_t> fired;
  for (const model::FiringRow& firing : trace.firings) fired.push_back(firing.request_id);
  std::sort(fired.begin(), fired.end());
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    const model::RequestRow& request = trace.requests[row];
    if (row != but && request.duration_ns != model::kOpen && std::binary_search(fired.begin(), fired.end(), request.id))
      rows.push_back(row);
  }
  std::sort(rows.begin(), rows.end(),
            [&](uint32_t a, uint32_t b) { return trace.requests[a].duration_ns > trace.requests[b].duration_ns; });
  return rows;
}

}  // namespace

std::vector<std::string> OthersThatFired(const model::Trace& trace, const Baseline* kept, Judgement* judgement) {
  std::vector<std::string> others;
  Judgement other;
  std::swap(other.index, judgement->index);  // made once
  std::swap(other.learned, judgement->learned);
  for (const uint32_t row : SlowestThatFired(trace, judgement->blame.request)) {
    if (others.size() == kMostOthers) break;
    const Status status = JudgeRequest(trace, row, kept, &other);
    if (status.code() == StatusCode::kResourceExhausted) break;
    if (!status.ok()) continue;
    others.push_back(model::RequestName(trace, row) +
                     base::Format(" %.1f ms: ", static_cast<double>(other.verdict.latency_ns) * 1e-6) +
                     VerdictLine(other.index, other.blame, other.verdict));
  }
  std::swap(other.index, judgement->index);
  std::swap(other.learned, judgement->learned);
  return others;
}

std::string AlsoFiredText(const std::vector<std::string>& others, size_t columns) {
  base::Lines lines(columns);
  for (const std::string& other : others) lines.AddWrapped(0, "also fired  ", other);
  return lines.text();
}

std::string FindingsText(const AnalysisReport& analysis, size_t columns, const Judgement* of) {
  const model::Interval time = judge::ExplainedTime(of);
  base::Lines lines(columns);
  for (const AnalyzerReport& report : analysis.analyzers) {
    if (!report.status.ok()) lines.AddWrapped(0, "analyzer    ", report.name + ": " + report.status.message());
  }
  size_t said = 0;
  for (const FindingRow* finding : analysis.Ranked()) {
    const bool is_slight =
        finding->severity == Severity::kInfo || (finding->severity == Severity::kLow && time.begin_ns != time.end_ns);
    if (finding->is_undetermined || is_slight || !judge::IsShown(*finding) || !judge::IsAbout(*finding, time) ||
        said == kMostOpeningFindings)
      continue;
    ++said;
    std::string text = finding->code + ": " + finding->summary;
    for (const Contradiction& other : finding->contradictions) text += "; but " + other.code + ": " + other.why;
    lines.AddWrapped(0, "in window   ", text);
  }
  return lines.text();
}

}  // namespace analyze
PITOT_NAMESPACE_END
