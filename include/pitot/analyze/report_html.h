// SPDX-License-Identifier: Apache-2.0
//
// An incident as one HTML file that needs nothing else, no network and no script: the verdict, a picture of the
// request's time, its blame beside what is usual, and what analyzers found. For phones, screens and paper.
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

// What is known. Pointers may be null: then the page is without that.
struct HtmlReport {
  const Judgement* judgement = nullptr;
  std::string why_not;              // there is no judgement
  std::vector<std::string> others;  // OthersThatFired
  std::vector<Drift> drifts;
  const AnalysisReport* analysis = nullptr;
};

// All texts of the trace are escaped. At most about 1,000 shapes, whatever the trace holds. Throws std::bad_alloc.
PITOT_EXPORT std::string ReportHtml(const model::Trace& trace, const HtmlReport& report);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_REPORT_HTML_H_
