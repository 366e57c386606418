// SPDX-License-Identifier: Apache-2.0
//
// Read by codegen.py: compiled with PITOT_DISABLED, and with BARE, which leaves the macros out. The code must be equal.
// (The macros' arguments are the function's parameters, because g++ allocates registers in another order for a local
// named in an unevaluated operand.)
#ifndef BARE
#define PITOT_DISABLED
#include "pitot/phase.h"
#include "pitot/request.h"
#include "pitot/trace.h"
#include "pitot/wait.h"
#define MACRO(...) __VA_ARGS__
#else
#define MACRO(...)
#endif

int Work(int value);
const char* Route(int value);

#ifndef BARE
static pitot::Owner NobodyAsks();  // an argument of a disabled macro is not evaluated
#endif

extern "C" int Handle(int value, double rate, const char* text) {
  MACRO(PITOT_FUNCTION();)
  MACRO(PITOT_SCOPE("handle", value, rate, text, Work(value));)
  MACRO(PITOT_PHASES(stages);)
  int result = 0;
  {
    MACRO(PITOT_LEAF("leaf", value);)
    MACRO(PITOT_PHASE(stages, "first");)
    result += Work(value);
  }
  {
    MACRO(PITOT_SCOPE_NAMED(pitot::Intern(Route(value)), value);)
    MACRO(PITOT_SCOPE_IF_SLOWER("slow", 1000, value);)
    MACRO(PITOT_PHASE(stages, "second");)
    result += Work(value + 1);
  }
  {
    MACRO(PITOT_WAIT(pitot::WaitKind::kIo, "journal", NobodyAsks());)
    MACRO(auto call = PITOT_ASYNC_SCOPE("call", pitot::Token{});)
    result += Work(value + 2);
  }
  MACRO(PITOT_INSTANT("instant", value, PITOT_LITERAL("text"));)
  MACRO(PITOT_COUNTER("counter", value);)
  MACRO(PITOT_PHASES_END(stages);)
  return result + static_cast<int>(rate) + text[0];
}
