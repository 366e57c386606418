// SPDX-License-Identifier: Apache-2.0
#include "cli/grid.h"

#include <iterator>
#include <utility>

#include "base/message.h"
#include "model/kernel_name.h"
#include "pitot/analyze/top.h"

namespace pitot::cli {
namespace {

constexpr size_t kMinNameWidth = 16, kRoomyNameWidth = 24, kMaxShapeWidth = 30;

// The last of the extra columns are left out first.
void LeaveOut(std::vector<Column>* columns, size_t most_width) {
  const auto is_extra = [](const Column& column) { return column.is_extra; };
  for (;;) {
    size_t width = 0;
    for (const Column& column : *columns) width += column.is_text ? 0 : column.Width() + 1;
    // A second text takes a part of the names' room.
    for (size_t i = 1; i < columns->size(); ++i)
      width += (*columns)[i].is_text ? std::min(kRoomyNameWidth, (*columns)[i].Width()) + 1 : 0;
    const auto last = std::find_if(columns->rbegin(), columns->rend(), is_extra);
    if (width + std::min(kRoomyNameWidth, columns->front().Width()) <= most_width || last == columns->rend()) return;
    columns->erase(std::next(last).base());
  }
}

}  // namespace

std::string Short(double number) { return base::Format("%.*f", number < 9.995 ? 2 : number < 99.95 ? 1 : 0, number); }

std::string Time(int64_t ns) {
  if (ns == analyze::TopRow::kUnset) return "-";
  if (ns == 0) return "0us";
  const double us = static_cast<double>(ns) * 1e-3;
  const double scale = us < 999.5 ? 1 : us < 999500 ? 1e3 : 1e6;
  const char* const unit = us < 999.5 ? "us" : us < 999500 ? "ms" : "s";
  return Short(us / scale) + unit;
}
std::string Share(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  if (part == 0) return "0%";
  return Short(100.0 * static_cast<double>(part) / static_cast<double>(whole)) + "%";
}

std::string Prefixed(double number) {
  double value = number;
  const char* prefix = "";
  for (const char* const larger : {"K", "M", "G", "T", "P", "E"}) {
    if (value < 999.5) break;
    value *= 1e-3;
    prefix = larger;
  }
  return Short(value) + prefix;
}

size_t Column::Width() const {
  size_t width = std::max(base::Width(above), base::Width(title));
  for (size_t i = 0; i < cells.size(); ++i)
    width = std::max(width, base::Width(cells[i]) + (ends.empty() ? 0 : base::Width(ends[i])));
  return width;
}

std::string Column::Cell(size_t i, size_t width) const {
  if (ends.empty() || ends[i].empty()) return model::ShortName(cells[i], width);
  const size_t least = std::min(base::Width(cells[i]), width / 3);
  const std::string end = model::ShortName(ends[i], width - least);
  return model::ShortName(cells[i], width - base::Width(end)) + end;
}

std::string Grid(std::vector<Column> columns, size_t most_width) {
  LeaveOut(&columns, most_width);
  size_t numbers = 0, texts = 0;
  for (const Column& column : columns) (column.is_text ? texts : numbers) += column.is_text ? 1 : column.Width() + 1;
  size_t left = std::max(kMinNameWidth, most_width - std::min(most_width, numbers));
  std::vector<size_t> widths;
  for (const Column& column : columns) widths.push_back(column.Width());
  if (texts == 2) {
    if (most_width != kNoWidth) widths[1] = std::min({widths[1], kMaxShapeWidth, std::max(kMinNameWidth, left / 2)});
    left = std::max(kMinNameWidth, left - std::min(left, widths[1] + 1));
  }
  widths[0] = std::min(widths[0], left);

  std::string text;
  const auto line = [&](const auto& cell) {
    std::string row;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string shown = cell(columns[i], widths[i]);
      if (i != 0) row += ' ';
      row += columns[i].is_text ? base::PadRight(shown, widths[i]) : base::PadLeft(shown, widths[i]);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + '\n';
  };
  line([](const Column& column, size_t) { return column.above; });
  line([](const Column& column, size_t) { return column.title; });
  size_t width = columns.size() - 1;
  for (const size_t column : widths) width += column;
  text += std::string(width, '-') + '\n';
  for (size_t i = 0; i < columns[0].cells.size(); ++i)
    line([&](const Column& column, size_t column_width) { return column.Cell(i, column_width); });
  return text += std::string(width, '-') + '\n';
}

}  // namespace pitot::cli
