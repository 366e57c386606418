// SPDX-License-Identifier: Apache-2.0
//
// For a fork in a process with threads: AddressSanitizer's allocator has locks that the child gets as they are. Each
// fork() of a test waits for this; a raw one has to.
#ifndef PITOT_TEST_FAKES_QUIET_PROCESS_H_
#define PITOT_TEST_FAKES_QUIET_PROCESS_H_

#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "fakes/wait_until.h"

namespace fakes {

// True if every other thread of this process waited for something at one look.
inline bool OthersWait() {
  const std::string self = std::to_string(syscall(SYS_gettid));
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    if (task.path().filename() == self) continue;
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);
    const size_t state = stat.rfind(") ");
    if (state != stat.npos && stat.compare(state, 3, ") S") != 0) return false;
  }
  return !error;
}

// False if they have not within `seconds`.
inline bool WaitUntilOthersWait(int seconds = 60) { return WaitUntil(OthersWait, seconds); }

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_QUIET_PROCESS_H_
