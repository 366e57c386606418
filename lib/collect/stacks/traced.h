// SPDX-License-Identifier: Apache-2.0
//
// Stacks of another process's threads, by ptrace(2). Each thread stands still while its registers and the top of its
// stack are copied: some 50 us. No signal is sent. A thread that the kernel does not let run (D) is left alone.
#ifndef PITOT_LIB_COLLECT_STACKS_TRACED_H_
#define PITOT_LIB_COLLECT_STACKS_TRACED_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace pitot::stacks {

struct TracedStacks {
  std::map<int64_t, std::vector<std::string>> frames;  // by thread, innermost first: "MyCache::Get (libserver.so)"
  std::string problem;                                 // why there are fewer; "": there are all
};
// Reads those of threads of `pid`, the first 256 of them. None is begun after 2 s. It takes a thread of its own, whose
// end lets go of all others. Throws bad_alloc and system_error.
TracedStacks ReadStacks(pid_t pid, std::span<const int64_t> tids);

}  // namespace pitot::stacks

#endif  // PITOT_LIB_COLLECT_STACKS_TRACED_H_
