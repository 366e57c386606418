// SPDX-License-Identifier: Apache-2.0
//
// Whether a text is a JSON list that may be written as it is.
#ifndef PITOT_LIB_SERIALIZE_JSON_LIST_H_
#define PITOT_LIB_SERIALIZE_JSON_LIST_H_

#include <string_view>

namespace pitot::serialize {

// A list of numbers, texts, true, false, null and lists like it, nested 64 deep at most. `text` has no control
// characters.
bool IsJsonList(std::string_view text);

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_JSON_LIST_H_
