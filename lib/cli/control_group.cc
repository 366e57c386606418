// SPDX-License-Identifier: Apache-2.0
#include "cli/control_group.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace pitot::cli {

// This process's cgroup directory for a v1 controller, or the v2 one ("").
std::string CgroupDirectory(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    const bool is_it = controller.empty()
                           ? parts[0] == "0" && parts[1].empty()
                           : std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
    if (!is_it) continue;
    // Inside a container the mount shows the group itself as its root.
    const std::string mount = controller.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + parts[1];
    for (const std::string& directory : {mount + parts[2], mount, std::string("/sys/fs/cgroup/unified") + parts[2]}) {
      if (access(directory.c_str(), R_OK) == 0) return directory;
    }
  }
  return "";
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

namespace {

// Pages of files that the kernel takes back when it needs them count as used.
uint64_t InactiveFiles(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t bytes = 0;
    if (words.size() == 2 && words[0] == name && absl::SimpleAtoi(words[1], &bytes)) return bytes;
  }
  return 0;
}

}  // namespace

MemoryLimit ReadMemoryLimit() {
  MemoryLimit memory;
  uint64_t inactive = 0;
  if (const std::string v2 = CgroupDirectory(""); !v2.empty() && access((v2 + "/memory.max").c_str(), R_OK) == 0) {
    memory.version = "cgroup v2", memory.is_known = true;
    memory.is_limited = absl::SimpleAtoi(FirstLine(v2 + "/memory.max"), &memory.limit);
    (void)absl::SimpleAtoi(FirstLine(v2 + "/memory.current"), &memory.used);
    inactive = InactiveFiles(v2 + "/memory.stat", "inactive_file");
  } else if (const std::string v1 = CgroupDirectory("memory"); !v1.empty()) {
    memory.version = "cgroup v1";
    memory.is_known = absl::SimpleAtoi(FirstLine(v1 + "/memory.limit_in_bytes"), &memory.limit);
    memory.is_limited = memory.is_known && memory.limit < (uint64_t{1} << 60);
    (void)absl::SimpleAtoi(FirstLine(v1 + "/memory.usage_in_bytes"), &memory.used);
    inactive = InactiveFiles(v1 + "/memory.stat", "total_inactive_file");
  }
  memory.used -= std::min(memory.used, inactive);
  return memory;
}

uint64_t FreeMemory() {
  uint64_t free = UINT64_MAX;
  const MemoryLimit memory = ReadMemoryLimit();
  if (memory.is_limited) free = memory.limit > memory.used ? memory.limit - memory.used : 0;
  std::ifstream machine("/proc/meminfo");
  for (std::string line; std::getline(machine, line);) {
    uint64_t kb = 0;
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() >= 2 && words[0] == "MemAvailable:" && absl::SimpleAtoi(words[1], &kb))
      free = std::min(free, kb * 1024);
  }
  return free;
}

}  // namespace pitot::cli
