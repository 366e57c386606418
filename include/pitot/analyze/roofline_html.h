// SPDX-License-Identifier: Apache-2.0
//
// Renders the roofs of layers or operators as one self-contained HTML file, without network or scripts: the roofline
// (operations per byte against operations per second), each row's shares of both roofs, and a table.
#ifndef PITOT_ANALYZE_ROOFLINE_HTML_H_
#define PITOT_ANALYZE_ROOFLINE_HTML_H_

#include <string>

#include "pitot/analyze/top.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// `table` is FindTop's of this trace, with TopOptions::finds_roofs; its rows appear in their order. `advice` ends the
// page, as lines of text; "": none. All texts are escaped. Draws 100 rows at most. Throws std::bad_alloc.
PITOT_EXPORT std::string RooflineHtml(const model::Trace& trace, const TopTable& table, const std::string& advice);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_ROOFLINE_HTML_H_
