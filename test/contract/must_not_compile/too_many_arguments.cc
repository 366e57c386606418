// SPDX-License-Identifier: Apache-2.0
// expect: PITOT: an event takes at most 7 arguments
#include "pitot/trace.h"

void Handle(int a) {
#ifdef BAD
  PITOT_SCOPE("handle", a, a, a, a, a, a, a, a);
#else
  PITOT_SCOPE("handle", a, a, a, a, a, a, a);
#endif
}
