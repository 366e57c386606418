// SPDX-License-Identifier: Apache-2.0
//
// The state of the layer in one process. The child of a fork gets its own: threads missing there may hold the parent's
// locks, and the parent's commands end in the parent only.
#ifndef PITOT_LIB_COLLECT_OPENCL_RECORDING_H_
#define PITOT_LIB_COLLECT_OPENCL_RECORDING_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/mutex.h"
#include "base/newest.h"
#include "collect/opencl/losses.h"
#include "collect/opencl/queues.h"
#include "collect/opencl/work.h"

namespace pitot::opencl {

class Recording;

// A command in flight.
struct Command {
  std::atomic<bool> is_taken{false};
  Recording* recording = nullptr;
  uint32_t session = 0;
  int64_t before_ns = 0, after_ns = 0;
  Work work{};

  void Free() noexcept { is_taken.store(false, std::memory_order_release); }
};

// A command's times on the device's clock.
struct DeviceTimes {
  int64_t queued = 0, begin = 0, end = 0;
};

class Recording {
 public:
  static constexpr uint32_t kMaxCommands = 4096;

  Recording(uint32_t fork_epoch, const Recording* parents) noexcept;

  uint32_t fork_epoch() const noexcept { return fork_epoch_; }

  // One collector at a time. False: another has it.
  bool Claim() noexcept { return !is_claimed_.exchange(true); }
  void Unclaim() noexcept { is_claimed_.store(false); }

  // From Start to Stop calls are recorded. Once Stop has returned, commands of the session add nothing. Start throws
  // bad_alloc, and nothing has begun then.
  void Start(uint64_t memory_bytes);
  void Stop() noexcept;
  // New commands are not recorded from Pause to Resume; those in flight are. Threads: any.
  void Pause() noexcept;
  void Resume() noexcept;

  // The number of the session if calls are recorded now, otherwise 0. Threads: any.
  uint32_t Session() const noexcept {
    return is_paused_.load(std::memory_order_relaxed) ? 0 : session_.load(std::memory_order_acquire);
  }
  // A place for a command; null: there is none. Threads: any.
  Command* Take() noexcept;
  // Threads: any.
  uint32_t NextCorrelation() noexcept;
  void Lose(Lost why, uint8_t device, int64_t begin_ns, int64_t end_ns, uint32_t session) noexcept {
    losses.Add(why, device, begin_ns, end_ns, session);
  }

  // The end of a command, on a thread of the driver. Drops it if its session is over. The lock is held for the copy of
  // one row.
  bool IsWanted(const Command& command) const noexcept {
    return command.session == session_.load(std::memory_order_acquire);
  }
  void Finish(const Command& command, const DeviceTimes& times) noexcept;
  void Lose(Lost why, const Command& command) noexcept;

  // Copies what ended at `begin_ns` or later, for the functions below. Threads: one at a time with their callers.
  void Keep(int64_t begin_ns) noexcept;
  struct Stretch {
    int64_t begin_ns = 0, end_ns = 0;
  };
  struct Kept {
    uint32_t session = 0;
    int64_t begin_ns = 0, end_ns = 0;
    bool is_paused = false;
    static constexpr uint32_t kPauses = 32;
    std::array<Stretch, kPauses> pauses{};
    uint32_t pause_count = 0;
  };
  const Kept& kept() const noexcept { return kept_; }
  std::span<const Work> work() const noexcept { return finished_.kept(); }
  // Work of the device is missing up to here; 0: all is there.
  int64_t overwritten_until_ns(uint8_t device) const noexcept { return finished_.lost_until_ns(device); }
  // In flight now.
  uint32_t in_flight() const noexcept;

  const Recording* const former;  // the parent's, kept reachable and never touched again
  Queues queues;
  Losses losses;
  std::atomic<uint64_t> no_profiling{0};  // queues that refused profiling, since the process began

 private:
  const uint32_t fork_epoch_;
  std::atomic<bool> is_claimed_{false};
  std::atomic<uint32_t> correlation_{0}, next_command_{0};
  std::array<Command, kMaxCommands> commands_{};

  base::Mutex mutex_;
  std::atomic<uint32_t> session_{0};  // 0: nothing is recorded; changes with the mutex held
  std::atomic<bool> is_paused_{false};
  uint32_t last_session_ PITOT_GUARDED_BY(mutex_) = 0;
  int64_t paused_ns_ PITOT_GUARDED_BY(mutex_) = 0;
  // Finished pauses, the newest last. If there is no room, the two oldest become one.
  std::array<Stretch, Kept::kPauses - 1> pauses_ PITOT_GUARDED_BY(mutex_){};
  uint32_t pause_count_ PITOT_GUARDED_BY(mutex_) = 0;

  base::Newest<Work, kMaxDevices> finished_;
  Kept kept_;
};

}  // namespace pitot::opencl

#endif  // PITOT_LIB_COLLECT_OPENCL_RECORDING_H_
