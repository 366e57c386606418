// SPDX-License-Identifier: Apache-2.0
//
// A right that one object in a process can have at a time. The child of a fork begins anew.
#ifndef PITOT_LIB_BASE_ONE_IN_PROCESS_H_
#define PITOT_LIB_BASE_ONE_IN_PROCESS_H_

#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace pitot::base {

// A variable of static storage. Threads: any.
class OneInProcess {
 public:
  // False: another has it.
  bool Take() noexcept {
    const pid_t own = getpid();
    pid_t before = owner_.load();
    return before != own && owner_.compare_exchange_strong(before, own);
  }
  // For the one that has taken it.
  void GiveBack() noexcept { owner_.store(0); }

 private:
  std::atomic<pid_t> owner_{0};
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_ONE_IN_PROCESS_H_
