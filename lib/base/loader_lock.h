// SPDX-License-Identifier: Apache-2.0
//
// The child of a fork cannot load libraries, and may hang, if another thread was inside the dynamic loader. So
// Pitot's threads hold a lock while they use the loader, and a fork waits for that lock for a limited time.
#ifndef PITOT_LIB_BASE_LOADER_LOCK_H_
#define PITOT_LIB_BASE_LOADER_LOCK_H_

#include <stdint.h>

#include <atomic>

namespace pitot::base {

// The longest delay of a fork. Tests change it.
inline constinit std::atomic<int64_t> g_fork_patience_ns{100'000'000};

// Makes later forks of this process wait for Pitot's threads inside the loader. False: no memory. Threads: any.
bool HoldForksForLoader() noexcept;

// Declares the calling thread to be one of Pitot's, until it ends.
void BecomeOwnThread() noexcept;
// Whether it is. Safe in handlers of signals.
bool IsOwnThread() noexcept;

// Holds the lock for a block with calls such as dlopen and dl_iterate_phdr. It may nest. A driver's functions are
// called outside, because they may hang. On a host's thread it does nothing: that thread may be inside the loader
// already, and would wait for a thread that waits for it.
class LoaderUse {
 public:
  LoaderUse() noexcept;
  ~LoaderUse();
  LoaderUse(const LoaderUse&) = delete;
  LoaderUse& operator=(const LoaderUse&) = delete;

 private:
  const bool is_counted_;
};

// Whether this process was forked while a thread of Pitot was inside the loader, because that took too long.
bool WasForkedInsideLoader() noexcept;

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_LOADER_LOCK_H_
