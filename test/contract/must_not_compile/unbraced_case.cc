// SPDX-License-Identifier: Apache-2.0
// Later labels would jump over a scope after a `case` label: brace the case.
// expect: jump to case label
// expect: cannot jump from switch statement to this case label
#include "pitot/trace.h"

int Handle(int kind) {
  switch (kind) {
#ifdef BAD
    case 1:
      PITOT_SCOPE("one");
      return 10;
#else
    case 1: {
      PITOT_SCOPE("one");
      return 10;
    }
#endif
    case 2:
      return 20;
  }
  return 0;
}
