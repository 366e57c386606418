// SPDX-License-Identifier: Apache-2.0
// expect: expected
#include "pitot/request.h"

void Call(const pitot::Request& request, const char* service) {
#ifdef BAD
  auto call = PITOT_ASYNC_SCOPE(service, request.token());
#else
  auto call = PITOT_ASYNC_SCOPE("embed call", request.token());
  static_cast<void>(service);
#endif
}
