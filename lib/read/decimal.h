// SPDX-License-Identifier: Apache-2.0
//
// Parses decimal numbers exactly. A detour through double would lose the last digits of Unix times in microseconds.
#ifndef PITOT_LIB_READ_DECIMAL_H_
#define PITOT_LIB_READ_DECIMAL_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace pitot::read {

// `text` (a JSON number, or one in quotes) times 10^`scale`, rounded to the nearest integer, halves away from 0.
// nullopt if it is not a number or does not fit.
std::optional<int64_t> ParseDecimal(std::string_view text, int scale);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_DECIMAL_H_
