// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/delays.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

#include "scoreboard/clocks.h"

namespace scoreboard {
namespace {

class Schedstat {
 public:
  ~Schedstat() {
    if (file_ >= 0) close(file_);
  }
  // The second of its numbers.
  uint64_t RunqueueNs() const {
    char text[64];
    const ssize_t size = file_ >= 0 ? pread(file_, text, sizeof text - 1, 0) : 0;
    if (size <= 0) return 0;
    text[size] = '\0';
    char* rest = text;
    std::strtoull(text, &rest, 10);
    return std::strtoull(rest, nullptr, 10);
  }

 private:
  const int file_ = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
};

}  // namespace

ThreadUse ThreadUseNow() {
  static const thread_local Schedstat schedstat;
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return {MonotonicNs(), ThreadCpuNs(), schedstat.RunqueueNs(), static_cast<uint64_t>(usage.ru_majflt), Launched()};
}

Work WorkBetween(const ThreadUse& before, const ThreadUse& after) {
  return {after.cpu_ns - before.cpu_ns,
          {after.launches.ns - before.launches.ns, after.launches.cpu_ns - before.launches.cpu_ns}};
}

Delays DelaysOfCode(const ThreadUse& before, const ThreadUse& after) {
  Delays delays;
  delays.cpu_waited_ns = after.runqueue_ns - before.runqueue_ns;
  const uint64_t accounted_ns = after.cpu_ns - before.cpu_ns + delays.cpu_waited_ns;
  const uint64_t length_ns = after.at_ns - before.at_ns;
  if (length_ns <= accounted_ns) return delays;
  (after.major_faults > before.major_faults ? delays.paged_ns : delays.slept_ns) = length_ns - accounted_ns;
  return delays;
}

}  // namespace scoreboard
