// SPDX-License-Identifier: Apache-2.0
#include "read/decimal.h"

#include <algorithm>
#include <charconv>

namespace pitot::read {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr int kMostDigits = 36;  // 10^37 fits

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The digits of a number with the point moved by `exponent`, rounded. nullopt if the result does not fit into 64 bits.
std::optional<uint64_t> Shift(Wide digits, int exponent) {
  if (digits == 0) return 0;
  if (exponent == 0 && digits <= UINT64_MAX) return static_cast<uint64_t>(digits);
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

// Reads a number from its front. Each function removes its part from the text.
class NumberText {
 public:
  explicit NumberText(std::string_view text) : text_(text) {}

  // Numbers may stand in quotes.
  void Unquote() {
    if (text_.size() < 2 || text_.front() != '"') return;
    text_.remove_prefix(1);
    text_ = text_.substr(0, text_.find('"'));
  }
  bool TakeMinus() {
    const bool is_negative = !text_.empty() && text_.front() == '-';
    if (is_negative) text_.remove_prefix(1);
    return is_negative;
  }
  // The first kMostDigits digits; `exponent` then counts the others, less those after the point.
  Wide TakeDigits(int* exponent) {
    Wide digits = 0;
    int count = 0;
    bool has_point = false;
    size_t at = 0;
    for (; at < text_.size() && (IsDigit(text_[at]) || (text_[at] == '.' && !has_point)); ++at) {
      if (text_[at] == '.') {
        has_point = true;
      } else if (count < kMostDigits) {
        digits = digits * 10 + static_cast<Wide>(text_[at] - '0');
        count += digits != 0;
        *exponent -= has_point;
      } else {
        *exponent += !has_point;
      }
    }
    text_.remove_prefix(at);
    return digits;
  }
  // Adds the power of ten after "e". False if it has no digits.
  bool TakePower(int* exponent) {
    if (text_.empty() || (text_.front() != 'e' && text_.front() != 'E')) return true;
    text_.remove_prefix(1);
    const bool is_down = !text_.empty() && text_.front() == '-';
    if (!text_.empty() && (text_.front() == '-' || text_.front() == '+')) text_.remove_prefix(1);
    if (!BeginsWithDigit()) return false;
    int power = 0;
    for (; BeginsWithDigit(); text_.remove_prefix(1)) power = std::min(power * 10 + (text_.front() - '0'), 100000);
    *exponent += is_down ? -power : power;
    return true;
  }
  bool BeginsWithDigit() const { return !text_.empty() && IsDigit(text_.front()); }
  bool IsBlank() const { return text_.find_first_not_of(" \n\t\r") == std::string_view::npos; }

 private:
  std::string_view text_;
};

}  // namespace

std::optional<int64_t> ParseDecimal(std::string_view text, int scale) {
  const char* const end = text.data() + text.size();
  int64_t whole = 0;
  const auto [at, error] = std::from_chars(text.data(), end, whole);
  if (scale == 0 && error == std::errc() && at == end) return whole;
  NumberText number(text);
  number.Unquote();
  const bool is_negative = number.TakeMinus();
  if (!number.BeginsWithDigit()) return std::nullopt;
  int exponent = scale;
  const Wide digits = number.TakeDigits(&exponent);
  if (!number.TakePower(&exponent) || !number.IsBlank()) return std::nullopt;
  const std::optional<uint64_t> size = Shift(digits, exponent);
  if (!size || *size > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return is_negative ? -static_cast<int64_t>(*size) : static_cast<int64_t>(*size);
}

}  // namespace pitot::read
