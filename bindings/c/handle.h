// SPDX-License-Identifier: Apache-2.0
//
// The handle of a recorder.
#ifndef PITOT_BINDINGS_C_HANDLE_H_
#define PITOT_BINDINGS_C_HANDLE_H_

#include "pitot/c.h"
#include "pitot/recorder.h"
#include "pitot/status.h"

struct pitot_recorder {
  pitot::Recorder recorder;
};

namespace pitot::c {

inline Status NotStarted() noexcept { return Status(StatusCode::kNotRunning, "the recorder was not started"); }

}  // namespace pitot::c

#endif  // PITOT_BINDINGS_C_HANDLE_H_
