// SPDX-License-Identifier: Apache-2.0
// A request is finished once: it can only be moved. A token crosses threads.
// expect: deleted
#include "pitot/request.h"

void Hand(pitot::Request request);

void Handle() {
  pitot::Request request = pitot::Request::Begin("/classify");
#ifdef BAD
  Hand(request);
#else
  Hand(static_cast<pitot::Request&&>(request));
#endif
}
