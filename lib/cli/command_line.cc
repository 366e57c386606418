// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/files.h"
#include "pitot/version.h"

namespace pitot::cli {
namespace {

std::string Refuse(const std::string& given, const std::string& allowed) {
  return (given.empty() ? "nothing" : given) + " was given; allowed: " + allowed;
}

// If an option's value is missing, the message of CLI11 has the name of a C++ type.
std::string WhatIsWrong(const CLI::ParseError& error) {
  const std::string said = error.what();
  const bool is_without = error.get_name() == "ArgumentMismatch" && said.find(" missing") != std::string::npos;
  return is_without ? said.substr(0, said.find(':')) + ": the value is missing" : said;
}

CLI::Validator WholeNumber(const std::string& range, const std::function<bool(int64_t)>& is_in) {
  const auto check = [=](const std::string& given) {
    int64_t value = 0;
    return absl::SimpleAtoi(given, &value) && is_in(value) ? std::string() : Refuse(given, "a whole number, " + range);
  };
  return CLI::Validator(check, range);
}

}  // namespace

Option Option::Required() const {
  option_->required();
  return *this;
}

Option Option::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

Option Option::HideFromHelp() const {
  option_->group("");
  return *this;
}

Option Option::Whole(int64_t least, int64_t most) const {
  const std::string range = absl::StrCat(least, " to ", most);
  option_->check(WholeNumber(range, [=](int64_t value) { return value >= least && value <= most; }));
  return *this;
}

Option Option::ZeroOr(int64_t least, int64_t most) const {
  const std::string range = absl::StrCat("0, or ", least, " to ", most);
  option_->check(WholeNumber(range, [=](int64_t value) { return value == 0 || (value >= least && value <= most); }));
  return *this;
}

Option Option::Number(double least, double most) const {
  const std::string range = most == kNoMost ? absl::StrCat(least, " or more") : absl::StrCat(least, " to ", most);
  const auto check = [=](const std::string& given) {
    double value = 0;
    // "nan" is not in any range.
    const bool is_allowed = absl::SimpleAtod(given, &value) && value >= least && value <= most;
    return is_allowed ? std::string() : Refuse(given, "a number, " + range);
  };
  option_->check(CLI::Validator(check, range));
  return *this;
}

Option Option::OneOf(std::vector<std::string> names) const {
  const std::string shown = "{" + absl::StrJoin(names, ",") + "}";
  const auto check = [names = std::move(names)](const std::string& given) {
    const bool is_allowed = std::find(names.begin(), names.end(), given) != names.end();
    return is_allowed ? std::string() : Refuse(given, "one of " + absl::StrJoin(names, ", "));
  };
  option_->check(CLI::Validator(check, shown));
  return *this;
}

Option Option::Check(std::string (*wrong)(const std::string& text)) const {
  option_->check(wrong);
  return *this;
}

Option Option::OneEachTime() const {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::Transform(std::string (*transform)(const std::string& text)) const {
  option_->transform(transform);
  return *this;
}

Option Option::Needs(const Option& other) const {
  option_->needs(other.option_);
  return *this;
}

Option Option::Excludes(const Option& other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Command::Add(const std::string& name, std::string* value, const std::string& help) const {
  return Option(app_->add_option(name, *value, help));
}
Option Command::Add(const std::string& name, std::optional<std::string>* value, const std::string& help) const {
  return Option(app_->add_option(name, *value, help));
}
Option Command::Add(const std::string& name, std::vector<std::string>* value, const std::string& help) const {
  return Option(app_->add_option(name, *value, help));
}
void Command::TakeRest(std::vector<std::string>* rest) const { *rest_ = {app_, rest}; }
Option Command::Add(const std::string& name, uint32_t* value, const std::string& help) const {
  return Option(app_->add_option(name, *value, help));
}
Option Command::Add(const std::string& name, size_t* value, const std::string& help) const {
  return Option(app_->add_option(name, *value, help));
}
Option Command::Add(const std::string& name, int64_t* value, const std::string& help) const {
  return Option(app_->add_option(name, *value, help));
}
Option Command::Add(const std::string& name, std::optional<int64_t>* value, const std::string& help) const {
  return Option(app_->add_option(name, *value, help));
}
Option Command::Add(const std::string& name, double* value, const std::string& help) const {
  return Option(app_->add_option(name, *value, help));
}
Option Command::Add(const std::string& name, std::optional<double>* value, const std::string& help) const {
  return Option(app_->add_option(name, *value, help));
}
Option Command::AddFlag(const std::string& name, bool* value, const std::string& help) const {
  return Option(app_->add_flag(name, *value, help));
}

void Command::Footer(const std::string& text) const { app_->footer(text); }

void Command::Run(std::function<int()> run) const {
  app_->callback([run = std::move(run), exit_code = exit_code_] { *exit_code = run(); });
}

CommandLine::CommandLine(const std::string& description, const std::string& footer)
    : app_(std::make_unique<CLI::App>(description, "pitot")) {
  app_->set_version_flag("--version", "pitot " PITOT_VERSION_STRING);
  app_->require_subcommand(1);
  app_->footer(footer);
}

CommandLine::~CommandLine() = default;

Command CommandLine::Command(const std::string& name, const std::string& description) {
  return cli::Command(app_->add_subcommand(name, description), &exit_code_, &rest_);
}

int CommandLine::Run(int argc, char** argv) {
  try {
    if (argc == 2 && std::string_view(argv[1]) == "help") return Print(app_->help()), kDone;
    // Not for CLI11, which would take "[a,b]" apart.
    const int before = rest_.to != nullptr && argc > 1 && rest_.of->get_name() == argv[1]
                           ? static_cast<int>(std::find(argv + 1, argv + argc, std::string_view("--")) - argv)
                           : argc;
    if (before < argc) rest_.to->assign(argv + before + 1, argv + argc);
    app_->parse(before, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_unknown = argc > 1 && argv[1][0] != '-' &&
                            app_->get_subcommands([&](CLI::App* a) { return a->get_name() == argv[1]; }).empty();
    if (error.get_exit_code() == 0 && !is_unknown) return app_->exit(error);  // --help, --version
    const std::string what = is_unknown ? "there is no command " + std::string(argv[1]) : WhatIsWrong(error);
    Complain(what + ". See `pitot --help`, or `pitot COMMAND --help`.");
    return kUsage;
  }
  return exit_code_;
}

}  // namespace pitot::cli
