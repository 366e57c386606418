// SPDX-License-Identifier: Apache-2.0
#include "server_common/command_line.h"

#include <cstdio>
#include <cstdlib>

#include <CLI/CLI.hpp>

namespace server_common {
namespace {

// Without zeros at its end.
std::string Text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", number);
  return text;
}

// As in "0 is not above 0".
std::string Text(const Limits& limits) {
  if (limits.is_above_least) return "above " + Text(limits.least);
  if (limits.most == Limits{}.most) return "at least " + Text(limits.least);
  return Text(limits.least) + " to " + Text(limits.most);
}

CLI::Validator In(const Limits& limits) {
  return CLI::Validator(
      [limits](const std::string& text) {
        double value = 0;
        const bool is_in = CLI::detail::lexical_cast(text, value) && value >= limits.least && value <= limits.most &&
                           (!limits.is_above_least || value > limits.least);
        return is_in ? std::string() : text + " is not " + Text(limits);
      },
      Text(limits));
}

}  // namespace

struct CommandLine::Parser {
  CLI::Option* Limited(CLI::Option* option, const Limits& limits) {
    if (limits.least != Limits{}.least || limits.most != Limits{}.most) option->check(In(limits));
    return Grouped(option);
  }
  CLI::Option* Grouped(CLI::Option* option) {
    last = option;
    return group.empty() ? option : option->group(group);
  }

  CLI::App app;
  std::string group{};
  CLI::Option* last = nullptr;
};

CommandLine::CommandLine(const std::string& about) : parser_(new Parser{CLI::App(about)}) {
  parser_->app.get_formatter()->column_width(34);
  parser_->app.option_defaults()->always_capture_default();
}

CommandLine::~CommandLine() = default;

void CommandLine::Group(const std::string& heading) { parser_->group = heading; }

void CommandLine::Add(const std::string& name, std::string* value, const std::string& help) {
  parser_->Grouped(parser_->app.add_option(name, *value, help));
}

template <class Number>
void CommandLine::Add(const std::string& name, Number* value, const std::string& help, const Limits& limits) {
  parser_->Limited(parser_->app.add_option(name, *value, help), limits);
}
template void CommandLine::Add(const std::string&, int*, const std::string&, const Limits&);
template void CommandLine::Add(const std::string&, int64_t*, const std::string&, const Limits&);
template void CommandLine::Add(const std::string&, uint32_t*, const std::string&, const Limits&);
template void CommandLine::Add(const std::string&, uint64_t*, const std::string&, const Limits&);
template void CommandLine::Add(const std::string&, float*, const std::string&, const Limits&);
template void CommandLine::Add(const std::string&, double*, const std::string&, const Limits&);

void CommandLine::AddMs(const std::string& name, uint64_t* value_ns, const std::string& help, const Limits& limits) {
  CLI::Option* const option = parser_->app.add_option_function<double>(
      name, [value_ns](double ms) { *value_ns = static_cast<uint64_t>(ms * 1e6); }, help);
  option->default_str(Text(static_cast<double>(*value_ns) * 1e-6));
  parser_->Limited(option, limits);
}

void CommandLine::AddChoice(const std::string& name, std::string* value, const std::vector<std::string>& choices,
                            const std::string& help) {
  parser_->Grouped(parser_->app.add_option(name, *value, help)->check(CLI::IsMember(choices)));
}

void CommandLine::AddList(const std::string& name, std::vector<std::string>* values, const std::string& help) {
  parser_->Grouped(parser_->app.add_option(name, *values, help)->take_all()->delimiter('\0')->default_str(""));
}

void CommandLine::AddFlag(const std::string& name, bool* value, const std::string& help, bool to) {
  parser_->Grouped(parser_->app.add_flag(to ? name : "!" + name, *value, help));
}

void CommandLine::Require() { parser_->last->required(); }

void CommandLine::Parse(int argc, char** argv, const std::function<void()>& check) try {
  parser_->app.parse(argc, argv);
  if (check) check();
} catch (const CLI::ParseError& error) {
  std::exit(parser_->app.exit(error) == 0 ? 0 : 2);
} catch (const BadOption& error) {
  std::fprintf(stderr, "%s\nRun with --help for more information.\n", error.what());
  std::exit(2);
}

}  // namespace server_common
