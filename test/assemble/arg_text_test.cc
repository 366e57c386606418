// SPDX-License-Identifier: Apache-2.0
//
// The names of arguments, taken from the text given to a macro.
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "assemble/sites.h"
#include "fakes/recording.h"
#include "fakes/trace_text.h"
#include "pitot/trace.h"

namespace {

using fakes::Events;

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  for (const std::string_view part : pitot::assemble::SplitArgText(text)) parts.emplace_back(part);
  return parts;
}
using Parts = std::vector<std::string>;

template <class A, class B> int Sum(A a, B b) { return static_cast<int>(a) + static_cast<int>(b); }

// The argument names of the only event.
Parts NamesOfOnlyEvent(const fakes::Recording& recording) {
  Parts names;
  const auto events = Events(recording.Trace());
  REQUIRE(events.size() == 1);
  for (const auto& [name, value] : events[0].args) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("arguments are split at their top-level commas, without the event's name", "[args]") {
  CHECK(Split("\"name\"") == Parts{});
  CHECK(Split("\"name\", a") == Parts{"a"});
  CHECK(Split("\"name\",a,b ,  c") == Parts{"a", "b", "c"});
  CHECK(Split("\"name\", f(a, b), g[i, j], T{1, 2}") == Parts{"f(a, b)", "g[i, j]", "T{1, 2}"});
  CHECK(Split("\"name\", [=](int x, int y) { return x, y; }(1, 2), z") ==
        Parts{"[=](int x, int y) { return x, y; }(1, 2)", "z"});
}

TEST_CASE("commas, quotes and brackets inside literals do not split arguments", "[args]") {
  CHECK(Split("\"a, b\", c") == Parts{"c"});
  CHECK(Split("\"a\\\", b\", c") == Parts{"c"});
  CHECK(Split("\"n\", \"x, \\\" (y\", z") == Parts{"\"x, \\\" (y\"", "z"});
  CHECK(Split("\"n\", ',', '\\'', '\\\\', '(', z") == Parts{"','", "'\\''", "'\\\\'", "'('", "z"});
  CHECK(Split("\"n\", 1'000, 0xff'ff, x") == Parts{"1'000", "0xff'ff", "x"});
  CHECK(Split("\"n\" \"m\", x") == Parts{"x"});
  CHECK(Split("\"n\", u8',', L',', u\"a, b\", x") == Parts{"u8','", "L','", "u\"a, b\"", "x"});
  CHECK(Split("\"n\", R\"(a, \" b)\", u8R\"xy(a)\", )xy\", z") == Parts{"R\"(a, \" b)\"", "u8R\"xy(a)\", )xy\"", "z"});
}

TEST_CASE("text that is not a list of arguments is split without harm", "[args]") {
  CHECK(Split("") == Parts{});
  CHECK(Split(",") == Parts{""});
  CHECK(Split("\"never closed, a") == Parts{});
  CHECK(Split("'") == Parts{});
  CHECK(Split("\\") == Parts{});
  CHECK(Split("\"n\", R\"") == Parts{"R\""});
  CHECK(Split("\"n\", R\"(never closed, x") == Parts{"R\"(never closed, x"});
  CHECK(Split("))),a").size() <= 1);
  CHECK(Split("(((, a, b") == Parts{});
}

TEST_CASE("the compiler's text of arguments is split as the compiler splits it", "[args]") {
  const int a = 1, b = 2;
  {
    const fakes::Recording recording;
    PITOT_INSTANT("event", a, b, a + b, (a - b), Sum(a, b));
    CHECK(NamesOfOnlyEvent(recording) == Parts{"a", "b", "a + b", "(a - b)", "Sum(a, b)"});
  }
  {
    const fakes::Recording recording;
    PITOT_INSTANT("an event, with a comma", std::string_view("text, \"quoted\""), ',', 1'000'000);
    CHECK(NamesOfOnlyEvent(recording) == Parts{"std::string_view(\"text, \\\"quoted\\\"\")", "','", "1'000'000"});
  }
  {
    const fakes::Recording recording;
    PITOT_INSTANT("event", (Sum<int, double>(a, b)), [&](int x, int y) { return x + y; }(a, b));
    CHECK(NamesOfOnlyEvent(recording) ==
          Parts{"(Sum<int, double>(a, b))", "[&](int x, int y) { return x + y; }(a, b)"});
  }
}

TEST_CASE("comparisons are not mistaken for a template's brackets", "[args]") {
  const int a = 1, b = 2;
  const fakes::Recording recording;
  // clang-format mistakes them for brackets.
  // clang-format off
  PITOT_INSTANT("event", a < b, b > a);
  // clang-format on

  const auto events = Events(recording.Trace());
  REQUIRE(events.size() == 1);
  REQUIRE(events[0].args.size() == 2);
  CHECK(events[0].args[0] == std::pair<std::string, std::string>{"a < b", "true"});
  CHECK(events[0].args[1] == std::pair<std::string, std::string>{"b > a", "true"});
}

TEST_CASE("each use of a macro is a site with its file, function and line", "[args]") {
  const fakes::Recording recording;
  const auto line = __LINE__ + 1;
  PITOT_INSTANT("here");
  for (int i = 0; i < 3; ++i) PITOT_INSTANT("there", i);

  const auto trace = recording.Trace();

  REQUIRE(trace.sites.size() == 2);
  for (const auto& site : trace.sites) {
    if (trace.strings[site.name] != "here") continue;
    CHECK(site.line == line);
    CHECK(std::string(trace.strings[site.file]).find("arg_text_test.cc") != std::string::npos);
    CHECK(std::string(trace.strings[site.function]).find("C_A_T_C_H") != std::string::npos);
    CHECK(!site.unloaded);
    CHECK(site.kind == pitot::SiteKind::kInstant);
  }
}
