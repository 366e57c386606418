// SPDX-License-Identifier: Apache-2.0
//
// Every macro, as in a user's file. strict_warnings.py compiles it with a user's warnings, at every level of
// optimisation.
#include <mutex>
#include <string>
#include <string_view>

#include "pitot/pitot.h"

enum class Codec { kJpeg, kPng };

int Work(int value);

template <class T> int Template(T value) {
  PITOT_FUNCTION();
  PITOT_SCOPE("template", value);
  return Work(static_cast<int>(value));
}

int Handle(int value, unsigned size, double rate, float ratio, bool is_hit, char letter, const char* text,
           const std::string& body, std::string_view view, Codec codec, unsigned long long wide) {
  PITOT_FUNCTION();
  PITOT_SCOPE("handle", value, size, rate, ratio, is_hit, letter, text);
  PITOT_PHASES(stages);
  PITOT_PHASE(stages, "first");
  int result = Template(value) + Template(wide) + Template(letter);
  {
    PITOT_LEAF("leaf");
    PITOT_INSTANT("instant", body, view, codec, wide, PITOT_LITERAL("text"), pitot::Intern(text), nullptr == text);
    PITOT_COUNTER("counter", rate);
  }
  PITOT_PHASE(stages, "second");
  {
    PITOT_SCOPE_NAMED(pitot::Intern(text), value);
    PITOT_SCOPE_IF_SLOWER("slow", 1000, value);
    result += Work(value + 1);
  }
  const auto generic = [](auto argument) {
    PITOT_SCOPE("lambda", argument);
    return static_cast<int>(argument);
  };
  result += generic(value) + generic(rate);
  PITOT_PHASES_END(stages);
  {
    PITOT_WAIT(pitot::WaitKind::kIo, "journal", pitot::Owner{});
    auto call = PITOT_ASYNC_SCOPE("call", pitot::Token{});
    result += Work(value + 2);
    call.End();
  }
  if (is_hit)
    PITOT_INSTANT("hit");
  else
    PITOT_INSTANT("miss");
  switch (value) {
    case 1: {
      PITOT_SCOPE("one");
      return Work(1);
    }
    default:
      return result;
  }
}

void Phases(int count) {
  PITOT_PHASES(stages);
  for (int i = 0; i < count; ++i) {
    PITOT_PHASE(stages, "even");
    Work(i);
    PITOT_PHASE(stages, "odd");
    Work(i);
  }
}
