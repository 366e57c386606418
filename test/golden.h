// SPDX-License-Identifier: Apache-2.0
//
// Compares a test's output with a file of test/golden/. PITOT_APPROVE=1 in the environment rewrites the files instead:
// review the difference before committing it. Needs PITOT_GOLDEN_DIR defined by the build.
#ifndef PITOT_TEST_GOLDEN_H_
#define PITOT_TEST_GOLDEN_H_

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

inline void CheckGolden(const std::string& name, const std::string& text) {
  const std::string path = std::string(PITOT_GOLDEN_DIR) + "/" + name;
  const char* const approve = std::getenv("PITOT_APPROVE");
  if (approve != nullptr && std::string(approve) == "1") {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream golden;
  golden << file.rdbuf();
  // The first lines that differ tell more than two whole files.
  std::istringstream expected(golden.str()), actual(text);
  std::string expected_line, actual_line;
  for (int line = 1;; ++line) {
    const bool more_expected = static_cast<bool>(std::getline(expected, expected_line));
    const bool more_actual = static_cast<bool>(std::getline(actual, actual_line));
    INFO(name << " line " << line << " (PITOT_APPROVE=1 rewrites it)");
    REQUIRE(more_expected == more_actual);
    if (!more_expected) break;
    REQUIRE(expected_line == actual_line);
  }
  REQUIRE((golden.str() == text));
}

#endif  // PITOT_TEST_GOLDEN_H_
