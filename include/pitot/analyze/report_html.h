// SPDX-License-Identifier: Apache-2.0
//
// Renders an incident as one self-contained HTML file, without network or scripts. It shows the verdict, the tree of
// blame as bars, a picture of the request's time with its batch and the culprits, and the analyzers' findings. For
// phones, screens and paper.
#ifndef PITOT_ANALYZE_REPORT_HTML_H_
#define PITOT_ANALYZE_REPORT_HTML_H_

#include <string>
#include <vector>

#include "pitot/analyze/analyze.h"
#include "pitot/analyze/drift.h"
#include "pitot/analyze/judge.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// The page's content. If a pointer is null the page is without that section.
struct HtmlReport {
  const Judgement* judgement = nullptr;
  std::string why_not;              // reason, if there is no judgement
  std::string fired;                // FiredSentence: opens the page in place of the verdict
  bool is_about_latency = true;     // IsAboutLatency; otherwise the verdict's causes are left out
  std::vector<std::string> others;  // OthersThatFired
  std::vector<Drift> drifts;
  const AnalysisReport* analysis = nullptr;
};

// All texts of the trace are escaped. Draws about 4,000 shapes at most, for any trace. Throws std::bad_alloc.
PITOT_EXPORT std::string ReportHtml(const model::Trace& trace, const HtmlReport& report);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_REPORT_HTML_H_
