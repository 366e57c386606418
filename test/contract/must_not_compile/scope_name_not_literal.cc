// SPDX-License-Identifier: Apache-2.0
// A scope's name is a literal; a name made at run time goes through Intern and PITOT_SCOPE_NAMED.
// expect: expected
#include "pitot/trace.h"

void Handle(const char* route) {
#ifdef BAD
  PITOT_SCOPE(route);
#else
  PITOT_SCOPE_NAMED(pitot::Intern(route));
#endif
}
