// SPDX-License-Identifier: Apache-2.0
//
// The handle of a recorder.
#ifndef PITOT_BINDINGS_C_HANDLE_H_
#define PITOT_BINDINGS_C_HANDLE_H_

#include <mutex>

#include "pitot/c.h"
#include "pitot/recorder.h"
#include "pitot/status.h"

namespace pitot::c {

// A C function of the host with its context; a null function: none.
template <class Function> struct Callback {
  Function function = nullptr;
  void* context = nullptr;
  bool operator==(const Callback&) const = default;
};

struct HostHooks {
  Callback<pitot_incident_function> incident, verdict;
  bool operator==(const HostHooks&) const = default;
};

}  // namespace pitot::c

struct pitot_recorder {
  pitot::Recorder recorder;
  std::mutex hooks_mutex;
  pitot::c::HostHooks hooks;  // under hooks_mutex
};

namespace pitot::c {

inline Status NotStarted() noexcept { return Status(StatusCode::kNotRunning, "the recorder was not started"); }

}  // namespace pitot::c

#endif  // PITOT_BINDINGS_C_HANDLE_H_
