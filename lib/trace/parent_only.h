// SPDX-License-Identifier: Apache-2.0
//
// What only this process may use. A child finds it zero, however it was made: also by clone or _Fork, of which no
// handler is told.
#ifndef PITOT_LIB_TRACE_PARENT_ONLY_H_
#define PITOT_LIB_TRACE_PARENT_ONLY_H_

#include <atomic>
#include <cstdint>

namespace pitot::trace {

struct ParentOnly {
  std::atomic<uint32_t> is_parent{0};
  std::atomic<void*> slots{nullptr};  // the table of open requests
};

// Makes it, once: a page that the kernel empties in children. False: it cannot (before Linux 4.14), and the words are
// in ordinary memory. Threads: one at a time.
bool MakeParentOnly() noexcept;
// In a child that knows that it is one: the words are its own.
void MakeParentOnlyAfterFork() noexcept;

// Has the kernel empty private memory in children. False: it cannot.
bool WipeOnFork(void* memory, uint64_t bytes) noexcept;

extern std::atomic<ParentOnly*> g_parent_only;
inline ParentOnly& OfParent() noexcept { return *g_parent_only.load(std::memory_order_acquire); }
// Whether this is a child that does not know it yet. False if the kernel does not empty pages.
inline bool IsUntoldChild() noexcept { return OfParent().is_parent.load(std::memory_order_relaxed) == 0; }

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_PARENT_ONLY_H_
