// SPDX-License-Identifier: Apache-2.0
#include "read/decimal.h"

#include <algorithm>

namespace pitot::read {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr int kMostDigits = 36;  // 10^37 fits

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The digits of a number with the point moved by `exponent`, rounded. nullopt if the result does not fit into 64 bits.
std::optional<uint64_t> Shift(Wide digits, int exponent) {
  if (digits == 0) return 0;
  for (; exponent > 0; --exponent) {
    if (digits > UINT64_MAX) return std::nullopt;
    digits *= 10;
  }
  if (exponent < -kMostDigits - 1) return 0;
  Wide divisor = 1;
  for (; exponent < 0; ++exponent) divisor *= 10;
  const Wide rest = digits % divisor;
  digits = digits / divisor + (rest >= divisor - rest ? 1 : 0);
  if (digits > UINT64_MAX) return std::nullopt;
  return static_cast<uint64_t>(digits);
}

}  // namespace

std::optional<int64_t> ParseDecimal(std::string_view text, int scale) {
  if (text.size() >= 2 && text.front() == '"') {
    text.remove_prefix(1);
    text = text.substr(0, text.find('"'));
  }
  const bool is_negative = !text.empty() && text.front() == '-';
  if (is_negative) text.remove_prefix(1);
  if (text.empty() || !IsDigit(text.front())) return std::nullopt;

  Wide digits = 0;
  int count = 0, exponent = scale;
  bool has_point = false;
  size_t at = 0;
  for (; at < text.size() && (IsDigit(text[at]) || (text[at] == '.' && !has_point)); ++at) {
    if (text[at] == '.') {
      has_point = true;
    } else if (count < kMostDigits) {
      digits = digits * 10 + static_cast<Wide>(text[at] - '0');
      count += digits != 0;
      exponent -= has_point;
    } else {
      exponent += !has_point;
    }
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    const bool is_down = at < text.size() && text[at] == '-';
    at += at < text.size() && (text[at] == '-' || text[at] == '+');
    if (at == text.size() || !IsDigit(text[at])) return std::nullopt;
    int power = 0;
    for (; at < text.size() && IsDigit(text[at]); ++at) power = std::min(power * 10 + (text[at] - '0'), 100000);
    exponent += is_down ? -power : power;
  }
  for (; at < text.size(); ++at) {
    if (text[at] != ' ' && text[at] != '\n' && text[at] != '\t' && text[at] != '\r') return std::nullopt;
  }

  const std::optional<uint64_t> size = Shift(digits, exponent);
  if (!size || *size > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return is_negative ? -static_cast<int64_t>(*size) : static_cast<int64_t>(*size);
}

}  // namespace pitot::read
