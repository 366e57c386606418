// SPDX-License-Identifier: Apache-2.0
#ifndef PITOT_TEST_ANALYZE_UNWRAPPED_H_
#define PITOT_TEST_ANALYZE_UNWRAPPED_H_

#include <string>

namespace pitot::test {

// The text without breaks and indents of lines.
inline std::string Unwrapped(const std::string& text) {
  std::string words;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\n';
    if (!is_space || (!words.empty() && words.back() != ' ')) words += is_space ? ' ' : c;
  }
  return words;
}

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_UNWRAPPED_H_
