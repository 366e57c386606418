// SPDX-License-Identifier: Apache-2.0
// Scopes are distinguished by their line.
// expect: redeclaration
// expect: redefinition
#include "pitot/trace.h"

// clang-format off
void Handle() {
#ifdef BAD
  PITOT_SCOPE("outer"); PITOT_SCOPE("inner");
#else
  PITOT_SCOPE("outer"); { PITOT_SCOPE("inner"); }
#endif
}
