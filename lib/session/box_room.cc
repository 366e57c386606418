// SPDX-License-Identifier: Apache-2.0
#include "session/box_room.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "session/post_mortem.h"

namespace pitot::session {
namespace {

// In a tmpfs, one black box takes at most one in so many of the free bytes: others need them, too.
constexpr uint64_t kFreePerBox = 2;

struct DeadBox {
  std::string path;
  int64_t written_ns;  // since 1970
  std::string who;
};

// Oldest first. They are not locked: most stay, and whoever makes incidents of them must not find them taken. Files
// that cannot be read, such as another version's, count after an hour, if no process has the lock: one may be in the
// making.
std::vector<DeadBox> DeadBoxesIn(const std::vector<std::string>& paths) {
  constexpr int64_t kHourS = 3600;
  std::vector<DeadBox> dead;
  for (const std::string& path : paths) {
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) continue;
    FoundBox box(path);
    const FoundBox::Life life = box.Peek();
    const snapshot::BoxFacts& facts = box.reader().facts();
    if (life == FoundBox::Life::kDead) {
      std::string who = "of " + facts.process_name + " (process " + std::to_string(facts.pid) + ")";
      dead.push_back({path, facts.last.realtime_ns, std::move(who)});
    } else if (life == FoundBox::Life::kBroken && !box.IsAlive() && info.st_mtime < time(nullptr) - kHourS) {
      std::string who = "that cannot be read (" + box.why() + ")";
      dead.push_back({path, info.st_mtime * int64_t{1'000'000'000}, std::move(who)});
    }
  }
  std::sort(dead.begin(), dead.end(), [](const DeadBox& a, const DeadBox& b) { return a.written_ns < b.written_ns; });
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
  std::vector<DeadBox> dead = DeadBoxesIn(paths);
  for (size_t i = 0; i + 1 < dead.size(); ++i) {
    const std::string doubt = DoubtAboutRoom(directory, bytes);
    if (dead.size() - i <= kMostDeadBoxes && doubt.empty()) break;
    std::string line =
        "removed a black box " + dead[i].who + ", for which there was no incident: " + dead[i].path + ": ";
    line += doubt.empty() ? "there are more than " + std::to_string(kMostDeadBoxes) : doubt;
    FoundBox box(dead[i].path);
    if (box.Look() == FoundBox::Life::kAlive || !box.Remove()) continue;  // somebody may just make an incident of it
    removed.push_back(std::move(line));
  }
  return removed;
}

}  // namespace pitot::session
