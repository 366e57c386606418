// SPDX-License-Identifier: Apache-2.0
//
// Allowed values of options, for CLI::Option::check. Help shows them, and an error message has both the value and the
// allowed ones: "--limit: -1 was given; allowed is a whole number, 0 to 1000000000".
#ifndef PITOT_LIB_CLI_ALLOWED_H_
#define PITOT_LIB_CLI_ALLOWED_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace pitot::cli {

inline constexpr double kNoMost = std::numeric_limits<double>::max();

// From `least` to `most`, both included.
CLI::Validator WholeNumber(int64_t least, int64_t most);
// The same; kNoMost: no upper limit.
CLI::Validator Number(double least, double most);
CLI::Validator OneOf(const std::vector<std::string>& names);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_ALLOWED_H_
