// SPDX-License-Identifier: Apache-2.0
//
// Decimal numbers as they are written, without the detour through double that would cost microseconds of Unix time
// their last digits.
#ifndef PITOT_LIB_READ_DECIMAL_H_
#define PITOT_LIB_READ_DECIMAL_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace pitot::read {

// `text` (a JSON number, or one in quotes) times 10^`scale`, rounded to the nearest integer, halves away from 0.
// Nothing for what is no number or does not fit.
std::optional<int64_t> ParseDecimal(std::string_view text, int scale);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_DECIMAL_H_
