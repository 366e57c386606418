// SPDX-License-Identifier: Apache-2.0
//
// Waits that a watcher of an interpreter records on its threads. They are no work of the host.
#ifndef PITOT_LIB_MODEL_INTERPRETER_WATCH_H_
#define PITOT_LIB_MODEL_INTERPRETER_WATCH_H_

#include <string_view>

#include "pitot/model/trace.h"

namespace pitot::model {

inline bool IsInterpreterWatch(const Trace& trace, const SiteRow& site) {
  const std::string_view function = trace.strings[site.function];
  return trace.strings[site.file] == "pitot/interpreter.h" &&
         (function == "RecordLockHeld" || function == "RecordThreadsStopped");
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_INTERPRETER_WATCH_H_
