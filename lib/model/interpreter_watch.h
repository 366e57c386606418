// SPDX-License-Identifier: Apache-2.0
//
// Waits that a watcher of an interpreter records on its threads. They are no work of the host.
#ifndef PITOT_LIB_MODEL_INTERPRETER_WATCH_H_
#define PITOT_LIB_MODEL_INTERPRETER_WATCH_H_

#include <string_view>

#include "pitot/model/trace.h"

namespace pitot::model {

// By the place in the code, or by the name where a conversion has lost the place.
inline bool IsInterpreterWatch(const Trace& trace, const SiteRow& site) {
  const std::string_view file = trace.strings[site.file], function = trace.strings[site.function],
                         name = trace.strings[site.name];
  if (file == "pitot/interpreter.h") return function == "RecordLockHeld" || function == "RecordThreadsStopped";
  return file.empty() && (name == "waited for the interpreter's lock" || name == "the interpreter stopped its threads");
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_INTERPRETER_WATCH_H_
