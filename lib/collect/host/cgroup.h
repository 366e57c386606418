// SPDX-License-Identifier: Apache-2.0
//
// How long the CPU quota has held the process back: the quotas of its own cgroup and of those above it, v1 or v2.
#ifndef PITOT_LIB_COLLECT_HOST_CGROUP_H_
#define PITOT_LIB_COLLECT_HOST_CGROUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collect/host/file.h"

namespace pitot::host {

class Quota {
 public:
  // `root` is a prefix of /proc, and of the mount points in /proc/self/mountinfo.
  explicit Quota(std::string root) : root_(std::move(root)), membership_(root_ + "/proc/self/cgroup") {}

  struct Throttled {
    uint64_t ns = 0, periods = 0;
  };
  // The totals since the first call. A process moved to another cgroup goes on with the new one; the first call after a
  // move may allocate. Cost: 1 us and 1 us for each level.
  Throttled Read();
  // Whether there is a cgroup with the CPU controller; valid after Read.
  bool is_there() const { return !levels_.empty(); }
  bool IsV2() const { return is_v2_; }

 private:
  void Find(std::string_view membership);

  const std::string root_;
  const File membership_;
  std::string known_;         // the text of /proc/self/cgroup at the last Find
  std::vector<File> levels_;  // cpu.stat, the process's own first
  bool is_v2_ = false, has_last_ = false;
  Throttled last_, total_;
};

}  // namespace pitot::host

#endif  // PITOT_LIB_COLLECT_HOST_CGROUP_H_
