// SPDX-License-Identifier: Apache-2.0
//
// The seam to libdw (elfutils), which unwinds the stack of a thread from outside. Tests have an unwinder of their own.
#ifndef PITOT_LIB_COLLECT_STACKS_UNWINDER_H_
#define PITOT_LIB_COLLECT_STACKS_UNWINDER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collect/stacks/perf_records.h"

namespace pitot::stacks {

struct Frame {
  std::string text;  // "MyCache::Get (libserver.so)"
  bool is_runtime = false;
};

// Used by one thread.
class Unwinder {
 public:
  virtual ~Unwinder() = default;
  // Frames of a sleeping thread, innermost first: as many as its depth says, or as far as known. `stack` and
  // `instruction` are the thread's stack pointer and program counter; its other registers are not known, so a frame
  // that needs one is the last. Throws bad_alloc.
  virtual std::vector<Frame> Unwind(uint64_t stack, uint64_t instruction) = 0;
  // The same of a running thread. A frame beyond its copied stack is left out.
  virtual std::vector<Frame> UnwindSample(const Sample& sample) = 0;
  // Forgets what it knows of modules, which may be unloaded from now on.
  virtual void Reset() = 0;
};

enum class StackDepth {
  kCallers,  // up to two callers of the first function outside of the runtime
  kWhole,    // up to 32 frames
};

// Opens libdw of the system. Null if it cannot; `why_not` then has the reason and the remedy. Never unloads it.
std::unique_ptr<Unwinder> OpenUnwinder(std::string* why_not);
// The same for another process, whose samples it unwinds.
std::unique_ptr<Unwinder> OpenUnwinderOf(pid_t pid, StackDepth depth, std::string* why_not);

}  // namespace pitot::stacks

#endif  // PITOT_LIB_COLLECT_STACKS_UNWINDER_H_
