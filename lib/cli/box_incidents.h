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

// With a place for incidents, `output`, black boxes of other users count, too. Otherwise each box names its own.
inline session::BoxTrust TrustWith(const std::string& output) {
  return output.empty() ? session::BoxTrust::kOwn : session::BoxTrust::kAny;
}
// Whether others may put files into a folder of black boxes, after a message.
bool ComplainOfFolder(const std::string& path);

enum class AfterIt { kRemove, kKeep };  // the black box

// Where incidents go, and who is told of them.
struct IncidentPlace {
  std::string directory;  // "": the one of the process's own incidents. The box has TrustWith it.
  void (*tell)(const std::string& what, const std::string& below);
};
// Prints each in a line of its own to stdout.
void PrintIncident(const std::string& what, const std::string& below);

// Makes an incident of a dead process's black box. Returns the exit code, after a message.
int RecoverBox(session::FoundBox* box, const session::SeenEnd& seen, const IncidentPlace& place, AfterIt after);

// What is asked, apart from the kernel.
struct WedgeQuestions {
  bool reads_stacks = true;  // of its threads, by ptrace
  std::string nvml;          // NVML's file; "": the system's
};

// The same of a living process that is wedged. `pid` is its number here; 0: it is not seen from here.
int WriteWedged(session::FoundBox* box, const session::Wedge& wedge, int64_t pid, const WedgeQuestions& ask,
                const IncidentPlace& place);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_BOX_INCIDENTS_H_
