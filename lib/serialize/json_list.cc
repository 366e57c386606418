// SPDX-License-Identifier: Apache-2.0
#include "serialize/json_list.h"

#include <string.h>

#include <algorithm>

namespace pitot::serialize {
namespace {

class ListReader {
 public:
  explicit ListReader(std::string_view text) : rest_(text) {}
  bool IsList() { return Take('[') && Rest(0) && rest_.empty(); }

 private:
  static constexpr int kDeepest = 64;

  // Takes the character, and spaces around it, if it comes next.
  bool Take(char c) {
    SkipSpaces();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    SkipSpaces();
    return true;
  }
  void SkipSpaces() {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
  }

  // A list after its bracket.
  bool Rest(int depth) {
    if (Take(']')) return true;
    do {
      if (!Value(depth)) return false;
    } while (Take(','));
    return Take(']');
  }
  bool Value(int depth) {
    if (Take('[')) return depth < kDeepest && Rest(depth + 1);
    if (!rest_.empty() && rest_[0] == '"') return Text();
    for (const std::string_view word : {"true", "false", "null"}) {
      if (rest_.substr(0, word.size()) == word) return rest_.remove_prefix(word.size()), true;
    }
    return Number();
  }
  bool Text() {
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == '"') return rest_.remove_prefix(i + 1), true;
      if (rest_[i] != '\\') continue;
      if (++i == rest_.size() || strchr("\"\\/bfnrtu", rest_[i]) == nullptr) return false;
      if (rest_[i] != 'u') continue;
      const std::string_view digits = rest_.substr(i + 1, 4);
      if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
        return false;
    }
    return false;
  }
  bool Number() {
    if (Next('-')) rest_.remove_prefix(1);
    const bool is_zero = Next('0');
    const size_t whole = Digits();
    if (whole == 0 || (is_zero && whole > 1)) return false;
    if (Next('.')) {
      rest_.remove_prefix(1);
      if (Digits() == 0) return false;
    }
    if (!Next('e') && !Next('E')) return true;
    rest_.remove_prefix(1);
    if (Next('-') || Next('+')) rest_.remove_prefix(1);
    return Digits() != 0;
  }
  bool Next(char c) const { return !rest_.empty() && rest_[0] == c; }
  // Takes digits; how many.
  size_t Digits() {
    const size_t count = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    rest_.remove_prefix(count);
    return count;
  }

  std::string_view rest_;
};

}  // namespace

bool IsJsonList(std::string_view text) { return ListReader(text).IsList(); }

}  // namespace pitot::serialize
