// SPDX-License-Identifier: Apache-2.0
//
// A folder of black boxes, and processes that leave theirs there.
#ifndef PITOT_TEST_SESSION_BOXES_H_
#define PITOT_TEST_SESSION_BOXES_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "fakes/log.h"
#include "fakes/temp_directory.h"
#include "pitot/pitot.h"

namespace session_test {

struct Boxes {
  fakes::TempDirectory directory;
  fakes::Log log;
  std::string path = directory.path() + "/boxes";
  std::string incidents;  // "": none are kept
  pitot::Ends ends = pitot::Ends::kNone;

  pitot::Options Options() {
    pitot::Options options;
    options.memory_budget_bytes = 8 << 20;
    options.max_ring_bytes = 1 << 16;
    options.max_open_requests = 256;
    options.handle_ends = ends;
    options.black_box_directory = path.c_str();
    options.incident_directory = incidents.c_str();
    log.Listen(&options);
    return options;
  }
};

// Runs `work` in a child with a recorder, which kills itself after it. Returns how it ended.
inline int Die(Boxes* boxes, const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int fatal : {SIGSEGV, SIGBUS, SIGILL, SIGABRT}) signal(fatal, SIG_DFL);  // not the test framework's
    pitot::Recorder recorder = pitot::Recorder::Start(boxes->Options());
    if (!recorder.status().ok()) _exit(3);
    work();
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace session_test

#endif  // PITOT_TEST_SESSION_BOXES_H_
