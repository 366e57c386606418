// SPDX-License-Identifier: Apache-2.0
//
// Runs code in the child of a fork, so that a deadlock cannot hang the test.
#ifndef PITOT_TEST_FAKES_CHILD_H_
#define PITOT_TEST_FAKES_CHILD_H_

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace fakes {

// Forks and returns the child's process id. The child runs `body` and exits with its result. SIGALRM kills it after
// `seconds`.
template <class Body> pid_t StartChild(Body body, unsigned seconds = 60) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  alarm(seconds);
  _exit(body());
}

// The child's exit status, or 1000 plus the signal that killed it.
inline int WaitForChild(pid_t pid) {
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

template <class Body> int InChild(Body body) { return WaitForChild(StartChild(body)); }

// The exit status of a body that cannot run on this machine.
inline constexpr int kCannotRun = 77;

// In a child's body: if the claim is false, prints it and ends the body.
#define HOLDS(what)                                                             \
  do {                                                                          \
    if (!(what)) {                                                              \
      std::fprintf(stderr, "%s:%d: is false: %s\n", __FILE__, __LINE__, #what); \
      return 1;                                                                 \
    }                                                                           \
  } while (false)

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_CHILD_H_
