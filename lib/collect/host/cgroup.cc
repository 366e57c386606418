// SPDX-License-Identifier: Apache-2.0
#include "collect/host/cgroup.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace pitot::host {
namespace {

// A quota deeper than this below the mount is not found.
constexpr size_t kMostLevels = 8;

bool HasItem(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    if (TakeUntil(&list, ',') == item) return true;
  }
  return false;
}

// Where a hierarchy is mounted, and its folder shown there.
struct Mount {
  std::string root, point;
  bool is_there = false;
};

// proc(5): "36 35 98:0 ROOT POINT options optional* - TYPE source SUPER".
Mount FindMount(std::string_view mountinfo, bool is_v2) {
  while (!mountinfo.empty()) {
    std::string_view line = TakeUntil(&mountinfo, '\n');
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view after = line.substr(dash + 3);
    for (int skipped = 0; skipped < 3; ++skipped) TakeUntil(&line, ' ');
    Mount mount;
    mount.root = TakeUntil(&line, ' ');
    mount.point = TakeUntil(&line, ' ');
    const std::string_view type = TakeUntil(&after, ' ');
    TakeUntil(&after, ' ');
    mount.is_there = is_v2 ? type == "cgroup2" : type == "cgroup" && HasItem(after, "cpu");
    if (mount.is_there) return mount;
  }
  return {};
}

// Finds the process's path in a hierarchy: v1's with the CPU controller, or v2's.
bool FindPath(std::string_view membership, bool is_v2, std::string* path) {
  while (!membership.empty()) {
    std::string_view line = TakeUntil(&membership, '\n');
    const std::string_view number = TakeUntil(&line, ':'), controllers = TakeUntil(&line, ':');
    if (is_v2 ? number != "0" || !controllers.empty() : !HasItem(controllers, "cpu")) continue;
    *path = line;
    return true;
  }
  return false;
}

}  // namespace

void Quota::Find(std::string_view membership) {
  known_ = membership;
  levels_.clear();
  has_last_ = false;
  const std::string mountinfo = ReadWhole(root_ + "/proc/self/mountinfo");
  for (const bool is_v2 : {false, true}) {
    const Mount mount = FindMount(mountinfo, is_v2);
    std::string path;
    if (!mount.is_there || !FindPath(membership, is_v2, &path)) continue;
    // In a container the mount may show the process's own cgroup as its root.
    if (mount.root != "/" && path.compare(0, mount.root.size(), mount.root) == 0) path = path.substr(mount.root.size());
    while (levels_.size() < kMostLevels) {
      File stat(root_ + mount.point + path + "/cpu.stat");
      char text[1024];
      if (NumberAfter(stat.Read(text), "nr_throttled ")) levels_.push_back(std::move(stat));
      if (path.empty()) break;
      path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
    }
    is_v2_ = is_v2;
    if (!levels_.empty()) return;
  }
}

Quota::Throttled Quota::Read() {
  char text[4096];
  if (const std::string_view membership = membership_.Read(text); membership != known_) Find(membership);
  Throttled now;
  for (const File& level : levels_) {
    char stat[1024];
    const std::string_view said = level.Read(stat);
    now.periods += NumberAfter(said, "nr_throttled ").value_or(0);
    now.ns +=
        NumberAfter(said, "throttled_time ").value_or(0) + NumberAfter(said, "throttled_usec ").value_or(0) * 1000;
  }
  if (has_last_) {
    total_.ns += now.ns - std::min(last_.ns, now.ns);
    total_.periods += now.periods - std::min(last_.periods, now.periods);
  }
  last_ = now;
  has_last_ = true;
  return total_;
}

}  // namespace pitot::host
