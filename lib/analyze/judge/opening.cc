// SPDX-License-Identifier: Apache-2.0
//
// The opening of report.txt.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analyze/judge/shown.h"
#include "analyze/verdict/tree.h"
#include "analyze/verdict/verdict_words.h"
#include "base/appendix.h"
#include "base/columns.h"
#include "model/request_text.h"
#include "pitot/analyze/judge.h"
#include "pitot/analyze/report_html.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

namespace {

constexpr size_t kMostOthers = 3, kMostOpeningFindings = 3, kMostDrifts = 2;
// Lines before the appendix. Together they are at most 38; the session may add 2, and the report has 20.
constexpr size_t kMostFired = 4, kMostSentence = 8, kMostSentenceAndTree = 13, kMostAdvice = 4, kMostSure = 2,
                 kMostRequest = 2, kMostFindings = 4, kMostTroubles = 2;
constexpr char kNoFindings[] = "in window   not analyzed yet: `pitot analyze DIR` does it now\n";

// A short part and an appendix. Texts are whole lines; the appendix has those that the short part cuts.
class Opening {
 public:
  explicit Opening(size_t columns) : columns_(columns) {}
  void Add(const std::string& text, size_t most) {
    const std::string first = base::FirstLines(text, most, columns_);
    front_ += first;
    if (first != text) cut_ += text;
  }
  void Blank() { front_ += '\n'; }
  void AddBelow(const std::string& text) { below_ += text; }
  size_t lines() const { return static_cast<size_t>(std::count(front_.begin(), front_.end(), '\n')); }
  std::string Text() const {
    std::string text = front_;
    if (below_.empty() && cut_.empty()) return text;
    text.append("\n").append(base::kAppendix) += '\n';
    if (!below_.empty()) text += "\nTHE VERDICT IN NUMBERS\n\n" + below_;
    if (!cut_.empty()) text += "\nCUT ABOVE\n\n" + cut_;
    return text;
  }

 private:
  const size_t columns_;
  std::string front_, below_, cut_;
};

// "incident 0007  latency /classify".
std::string IncidentLine(const model::Trace& trace) {
  const std::string number(trace.AttributeOf("incident.number"));
  if (number.empty()) return "";
  return "incident " + (number.size() < 4 ? std::string(4 - number.size(), '0') : "") + number + "  " +
         base::Cut(trace.AttributeOf("incident.cause"), base::kColumns - 20) + "\n";
}

std::string SentenceText(const Judgement& of, size_t columns) {
  base::Lines lines(columns);
  lines.AddWrapped(0, "", VerdictSentence(of.index, of.blame, of.verdict));
  return lines.text();
}

// `head`: lines after the sentence.
void AddVerdict(const Judgement& of, const std::string& head, const std::string& scopes, size_t columns,
                Opening* opening) {
  const verdict::VerdictParts parts = verdict::PartsOf(of.index, of.blame, of.verdict, columns);
  opening->Add(SentenceText(of, columns), kMostSentence);
  const size_t left = kMostSentenceAndTree - std::min(opening->lines(), kMostSentenceAndTree);
  opening->Add(head, 1);
  opening->Add(verdict::StageText(of.index, of.blame, of.verdict, columns), 1);
  opening->Add(verdict::TreeText(of.index, of.blame, of.verdict, columns), left);
  opening->Blank();
  opening->Add(parts.advice, kMostAdvice);
  opening->Add(parts.sure, kMostSure);
  opening->Add(parts.request, kMostRequest);
  opening->Add(parts.remarks, 2);
  opening->Add(parts.quality, 1);
  opening->AddBelow(parts.compared + "\n" + parts.why + "\n" + parts.measure + parts.blame + scopes);
}

std::string FailedText(const AnalysisReport& analysis, size_t columns) {
  base::Lines lines(columns);
  for (const AnalyzerReport& report : analysis.analyzers) {
    if (!report.status.ok()) lines.AddWrapped(0, "analyzer    ", report.name + ": " + report.status.message());
  }
  return lines.text();
}

// The gravest findings of the first part, or of the appendix only.
enum class Which : uint8_t { kFront, kBelow };
std::string GraveText(const AnalysisReport& analysis, Which which, size_t columns, const Judgement* of) {
  const model::Interval time = judge::ExplainedTime(of);
  base::Lines lines(columns);
  size_t said = 0;
  for (const FindingRow* finding : analysis.Ranked()) {
    const bool is_slight =
        finding->severity == Severity::kInfo || (finding->severity == Severity::kLow && time.begin_ns != time.end_ns);
    if (finding->is_undetermined || is_slight || !judge::IsShown(*finding) || !judge::IsAbout(*finding, time) ||
        judge::IsBelow(*finding, of) != (which == Which::kBelow) || said == kMostOpeningFindings)
      continue;
    ++said;
    std::string text = finding->code + ": " + finding->summary;
    for (const Contradiction& other : finding->contradictions) text += "; but " + other.code + ": " + other.why;
    if (judge::IsUsual(*finding)) text += "; " + judge::UsualText(*finding);
    if (finding->IsSilent()) text += "; " + judge::PrecisionText(*finding);
    if (judge::IsExplained(*finding, of)) text += std::string("; ") + judge::kExplained;
    lines.AddWrapped(0, "in window   ", text);
  }
  return lines.text();
}

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
  return FailedText(analysis, columns) + GraveText(analysis, Which::kFront, columns, of);
}

std::string OpeningText(const model::Trace& trace, const HtmlReport& of, const OpeningLines& more, size_t columns) {
  Opening opening(columns);
  std::string head = IncidentLine(trace);
  if (!of.fired.empty()) {  // something other than the verdict's request
    base::Lines fired(columns);
    fired.AddWrapped(0, "", of.fired);
    opening.Add(fired.text() + std::exchange(head, ""), kMostFired);
    opening.Blank();
  }
  if (of.judgement != nullptr && of.is_about_latency)
    AddVerdict(*of.judgement, head, more.scopes, columns, &opening);
  else if (of.judgement != nullptr)
    opening.Add(head + SentenceText(*of.judgement, columns), kMostSentence);
  else
    opening.Add(head + "no verdict: " + of.why_not + "\n", 2);
  opening.Add(of.analysis != nullptr ? GraveText(*of.analysis, Which::kFront, columns, of.judgement) : kNoFindings,
              kMostFindings);
  if (of.analysis != nullptr) opening.AddBelow(GraveText(*of.analysis, Which::kBelow, columns, of.judgement));
  for (size_t i = 0; i < of.others.size() && i < kMostOthers; ++i)
    opening.Add(AlsoFiredText({of.others[i]}, columns), 1);
  for (size_t i = 0; i < of.drifts.size(); ++i)
    opening.Add(DriftText(of.drifts[i], trace.window_end_ns), i < kMostDrifts ? 1 : 0);
  opening.Add((of.analysis != nullptr ? FailedText(*of.analysis, columns) : "") + more.troubles, kMostTroubles);
  return opening.Text();
}

}  // namespace analyze
PITOT_NAMESPACE_END
