// SPDX-License-Identifier: Apache-2.0
//
// Hooks of a scheduler. For each request they log the delays on the scheduler's thread and the CPU time of its
// iterations. They also make the faults of iterations.
#ifndef PITOT_TEST_SCOREBOARD_DECODE_SERVER_FAULTY_SCHEDULING_H_
#define PITOT_TEST_SCOREBOARD_DECODE_SERVER_FAULTY_SCHEDULING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <unordered_set>
#include <vector>

#include "decode_server/scheduler.h"
#include "scoreboard/clocks.h"
#include "scoreboard/decode_server/faults.h"
#include "scoreboard/delays.h"

namespace decode_server {

// For one scheduler.
class FaultyScheduling final : public SchedulerHooks {
 public:
  // `allocate`: as in Faults::InIteration. `clock`: the scheduler's.
  FaultyScheduling(Faults* faults, std::function<void(uint64_t bytes)> allocate,
                   Scheduler::Clock clock = scoreboard::MonotonicNs);

  // To be called before Submit: the prompt of this request was made long. Threads: any.
  void MadeLong(uint64_t request);

  bool MayJoin(const Job& job, size_t needed, size_t free) override;
  void IterationBegins(std::span<const uint64_t> requests) override;
  void PassBegins(std::span<const uint64_t> requests) override;
  void PassEnds(std::span<const uint64_t> requests) override;

 private:
  bool IsLong(uint64_t request);

  Faults* const faults_;
  const std::function<void(uint64_t bytes)> allocate_;
  const Scheduler::Clock clock_;
  std::mutex long_mutex_;
  std::unordered_set<uint64_t> long_;  // requests with such a prompt, until it is taken

  // On the scheduler's thread.
  uint64_t held_back_ = 0;  // the request waiting only because of kv_pressure; 0: none
  uint64_t held_back_ns_ = 0;
  std::vector<uint64_t> members_;  // of the last iteration
  scoreboard::ThreadUse begun_;    // the pass
  uint64_t begun_ns_ = 0;
  uint64_t ended_ns_ = 0;
};

}  // namespace decode_server

#endif  // PITOT_TEST_SCOREBOARD_DECODE_SERVER_FAULTY_SCHEDULING_H_
