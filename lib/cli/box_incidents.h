// SPDX-License-Identifier: Apache-2.0
//
// Incidents of black boxes: of processes that died, and of those that hang.
#ifndef PITOT_LIB_CLI_BOX_INCIDENTS_H_
#define PITOT_LIB_CLI_BOX_INCIDENTS_H_

#include <cstdint>
#include <string>

#include "session/post_mortem.h"
#include "session/wedge.h"

namespace pitot::cli {

enum class AfterIt { kRemove, kKeep };  // the black box

// Makes an incident of a dead process's black box, in `output`, or if it is "" among the process's own. Returns the
// exit code, after a message.
int RecoverBox(session::FoundBox* box, const std::string& output, AfterIt after);

// The same of a living process that is wedged. `pid` is its number here; 0: it is not seen from here.
int WriteWedged(session::FoundBox* box, const session::Wedge& wedge, int64_t pid, const std::string& output);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_BOX_INCIDENTS_H_
