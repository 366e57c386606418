// SPDX-License-Identifier: Apache-2.0
// expect: expected
#include "pitot/phase.h"

void Handle(const char* route) {
  PITOT_PHASES(stages);
#ifdef BAD
  PITOT_PHASE(stages, route);
#else
  PITOT_PHASE(stages, "handle");
  static_cast<void>(route);
#endif
}
