// SPDX-License-Identifier: Apache-2.0
//
// Lanes of `pitot view`, and the texts that they share.
#ifndef PITOT_LIB_CLI_VIEW_LANES_H_
#define PITOT_LIB_CLI_VIEW_LANES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pitot/model/types.h"

namespace pitot::cli::view {

// What an item is. The page has the same numbers (view/data.js).
enum class ItemKind : uint8_t {
  kScope = 0,
  kOperator = 1,
  kWait = 2,
  kInstant = 3,
  kCall = 4,
  kWaitingCall = 5,  // waits for a GPU
  kKernel = 6,
  kCopy = 7,
  kSet = 8,
  kGraph = 9,
  kSpan = 10,
  kRequest = 11,
  kStage = 12,
  kBatch = 13,
  kQueue = 14,
  kAsync = 15,
  kWatch = 16,  // a watcher's record: no work of the thread
  kOverhead = 17,
  kBlame = 18,  // a step of the walk
};

// The table that an item is a row of.
enum class Source : uint8_t { kNone, kEvent, kCall, kGpu, kRequest, kBatch };
inline constexpr size_t kSources = 6;

struct Row {
  Source source = Source::kNone;
  uint32_t row = model::kNone;
};

struct Item {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t name = 0;  // of Texts
  ItemKind kind = ItemKind::kScope;
  bool is_open = false;
  uint32_t level = 0;  // line of its lane
  uint32_t request = model::kNone;
  uint32_t batch = model::kNone;
  uint32_t site = model::kNone;
  Row of;     // what it shows
  Row cause;  // the call that launched it; the evidence of a step
};

struct Lane {
  std::string group;  // "Threads"
  std::string name;
  bool nests = false;            // items are within each other: those of one thread
  int64_t known_ns = INT64_MIN;  // its record is complete from here on
};

// A quantity over time.
struct ViewedCounter {
  std::string group, name, unit;
  std::vector<std::pair<int64_t, double>> samples;  // in order; not a number: unknown from then on
};

// Each text once.
class Texts {
 public:
  uint32_t Of(std::string_view text) {
    const auto [found, is_new] = places_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(&found->first);
    return found->second;
  }
  const std::vector<const std::string*>& all() const { return texts_; }

 private:
  std::unordered_map<std::string, uint32_t> places_;
  std::vector<const std::string*> texts_;
};

// Takes a lane with its items by begin, the longer first. Lanes come from top to bottom.
using TakeLane = std::function<void(const Lane&, const std::vector<Item>&)>;

// What lies on the lanes of one trace.
struct Lanes {
  uint32_t items = 0;
  std::vector<ViewedCounter> counters;
  std::vector<uint32_t> places[kSources];  // by table: the item of each row, or kNone
  uint32_t Place(Row row) const {
    const std::vector<uint32_t>& rows = places[static_cast<size_t>(row.source)];
    return row.row < rows.size() ? rows[row.row] : model::kNone;
  }
};

}  // namespace pitot::cli::view

#endif  // PITOT_LIB_CLI_VIEW_LANES_H_
