// SPDX-License-Identifier: Apache-2.0
// expect: deleted
#include "pitot/request.h"

void Run(pitot::Batch batch);

void Execute() {
  pitot::Batch batch = pitot::Batch::Begin("resnet50");
#ifdef BAD
  Run(batch);
#else
  Run(static_cast<pitot::Batch&&>(batch));
#endif
}
