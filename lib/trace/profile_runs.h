// SPDX-License-Identifier: Apache-2.0
//
// When kernels were profiled in this process: from the tool (collect/profile) to incidents (collect/cuda_calls),
// because launches take longer meanwhile.
#ifndef PITOT_LIB_TRACE_PROFILE_RUNS_H_
#define PITOT_LIB_TRACE_PROFILE_RUNS_H_

#include <cstdint>

namespace pitot::trace {

inline constexpr uint32_t kMostProfileRuns = 64;

// A run, for the life of the object. One at a time. CLOCK_MONOTONIC.
class ProfileRun {
 public:
  ProfileRun() noexcept;
  ~ProfileRun();
  ProfileRun(const ProfileRun&) = delete;
  ProfileRun& operator=(const ProfileRun&) = delete;
};

struct ProfileRuns {
  struct Run {
    int64_t begin_ns, end_ns;  // INT64_MAX: it goes on
  };
  Run runs[kMostProfileRuns];  // the newest first
  uint32_t count = 0;
  bool are_all = true;  // false: older ones within that time are forgotten
};
// The runs that overlapped with this time; none of a parent process. Threads: any, at any time.
ProfileRuns ProfileRunsWithin(int64_t begin_ns, int64_t end_ns) noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_PROFILE_RUNS_H_
