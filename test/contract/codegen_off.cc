// SPDX-License-Identifier: Apache-2.0
//
// Read by codegen.py: the cost of the macros while recording is off.
#include "pitot/trace.h"

void Work(int value);

extern "C" void WithScope(int value) {
  PITOT_SCOPE("handle", value);
  Work(value);
}

extern "C" void WithLeaf(int value) {
  PITOT_LEAF("handle");
  Work(value);
}

extern "C" void WithInstant(int value) {
  PITOT_INSTANT("handle", value);
  Work(value);
}
