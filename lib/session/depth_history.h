// SPDX-License-Identifier: Apache-2.0
//
// How deep the process was recorded recently, and why. The depth in force when an incident is copied (armed, because
// something fired) tells nothing about its request.
#ifndef PITOT_LIB_SESSION_DEPTH_HISTORY_H_
#define PITOT_LIB_SESSION_DEPTH_HISTORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/depth_name.h"
#include "pitot/depth.h"

namespace pitot::session {

// A depth and its reason, from a moment (CLOCK_MONOTONIC) until the next.
struct DepthChange {
  int64_t at_ns = 0;
  Depth depth = Depth::kScopes;
  char why[96] = "";  // as governor::Report::state
  bool IsLike(const DepthChange& other) const { return depth == other.depth && std::strcmp(why, other.why) == 0; }
};

// The last 512 changes: a measuring governor makes some five a second. Not thread-safe. No allocation except for the
// answer's. Memory: 56 KiB.
class DepthHistory {
 public:
  static constexpr size_t kMost = 512;

  // Notes the depth in force from its time on. Times do not go back.
  void Note(const DepthChange& change) noexcept {
    if (count_ == 0 || !changes_[(count_ - 1) % kMost].IsLike(change)) changes_[count_++ % kMost] = change;
  }
  // The depths in force from then on, oldest first. Errors: std::bad_alloc.
  std::vector<DepthChange> Since(int64_t begin_ns) const {
    std::vector<DepthChange> changes;
    for (size_t i = count_ - std::min(count_, kMost); i < count_; ++i) {
      if (changes_[i % kMost].at_ns <= begin_ns) changes.clear();
      changes.push_back(changes_[i % kMost]);
    }
    return changes;
  }

 private:
  DepthChange changes_[kMost];
  size_t count_ = 0;
};

// "scopes (holding scopes; measuring kernels)" for the time from `begin_ns` to `end_ns`. Or the four depths with most
// of it, with shares of the known time: "scopes (...) 80 %, kernels (armed: kernels) 20 %". "" if none is known.
inline std::string DepthText(const std::vector<DepthChange>& changes, int64_t begin_ns, int64_t end_ns) {
  constexpr size_t kMostNamed = 4;
  struct Part {
    const DepthChange* of;
    int64_t ns;
  };
  std::vector<Part> parts;
  int64_t all_ns = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    const int64_t until_ns = i + 1 < changes.size() ? std::min(changes[i + 1].at_ns, end_ns) : end_ns;
    const int64_t ns = until_ns - std::max(changes[i].at_ns, begin_ns);
    if (ns <= 0) continue;
    all_ns += ns;
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.of->IsLike(changes[i]); });
    same != parts.end() ? void(same->ns += ns) : parts.push_back({&changes[i], ns});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.ns > b.ns; });
  if (parts.size() > kMostNamed) parts.resize(kMostNamed);
  std::string text;
  for (const Part& part : parts) {
    text += std::string(text.empty() ? "" : ", ") + base::DepthName(part.of->depth) + " (" + part.of->why + ")";
    if (part.ns == all_ns) break;
    char share[16];
    std::snprintf(share, sizeof share, " %.3g %%", 100 * static_cast<double>(part.ns) / static_cast<double>(all_ns));
    text += share;
  }
  return text;
}

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_DEPTH_HISTORY_H_
