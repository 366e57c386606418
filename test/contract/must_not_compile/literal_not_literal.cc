// SPDX-License-Identifier: Apache-2.0
// expect: expected
#include "pitot/trace.h"

void Handle(const char* codec) {
#ifdef BAD
  PITOT_SCOPE("decode", PITOT_LITERAL(codec));
#else
  PITOT_SCOPE("decode", PITOT_LITERAL("jpeg"), codec);
#endif
}
