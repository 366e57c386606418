// SPDX-License-Identifier: Apache-2.0
//
// The page of `pitot view`. The build makes it of page.html, style.css and the scripts.
#ifndef PITOT_LIB_CLI_VIEW_PAGE_H_
#define PITOT_LIB_CLI_VIEW_PAGE_H_

#include <string>
#include <string_view>

namespace pitot::cli::view {

// One self-contained HTML file: no network, and no script but its own, by the hash in its policy. `title` is escaped;
// `data` (ViewData) is deflated and encoded. Throws std::bad_alloc.
std::string ViewPage(std::string_view title, std::string_view data);

}  // namespace pitot::cli::view

#endif  // PITOT_LIB_CLI_VIEW_PAGE_H_
