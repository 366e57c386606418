// SPDX-License-Identifier: Apache-2.0
//
// Runs code in a child that may mount. The test's process and the machine do not see its mounts.
#ifndef PITOT_TEST_FAKES_OWN_MOUNTS_H_
#define PITOT_TEST_FAKES_OWN_MOUNTS_H_

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "fakes/child.h"
#include "fakes/not_run.h"
#include "fakes/scale.h"

namespace fakes {

inline bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  return static_cast<bool>(file << text << std::flush);
}

// Gives this process, which must have one thread, namespaces of its own. True if it may mount from now on.
inline bool EnterOwnMounts() {
  const std::string uid = std::to_string(getuid()), gid = std::to_string(getgid());
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    (void)WriteFile("/proc/self/setgroups", "deny");
    if (!WriteFile("/proc/self/uid_map", "0 " + uid + " 1") || !WriteFile("/proc/self/gid_map", "0 " + gid + " 1"))
      return false;
  }
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Goes on in a child: the first process of a namespace of its own, with its own /proc, as in a container. Its parent
// waits for it. False: the machine does not allow it.
inline bool EnterOwnProcesses() {
  if (!EnterOwnMounts() || unshare(CLONE_NEWPID) != 0) return false;
  const pid_t child = fork();
  if (child > 0) {
    int status = 0;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  if (child < 0) return false;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return mount("proc", "/proc", "proc", 0, nullptr) == 0;
}

// Checks that `body` returns 0 in such a child. Warns if the machine does not allow one.
template <class Body> void InOwnMounts(Body body) {
  if (kThreadSanitizer) {
    NOT_RUN("under ThreadSanitizer the child of a fork cannot start threads");
    return;
  }
  const int result = InChild([&] { return EnterOwnMounts() ? body() : kCannotRun; });
  if (result == kCannotRun) {
    NOT_RUN("neither this user nor a user namespace may mount here");
    return;
  }
  CHECK(result == 0);
}

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_OWN_MOUNTS_H_
