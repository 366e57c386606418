// SPDX-License-Identifier: Apache-2.0
//
// The command line of a sample: options are declared, each with its variable, and then parsed. CLI11 does the work. Its
// header takes seconds to compile, so only command_line.cc includes it.
#ifndef SAMPLES_SERVER_COMMON_COMMAND_LINE_H_
#define SAMPLES_SERVER_COMMON_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace server_common {

// The range of a number.
struct Limits {
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
  bool is_above_least = false;  // `least` itself is refused
};
inline constexpr Limits kAboveZero{.least = 0, .is_above_least = true};
inline constexpr Limits kNotNegative{.least = 0};

// Thrown by the check of Parse: an option's value is refused.
class BadOption : public std::runtime_error {
 public:
  BadOption(const std::string& option, const std::string& why) : std::runtime_error(option + ": " + why) {}
};

// Variables must outlive Parse. Their value at declaration is the default. Threads: one.
class CommandLine {
 public:
  // `about`: the first line of --help.
  explicit CommandLine(const std::string& about);
  ~CommandLine();

  // --help lists the options declared after this under `heading`.
  void Group(const std::string& heading);

  void Add(const std::string& name, std::string* value, const std::string& help);
  // Number: int, int64_t, uint32_t, uint64_t, float or double.
  template <class Number>
  void Add(const std::string& name, Number* value, const std::string& help, const Limits& limits = {});
  // An option in milliseconds, kept in nanoseconds.
  void AddMs(const std::string& name, uint64_t* value_ns, const std::string& help, const Limits& limits);
  // One of `choices`.
  void AddChoice(const std::string& name, std::string* value, const std::vector<std::string>& choices,
                 const std::string& help);
  // May be given several times.
  void AddList(const std::string& name, std::vector<std::string>* values, const std::string& help);
  // Sets `value` to `to`.
  void AddFlag(const std::string& name, bool* value, const std::string& help, bool to = true);
  // The option declared last must be given.
  void Require();

  // Sets the variables, then calls `check`. Exits the process for --help (0), for an option or value that it does not
  // understand, and if `check` throws BadOption (2).
  void Parse(int argc, char** argv, const std::function<void()>& check = {});

 private:
  struct Parser;
  const std::unique_ptr<Parser> parser_;
};

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_COMMAND_LINE_H_
