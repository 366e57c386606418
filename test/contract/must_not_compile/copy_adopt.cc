// SPDX-License-Identifier: Apache-2.0
// expect: deleted
#include "pitot/request.h"

void Work(const pitot::Token& token) {
  pitot::Adopt adopt(token);
#ifdef BAD
  pitot::Adopt again(adopt);
#endif
}
