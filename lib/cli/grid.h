// SPDX-License-Identifier: Apache-2.0
//
// Tables in the style of torch.profiler: columns with a title of two lines, and numbers of three digits.
#ifndef PITOT_LIB_CLI_GRID_H_
#define PITOT_LIB_CLI_GRID_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/columns.h"

namespace pitot::cli {

inline constexpr int64_t kRowsForPeople = 20, kTopColumns = 120;
inline constexpr size_t kNoWidth = 1 << 20;  // longer than any line

// Three digits.
std::string Short(double number);
// With a unit: "1.23ms"; "-" for TopRow::kUnset.
std::string Time(int64_t ns);
std::string Share(int64_t part, int64_t whole);
// With a prefix: "1.23G".
std::string Prefixed(double number);

// A column: its title, one or two words above each other, and its cells.
struct Column {
  std::string above, title;
  std::vector<std::string> cells;
  bool is_text = false;
  bool is_extra = false;               // shown if names keep their room next to it
  std::vector<std::string> ends = {};  // ends of cells, which are kept when the cell is cut; may be empty
  size_t Width() const;
  std::string Cell(size_t i, size_t width) const;
};

// Lines of at most `most_width` columns. The first column has the names: it and other texts take the width that the
// others leave.
std::string Grid(std::vector<Column> columns, size_t most_width);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_GRID_H_
