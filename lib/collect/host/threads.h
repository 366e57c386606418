// SPDX-License-Identifier: Apache-2.0
//
// How long the threads that record were on a CPU and how long they waited for one, as seen from outside.
#ifndef PITOT_LIB_COLLECT_HOST_THREADS_H_
#define PITOT_LIB_COLLECT_HOST_THREADS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/timer.h"
#include "collect/host/file.h"
#include "collect/host/history.h"
#include "trace/rings.h"

namespace pitot::host {

// On-CPU time of a thread of this process, ns; negative: it is not there.
using CpuReader = int64_t (*)(int64_t tid) noexcept;

// What /proc/.../schedstat says in its second field: "on-CPU ns, run-queue ns, slices". Cost: 0.6 us.
std::optional<uint64_t> ReadRunQueueDelay(int schedstat) noexcept;

class Threads {
 public:
  Threads(std::string root, uint32_t most, CpuReader read_cpu);

  // Adds what changed of threads that have been at work since the last round, or are, each at its own time. May
  // allocate. Cost: 1.3 us for each of them. Gives new threads their file: 5 us each.
  void Round(base::Timer& timer, std::vector<Sample>* samples);
  // Adds how threads that are at work are now, whatever was added before, and what they did not say since their last
  // edge: how often they were switched, and their major faults. May allocate. Cost: 50 us for each of them.
  void Now(base::Timer& timer, std::vector<Sample>* samples);
  // Takes their files away, before the rings are given up. May allocate.
  void Close();
  uint32_t left_out() const { return left_out_; }  // by the last Round or Now
  uint64_t dropped() const { return dropped_; }    // readings that took too long whenever tried, ever

 private:
  struct Entry {
    uint32_t number = 0;  // Pitot's
    int64_t tid = 0;
    uint64_t events = 0;
    bool is_at_work = false, was_seen = false;
    File schedstat;
    // The last sample, and when one was added last: of those that say the same the first and the last are, and some.
    int64_t at_ns = 0, cpu_ns = -1, delay_ns = -1, added_ns = 0;
  };
  void FindThreads();
  void Adopt(trace::ThreadRing* ring);
  void Look(Entry* entry, base::Timer& timer, std::vector<Sample>* samples);
  void LookWell(const Entry& entry, base::Timer& timer, std::vector<Sample>* samples);

  const std::string root_;
  const uint32_t most_;
  const CpuReader read_cpu_;
  std::vector<Entry> entries_;  // by number
  uint32_t left_out_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace pitot::host

#endif  // PITOT_LIB_COLLECT_HOST_THREADS_H_
