// SPDX-License-Identifier: Apache-2.0
//
// Compares a test's output with a file of test/golden/, or with the generated part of another file. PITOT_APPROVE=1 in
// the environment rewrites the files instead: review the difference before committing it. Needs PITOT_GOLDEN_DIR
// defined by the build.
#ifndef PITOT_TEST_GOLDEN_H_
#define PITOT_TEST_GOLDEN_H_

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

inline std::string GoldenText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

inline void CheckFile(const std::string& path, const std::string& text) {
  const std::string golden = GoldenText(path);
  const char* const approve = std::getenv("PITOT_APPROVE");
  if (approve != nullptr && std::string(approve) == "1") {
    if (golden != text) std::ofstream(path, std::ios::binary) << text;
    return;
  }
  // The first differing lines tell more than two whole files.
  std::istringstream expected(golden), actual(text);
  std::string expected_line, actual_line;
  for (int line = 1;; ++line) {
    const bool more_expected = static_cast<bool>(std::getline(expected, expected_line));
    const bool more_actual = static_cast<bool>(std::getline(actual, actual_line));
    INFO(path << " line " << line << " (PITOT_APPROVE=1 rewrites it)");
    REQUIRE(more_expected == more_actual);
    if (!more_expected) break;
    REQUIRE(expected_line == actual_line);
  }
  REQUIRE((golden == text));
}

inline void CheckGolden(const std::string& name, const std::string& text) {
  CheckFile(std::string(PITOT_GOLDEN_DIR) + "/" + name, text);
}

// Compares the generated part of a file: from line `begin` to line `end`, or to its end.
inline void CheckPart(const std::string& path, const std::string& begin, const std::string& end,
                      const std::string& text) {
  const std::string file = GoldenText(path);
  const size_t found = file.find(begin + "\n");
  INFO(path);
  REQUIRE(found != std::string::npos);
  const size_t first = found + begin.size() + 1, last = end.empty() ? file.size() : file.find(end, first);
  REQUIRE(last != std::string::npos);
  CheckFile(path, file.substr(0, first) + text + file.substr(last));
}

#endif  // PITOT_TEST_GOLDEN_H_
