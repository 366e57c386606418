// SPDX-License-Identifier: Apache-2.0
//
// Depths of recording as one text, for formats without a place for them.
#ifndef PITOT_LIB_MODEL_DEPTH_ROWS_H_
#define PITOT_LIB_MODEL_DEPTH_ROWS_H_

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/depth_name.h"
#include "pitot/model/trace.h"

namespace pitot::model {

// The names that such formats give the texts.
inline constexpr std::string_view kDepthsKey = "pitot_depths", kOperatorDepthsKey = "pitot_operator_depths";
// And the two ends of the window: rows alone do not tell it, since open ones may have begun long before.
inline constexpr std::string_view kWindowBeginKey = "pitot_window_begin_ns", kWindowEndKey = "pitot_window_end_ns";

// "1002000000 1020000000 scopes, 1020000000 1100000000 ops": begin and end in ns, and the depth.
inline std::string DepthsText(const std::vector<DepthRow>& rows) {
  std::string text;
  for (const DepthRow& row : rows)
    text += (text.empty() ? "" : ", ") + std::to_string(row.begin_ns) + " " + std::to_string(row.end_ns) + " " +
            base::DepthName(row.depth);
  return text;
}

// The rows of such a text, until the first that makes no sense.
inline std::vector<DepthRow> DepthsOf(std::string_view text) {
  std::vector<DepthRow> rows;
  while (!text.empty()) {
    constexpr std::string_view kBetween = ", ";
    const size_t size = std::min(text.find(kBetween), text.size());
    const char *at = text.data(), *const end = at + size;
    DepthRow row;
    for (int64_t* ns : {&row.begin_ns, &row.end_ns}) {
      at = std::from_chars(at, end, *ns).ptr;
      if (at == end || *at++ != ' ') return rows;
    }
    const bool is_time = row.begin_ns >= 0 && row.begin_ns <= row.end_ns && row.end_ns <= kMaxTimeNs;
    if (!is_time || !base::ParseDepth(std::string(at, end).c_str(), &row.depth)) return rows;
    rows.push_back(row);
    text.remove_prefix(std::min(size + kBetween.size(), text.size()));
  }
  return rows;
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_DEPTH_ROWS_H_
