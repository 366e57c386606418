// SPDX-License-Identifier: Apache-2.0
#include "model/depth_rows.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

#include "base/depth_name.h"

namespace pitot::model {
namespace {

constexpr std::string_view kBetweenRows = ", ";

}  // namespace

std::string DepthsText(const std::vector<DepthRow>& rows) {
  std::string text;
  for (const DepthRow& row : rows)
    text.append(text.empty() ? "" : kBetweenRows)
        .append(std::to_string(row.begin_ns) + " " + std::to_string(row.end_ns) + " " + base::DepthName(row.depth));
  return text;
}

std::vector<DepthRow> DepthsOf(std::string_view text) {
  std::vector<DepthRow> rows;
  while (!text.empty()) {
    const size_t size = std::min(text.find(kBetweenRows), text.size());
    const char *at = text.data(), *const end = at + size;
    DepthRow row;
    for (int64_t* ns : {&row.begin_ns, &row.end_ns}) {
      const auto [after, error] = std::from_chars(at, end, *ns);
      if (error != std::errc() || after == end || *after != ' ') return rows;
      at = after + 1;
    }
    const bool is_time = row.begin_ns >= 0 && row.begin_ns <= row.end_ns && row.end_ns <= kMaxTimeNs;
    if (!is_time || !base::ParseDepth(std::string(at, end).c_str(), &row.depth)) return rows;
    rows.push_back(row);
    text.remove_prefix(std::min(size + kBetweenRows.size(), text.size()));
  }
  return rows;
}

}  // namespace pitot::model
