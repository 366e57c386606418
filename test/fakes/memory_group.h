// SPDX-License-Identifier: Apache-2.0
//
// A control group with a limit of memory.
#ifndef PITOT_TEST_FAKES_MEMORY_GROUP_H_
#define PITOT_TEST_FAKES_MEMORY_GROUP_H_

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>

namespace fakes {

// A group of its own, of version 1 or 2 of the memory controller. It must outlive its processes.
class MemoryGroup {
 public:
  MemoryGroup() {
    const std::string name = "/pitot_test_" + std::to_string(getpid());
    for (const auto& [parent, limit] :
         {std::pair<std::string, std::string>("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
          std::pair<std::string, std::string>("/sys/fs/cgroup", "memory.max")}) {
      if (mkdir((parent + name).c_str(), 0755) != 0) continue;
      path_ = parent + name;
      limit_ = path_ + "/" + limit;
      if (access(limit_.c_str(), W_OK) == 0) return;
      rmdir(path_.c_str());
      path_.clear();
    }
  }
  ~MemoryGroup() {
    if (!path_.empty()) rmdir(path_.c_str());
  }
  bool Exists() const { return !path_.empty(); }
  // Moves the calling process there. It may have so much memory more than before: its pages stay with the group it
  // left.
  bool Enter(uint64_t bytes) const {
    std::ofstream(path_ + "/memory.swap.max") << 0 << std::flush;  // version 2; without swap there is no such file
    return (std::ofstream(path_ + "/cgroup.procs") << getpid() << std::flush).good() &&
           (std::ofstream(limit_) << bytes << std::flush).good();
  }

 private:
  std::string path_, limit_;
};

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_MEMORY_GROUP_H_
