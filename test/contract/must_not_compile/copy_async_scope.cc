// SPDX-License-Identifier: Apache-2.0
// expect: deleted
#include "pitot/request.h"

void Hand(pitot::AsyncScope scope);

void Call(const pitot::Token& token) {
  pitot::AsyncScope call = PITOT_ASYNC_SCOPE("call", token);
#ifdef BAD
  Hand(call);
#else
  Hand(static_cast<pitot::AsyncScope&&>(call));
#endif
}
