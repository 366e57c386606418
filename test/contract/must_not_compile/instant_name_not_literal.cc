// SPDX-License-Identifier: Apache-2.0
// expect: expected
#include "pitot/trace.h"

void Handle(const char* route) {
#ifdef BAD
  PITOT_INSTANT(route);
#else
  PITOT_INSTANT("handle", route);
#endif
}
