// SPDX-License-Identifier: Apache-2.0
//
// The page of `pitot view`. The build makes it of page.html, style.css and the scripts.
#ifndef PITOT_LIB_CLI_VIEW_PAGE_H_
#define PITOT_LIB_CLI_VIEW_PAGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "pitot/extend/serializer.h"

namespace pitot::cli::view {

// Writes one self-contained HTML file: no network, and no script but its own, by the hash in its policy. `title` is
// escaped; `data` (ViewData) is deflated and encoded. Whether the sink took all. Throws std::bad_alloc.
bool WritePage(std::string_view title, const std::vector<std::string>& data, ByteSink* sink);

}  // namespace pitot::cli::view

#endif  // PITOT_LIB_CLI_VIEW_PAGE_H_
