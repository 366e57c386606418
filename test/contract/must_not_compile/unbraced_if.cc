// SPDX-License-Identifier: Apache-2.0
// A scope is two declarations, and the body of an unbraced `if` holds one: the scope would not cover the intended code.
// expect: pitot_site_
// expect: pitot_scope_
#include "pitot/trace.h"

void Handle(bool deep) {
#ifdef BAD
  if (deep) PITOT_SCOPE("deep");
#else
  if (deep) {
    PITOT_SCOPE("deep");
  }
#endif
}
