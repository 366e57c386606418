// SPDX-License-Identifier: Apache-2.0
//
// Runs something in the child of a fork, where a deadlock must not hang the test.
#ifndef PITOT_TEST_FAKES_CHILD_H_
#define PITOT_TEST_FAKES_CHILD_H_

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace fakes {

// Forks and returns the child's process id. The child runs `body`, whose result is its exit status, and is killed by
// SIGALRM if that takes longer than `seconds`.
template <class Body> pid_t StartChild(Body body, unsigned seconds = 60) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  alarm(seconds);
  _exit(body());
}

// Its exit status, or 1000 and the signal that killed it.
inline int WaitForChild(pid_t pid) {
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

template <class Body> int InChild(Body body) { return WaitForChild(StartChild(body)); }

// The exit status of a body that found that the machine does not let it run.
inline constexpr int kCannotRun = 77;

// In a child's body: says what does not hold and ends it.
#define HOLDS(what)                                                                  \
  do {                                                                               \
    if (!(what)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what); \
      return 1;                                                                      \
    }                                                                                \
  } while (false)

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_CHILD_H_
