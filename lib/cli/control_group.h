// SPDX-License-Identifier: Apache-2.0
//
// The limits of this process's control group (cgroup v1 or v2).
#ifndef PITOT_LIB_CLI_CONTROL_GROUP_H_
#define PITOT_LIB_CLI_CONTROL_GROUP_H_

#include <cstdint>
#include <string>

namespace pitot::cli {

// The directory of its group for a v1 controller, or the v2 one (""). "": there is none.
std::string CgroupDirectory(const std::string& controller);
// The first line of a file; "": it cannot be read.
std::string FirstLine(const std::string& path);

struct MemoryLimit {
  bool is_known = false, is_limited = false;
  uint64_t limit = 0, used = 0;  // bytes
  std::string version;           // "cgroup v2"
};
MemoryLimit ReadMemoryLimit();

// What this process may still take: of its group's limit, and of the machine. Bytes.
uint64_t FreeMemory();

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_CONTROL_GROUP_H_
