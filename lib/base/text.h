// SPDX-License-Identifier: Apache-2.0
//
// Makes text from a host or a file fit for display: every name of a trace passes through here once.
#ifndef PITOT_LIB_BASE_TEXT_H_
#define PITOT_LIB_BASE_TEXT_H_

#include <string>
#include <string_view>

namespace pitot::base {

// True for valid UTF-8 without control characters (U+0000 to U+001F, U+007F to U+009F).
bool IsSaneText(std::string_view text);

// Returns `text` with each control character and each byte that is not part of valid UTF-8 replaced by U+FFFD.
std::string SanitizeText(std::string_view text);

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_TEXT_H_
