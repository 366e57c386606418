// SPDX-License-Identifier: Apache-2.0
//
// The command line of `pitot`: commands, their arguments and options. It stands on CLI11, whose headers take seconds to
// compile; command_line.cc alone includes them.
#ifndef PITOT_LIB_CLI_COMMAND_LINE_H_
#define PITOT_LIB_CLI_COMMAND_LINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace pitot::cli {

inline constexpr double kNoMost = std::numeric_limits<double>::max();

// An argument or option of a command. Copies refer to the same one.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option Required() const;
  // Shows the variable's present value in the help, as the default.
  Option ShowDefault() const;
  Option HideFromHelp() const;

  // Allowed values: the help shows them, and a refusal names them: "--limit: -1 was given; allowed: a whole number, 0
  // to 1000000000".
  Option Whole(int64_t least, int64_t most) const;
  Option ZeroOr(int64_t least, int64_t most) const;  // a whole number, too
  Option Number(double least, double most = kNoMost) const;
  Option OneOf(std::vector<std::string> names) const;
  // `wrong` returns what is wrong with a text, or "".
  Option Check(std::string (*wrong)(const std::string& text)) const;
  // An option of several values takes one each time it is given, and leaves the next word to others.
  Option OneEachTime() const;
  // Applied to the text before it is checked.
  Option Transform(std::string (*transform)(const std::string& text)) const;

  Option Needs(const Option& other) const;
  Option Excludes(const Option& other) const;

 private:
  CLI::Option* option_;
};

// A command. Copies refer to the same one.
class Command {
 public:
  // `rest`: who takes what is after "--".
  struct Rest {
    const CLI::App* of = nullptr;
    std::vector<std::string>* to = nullptr;
  };
  Command(CLI::App* app, int* exit_code, Rest* rest) : app_(app), exit_code_(exit_code), rest_(rest) {}
  // Adds an argument ("dump") or option ("--limit", "-o,--output"). The variable must outlive the command line.
  Option Add(const std::string& name, std::string* value, const std::string& help = "") const;
  Option Add(const std::string& name, std::optional<std::string>* value, const std::string& help) const;
  Option Add(const std::string& name, std::vector<std::string>* value, const std::string& help) const;
  Option Add(const std::string& name, uint32_t* value, const std::string& help) const;
  Option Add(const std::string& name, size_t* value, const std::string& help) const;
  Option Add(const std::string& name, int64_t* value, const std::string& help) const;
  Option Add(const std::string& name, std::optional<int64_t>* value, const std::string& help) const;
  Option Add(const std::string& name, double* value, const std::string& help = "") const;
  Option Add(const std::string& name, std::optional<double>* value, const std::string& help) const;
  Option AddFlag(const std::string& name, bool* value, const std::string& help) const;
  void Footer(const std::string& text) const;
  // Takes everything after the first "--", as it is.
  void TakeRest(std::vector<std::string>* rest) const;
  // Called if the command line has this command; returns the exit code.
  void Run(std::function<int()> run) const;

 private:
  CLI::App* app_;
  int* exit_code_;
  Rest* rest_;
};

class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& footer);
  ~CommandLine();
  cli::Command Command(const std::string& name, const std::string& description);
  // Runs the command. Complains about a wrong command line. Returns the exit code.
  int Run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  int exit_code_ = 0;
  cli::Command::Rest rest_;
};

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_COMMAND_LINE_H_
