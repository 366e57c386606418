// SPDX-License-Identifier: Apache-2.0
//
// How far a recorder's life has come: it runs, is being stopped, or has no time left to finish. The session moves it
// on, and its parts look.
#ifndef PITOT_LIB_SESSION_LIFETIME_H_
#define PITOT_LIB_SESSION_LIFETIME_H_

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "pitot/status.h"
#include "trace/process.h"

namespace pitot::session {

// Threads: any.
class Lifetime {
 public:
  // False in the child of a fork: there the recorder's threads are missing, and its locks may be held forever. The id
  // tells children that were made without the C library's handlers (clone, _Fork).
  bool IsOfThisProcess() const noexcept { return fork_epoch_ == trace::ForkEpoch() && process_ == getpid(); }
  // Ok while it runs, otherwise the reason that it does not.
  Status status() const noexcept {
    if (!IsOfThisProcess())
      return Status(StatusCode::kNotRunning, "the recorder belongs to the parent of this process");
    if (!is_running_.load()) return Status(StatusCode::kNotRunning, "the recorder was stopped");
    return {};
  }

  void Begin() noexcept { is_running_.store(true); }
  // Ends it. False if it was not running.
  bool End() noexcept { return is_running_.exchange(false); }
  bool IsRunning() const noexcept { return is_running_.load(); }

  // Says that the time is up: unfinished incidents are given up.
  void GiveUp() noexcept { has_given_up_.store(true); }
  bool HasGivenUp() const noexcept { return has_given_up_.load(); }

 private:
  const uint32_t fork_epoch_ = trace::ForkEpoch();
  const pid_t process_ = getpid();
  std::atomic<bool> is_running_{false};
  std::atomic<bool> has_given_up_{false};
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_LIFETIME_H_
