// SPDX-License-Identifier: Apache-2.0
// expect: expected
#include "pitot/wait.h"

void Read(const char* file) {
#ifdef BAD
  PITOT_WAIT(pitot::WaitKind::kIo, file, pitot::Owner{});
#else
  PITOT_WAIT(pitot::WaitKind::kIo, "journal", pitot::Owner{});
  static_cast<void>(file);
#endif
}
