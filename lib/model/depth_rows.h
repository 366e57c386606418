// SPDX-License-Identifier: Apache-2.0
//
// Depths of recording as one text, for formats without a place for them.
#ifndef PITOT_LIB_MODEL_DEPTH_ROWS_H_
#define PITOT_LIB_MODEL_DEPTH_ROWS_H_

#include <string>
#include <string_view>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::model {

// The names that such formats give the texts.
inline constexpr std::string_view kDepthsKey = "pitot_depths", kOperatorDepthsKey = "pitot_operator_depths";
// And the two ends of the window: rows alone do not tell it, since open ones may have begun long before.
inline constexpr std::string_view kWindowBeginKey = "pitot_window_begin_ns", kWindowEndKey = "pitot_window_end_ns";

// "1002000000 1020000000 scopes, 1020000000 1100000000 ops": begin and end in ns, and the depth.
std::string DepthsText(const std::vector<DepthRow>& rows);

// The rows of such a text, until the first that makes no sense.
std::vector<DepthRow> DepthsOf(std::string_view text);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_DEPTH_ROWS_H_
