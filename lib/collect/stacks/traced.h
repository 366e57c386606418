// SPDX-License-Identifier: Apache-2.0
//
// Stacks of another process's threads, by ptrace(2): first all are copied, then they are unwound. Each thread stands
// still while its registers and the top of its stack are copied: some 50 us, and at most 1.5 s if it does not stop. No
// signal is sent, but epoll_wait(2) and a few other calls of the thread may return EINTR.
#ifndef PITOT_LIB_COLLECT_STACKS_TRACED_H_
#define PITOT_LIB_COLLECT_STACKS_TRACED_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collect/stacks/perf_records.h"

namespace pitot::stacks {

struct CopiedStacks {
  static constexpr size_t kMost = 256;
  std::vector<Sample> samples;
  std::string problem;  // why there are fewer; "": there are all
};
// Copies those of the first kMost of these threads. It ends within 2 s, also if the kernel does not return: then there
// are none, and none later. A thread of its own asks, whose end lets go of all others. Throws bad_alloc and
// system_error.
CopiedStacks CopyStacks(std::vector<int64_t> tids);

// Calls `tell` with the frames of each, innermost first: "MyCache::Get (libserver.so)". Returns why it cannot; "": it
// did. It reads files of that process, which may take any time, or crash: best in a process of its own. Throws
// bad_alloc.
std::string UnwindStacks(pid_t pid, std::span<const Sample> samples,
                         const std::function<void(int64_t tid, const std::vector<std::string>& frames)>& tell);

}  // namespace pitot::stacks

#endif  // PITOT_LIB_COLLECT_STACKS_TRACED_H_
