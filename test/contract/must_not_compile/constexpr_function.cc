// SPDX-License-Identifier: Apache-2.0
// A macro has a static variable, and a constexpr function cannot have one.
// expect: constexpr
#include "pitot/trace.h"

#ifdef BAD
constexpr int Twice(int value) {
  PITOT_SCOPE("twice");
  return value * 2;
}
#else
inline int Twice(int value) {
  PITOT_SCOPE("twice");
  return value * 2;
}
#endif

int Use(int value) { return Twice(value); }
