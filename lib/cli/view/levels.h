// SPDX-License-Identifier: Apache-2.0
//
// The line of a lane on which an item of `pitot view` is drawn. Items of a line never overlap.
#ifndef PITOT_LIB_CLI_VIEW_LEVELS_H_
#define PITOT_LIB_CLI_VIEW_LEVELS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace pitot::cli::view {

// Scopes of a thread: below the one around them. Those that overlap without nesting take the first free line.
class Nesting {
 public:
  static constexpr uint32_t kMost = 254;  // a deeper item has no line: it counts, and is not drawn

  // Items come by begin, the longer first.
  uint32_t LevelOf(int64_t begin_ns, int64_t end_ns) {
    while (!ends_.empty() && ends_.back() <= begin_ns) ends_.pop_back();
    size_t level = ends_.size();
    while (level > 0 && (ends_[level - 1] < end_ns || ends_[level - 1] <= begin_ns)) --level;
    while (level < ends_.size() && ends_[level] > begin_ns) ++level;
    if (level >= kMost) return kMost;
    if (level == ends_.size()) ends_.push_back(end_ns);
    ends_[level] = end_ns;
    return static_cast<uint32_t>(level);
  }

 private:
  std::vector<int64_t> ends_;  // by line
};

// Items without an order among them, such as requests: the first free line.
class Packing {
 public:
  // Items come by begin.
  uint32_t LevelOf(int64_t begin_ns, int64_t end_ns) {
    for (; !busy_.empty() && busy_.top().first <= begin_ns; busy_.pop()) free_.push(busy_.top().second);
    uint32_t level = lines_;
    if (free_.empty()) {
      ++lines_;
    } else {
      level = free_.top();
      free_.pop();
    }
    busy_.push({end_ns, level});
    return level;
  }

 private:
  template <class T> using Lowest = std::priority_queue<T, std::vector<T>, std::greater<>>;
  Lowest<std::pair<int64_t, uint32_t>> busy_;  // end, line
  Lowest<uint32_t> free_;
  uint32_t lines_ = 0;
};

}  // namespace pitot::cli::view

#endif  // PITOT_LIB_CLI_VIEW_LEVELS_H_
