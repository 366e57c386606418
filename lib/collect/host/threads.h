// SPDX-License-Identifier: Apache-2.0
//
// On-CPU time and run-queue delay of the recording threads, as seen from outside.
#ifndef PITOT_LIB_COLLECT_HOST_THREADS_H_
#define PITOT_LIB_COLLECT_HOST_THREADS_H_

#include <cstddef>
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

// The second field of /proc/.../schedstat: "on-CPU ns, run-queue ns, slices". Cost: 0.6 us.
std::optional<uint64_t> ReadRunQueueDelay(int schedstat) noexcept;

class Threads {
 public:
  Threads(std::string root, uint32_t most, CpuReader read_cpu);

  // Adds the changes of threads that are at work, or were since the last round, each at its own time. A thread that
  // neither ran nor recorded anything for a while is read less often. May allocate. Cost: 1.3 us for each that is read.
  // Also opens the files of new threads: 5 us each.
  void Round(base::Timer& timer, std::vector<Sample>* samples);
  // Adds the present values of threads at work, even if they did not change. This includes switches and major faults,
  // otherwise recorded only at a thread's edges. May allocate. Cost: 50 us for each of them.
  void Now(base::Timer& timer, std::vector<Sample>* samples);
  // Takes the threads' files away, before the rings are given up. May allocate.
  void Close();
  // Whether any thread ran or recorded something, as far as the last Round saw.
  bool has_run() const { return has_run_; }
  uint32_t left_out() const { return left_out_; }  // by the last Round or Now
  uint64_t dropped() const { return dropped_; }    // readings ever that took too long at each try

 private:
  struct Entry {
    uint32_t number = 0;  // Pitot's number of the thread
    int64_t tid = 0;
    uint64_t events = 0, events_before = 0;  // recorded; before the last Round
    bool is_at_work = false, has_recorded = false, was_seen = false;
    File schedstat;
    // The last reading, and when one was last added. The first and the last of equal readings are added, and
    // a few between.
    int64_t at_ns = 0, cpu_ns = -1, delay_ns = -1, added_ns = 0;
    int64_t same_since_ns = 0;  // the first reading equal to the last
  };
  void FindThreads();
  void Adopt(trace::ThreadRing* ring, size_t place);
  static bool IsDue(const Entry& entry, int64_t now_ns);
  void Look(Entry* entry, base::Timer& timer, std::vector<Sample>* samples);
  void LookWell(const Entry& entry, base::Timer& timer, std::vector<Sample>* samples);

  const std::string root_;
  const uint32_t most_;
  const CpuReader read_cpu_;
  std::vector<Entry> entries_;  // by number
  bool has_run_ = false;
  uint32_t left_out_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace pitot::host

#endif  // PITOT_LIB_COLLECT_HOST_THREADS_H_
