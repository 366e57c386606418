// SPDX-License-Identifier: Apache-2.0
#include "session/box_room.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "session/post_mortem.h"

namespace pitot::session {
namespace {

// In a tmpfs, one black box takes at most one in so many of the free bytes: others need them, too.
constexpr uint64_t kFreePerBox = 2;

bool IsOwnFile(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
}

// Oldest first. They are locked while they are in the list: nobody else reads them.
std::vector<std::unique_ptr<FoundBox>> DeadBoxesIn(const std::vector<std::string>& paths) {
  std::vector<std::unique_ptr<FoundBox>> dead;
  for (const std::string& path : paths) {
    if (!IsOwnFile(path)) continue;
    auto box = std::make_unique<FoundBox>(path);
    if (box->Look() == FoundBox::Life::kDead) dead.push_back(std::move(box));
  }
  std::sort(dead.begin(), dead.end(), [](const auto& a, const auto& b) {
    return a->reader().facts().last.realtime_ns < b->reader().facts().last.realtime_ns;
  });
  return dead;
}

}  // namespace

std::string DoubtAboutRoom(const std::string& directory, uint64_t bytes) {
  struct statfs system {};
  if (statfs(directory.c_str(), &system) != 0 || system.f_type != TMPFS_MAGIC) return "";
  const uint64_t free = static_cast<uint64_t>(system.f_bavail) * static_cast<uint64_t>(system.f_bsize);
  if (free / kFreePerBox >= bytes) return "";
  char text[160];
  std::snprintf(text, sizeof text, "it has %.0f MiB free, and %.0f are needed (a half stays for others)",
                static_cast<double>(free) / (1 << 20), static_cast<double>(bytes * kFreePerBox) / (1 << 20));
  return text;
}

std::vector<std::string> MakeBoxRoom(const std::string& directory, uint64_t bytes) {
  const std::vector<std::string> paths = BoxesIn(directory);
  std::vector<std::string> removed;
  if (paths.size() <= kMostDeadBoxes && DoubtAboutRoom(directory, bytes).empty()) return removed;
  std::vector<std::unique_ptr<FoundBox>> dead = DeadBoxesIn(paths);
  for (size_t i = 0; i + 1 < dead.size(); ++i) {
    const std::string doubt = DoubtAboutRoom(directory, bytes);
    if (dead.size() - i <= kMostDeadBoxes && doubt.empty()) break;
    const snapshot::BoxFacts& facts = dead[i]->reader().facts();
    std::string line = "removed the black box of " + facts.process_name + " (process " + std::to_string(facts.pid) +
                       "), which nobody had read: " + dead[i]->path() + ": ";
    line += doubt.empty() ? "there are more than " + std::to_string(kMostDeadBoxes) : doubt;
    dead[i]->Remove();
    dead[i].reset();  // its pages go with the last mapping
    removed.push_back(std::move(line));
  }
  return removed;
}

}  // namespace pitot::session
