// SPDX-License-Identifier: Apache-2.0
//
// What the kernel tells of another process and of each of its threads, by /proc: no lock and no stop.
#ifndef PITOT_LIB_SESSION_KERNEL_VIEW_H_
#define PITOT_LIB_SESSION_KERNEL_VIEW_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pitot/extend/serializer.h"
#include "session/wedge.h"

namespace pitot::session {

struct ThreadView {
  int64_t tid = 0;
  std::string name;
  char state = '?';                 // R, S, D, T, t, Z: as in /proc/PID/stat
  std::string wait;                 // the kernel's function in which it waits; "": it runs, or the kernel does not tell
  std::string stack;                // in the kernel, a line each; "": the kernel does not tell
  std::vector<std::string> frames;  // in its own code, innermost first, if the caller has read them
  double cpu_s = 0;
  uint64_t switches = 0, preemptions = 0;  // voluntary and involuntary
};

struct KernelView {
  Stop stop = Stop::kNone;
  std::vector<ThreadView> threads;
  std::string problem;  // why there is less than that
};

// Whether the kernel lets a process run.
struct StopView {
  Stop stop = Stop::kNone;
  uint64_t switches = 0;  // if it is stopped: of its first thread
};
// Cost: two small files, and those of its cgroup.
StopView StopOf(int64_t pid);
// Whether the watcher in that process waits for a CPU. Cost: two small files a thread.
bool IsWatcherReady(int64_t pid);
// Those of these threads that use a CPU, or wait for one. Takes 10 ms. May throw bad_alloc.
std::vector<int64_t> RunningOf(int64_t pid, const std::vector<int64_t>& tids);
// The kills for want of memory in a process's control group, which outlives the process.
class OomKills {
 public:
  OomKills() = default;
  // Counts from now on, for a living process. May throw bad_alloc.
  explicit OomKills(int64_t pid);
  // Whether there were any since the last call of Renew but one. False: none, or the kernel does not tell.
  bool HaveGrown() const;
  void Renew();

 private:
  uint64_t Now() const;

  std::string path_;  // "": not known
  uint64_t before_ = 0, last_ = 0;
};
// All of it, for at most kMostThreads. May throw bad_alloc.
inline constexpr size_t kMostThreads = 4096;
KernelView ViewOf(int64_t pid);
// "12 threads: 1 D, 11 S".
std::string Summary(const KernelView& view);

// A file `threads.txt` with the view. `view` outlives it. Null: no memory.
std::unique_ptr<Serializer> MakeThreadsFile(const KernelView* view);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_KERNEL_VIEW_H_
