// SPDX-License-Identifier: Apache-2.0
//
// Common parts of pages for a browser.
#ifndef PITOT_LIB_ANALYZE_FACTS_HTML_H_
#define PITOT_LIB_ANALYZE_FACTS_HTML_H_

#include <string>
#include <string_view>

#include "pitot/export.h"

namespace pitot::facts {

// Escapes text for an element or a quoted attribute. It also replaces characters that turn the direction of the text: a
// name must not change the meaning of the sentence around it.
std::string Escape(std::string_view raw);

// Colours for light and dark, and the styles of text, numbers and cards.
extern const char kHtmlStyle[];

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_HTML_H_
