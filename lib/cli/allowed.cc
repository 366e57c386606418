// SPDX-License-Identifier: Apache-2.0
#include "cli/allowed.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pitot::cli {
namespace {

// An error is a text, as in option parsers; "" means no error.
std::string Refuse(const std::string& given, const std::string& allowed) {
  return (given.empty() ? "nothing" : given) + " was given; allowed: " + allowed;
}

}  // namespace

CLI::Validator WholeNumber(int64_t least, int64_t most) {
  const std::string range = absl::StrCat(least, " to ", most);
  const auto check = [=](const std::string& given) {
    int64_t value = 0;
    const bool is_allowed = absl::SimpleAtoi(given, &value) && value >= least && value <= most;
    return is_allowed ? std::string() : Refuse(given, "a whole number, " + range);
  };
  return CLI::Validator(check, range);
}

CLI::Validator Number(double least, double most) {
  const std::string range = most == kNoMost ? absl::StrCat(least, " or more") : absl::StrCat(least, " to ", most);
  const auto check = [=](const std::string& given) {
    double value = 0;
    // A text that is not a number ("nan") is in no range.
    const bool is_allowed = absl::SimpleAtod(given, &value) && value >= least && value <= most;
    return is_allowed ? std::string() : Refuse(given, "a number, " + range);
  };
  return CLI::Validator(check, range);
}

CLI::Validator OneOf(const std::vector<std::string>& names) {
  const auto check = [=](const std::string& given) {
    const bool is_allowed = std::find(names.begin(), names.end(), given) != names.end();
    return is_allowed ? std::string() : Refuse(given, "one of " + absl::StrJoin(names, ", "));
  };
  return CLI::Validator(check, "{" + absl::StrJoin(names, ",") + "}");
}

}  // namespace pitot::cli
