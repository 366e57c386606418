// SPDX-License-Identifier: Apache-2.0
//
// Reads an XSpace (xplane.pb): planes of lines of events, and tables of their names.
#ifndef PITOT_LIB_READ_XSPACE_FILE_H_
#define PITOT_LIB_READ_XSPACE_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pitot/read/trace.h"
#include "pitot/status.h"
#include "read/chrome_event.h"
#include "read/input.h"

namespace pitot::read {

// A named value, as a text; of a whole number also as such.
struct XSpaceStat {
  std::string key, text;
  bool is_text = false;
  std::optional<int64_t> whole = std::nullopt;
};

// A table by ids, which mostly count from 1.
template <class Value> class XSpaceTable {
 public:
  Value& operator[](uint64_t id) {
    Value& value = values_[id];
    if (id >= kNear) return value;
    if (id >= near_.size()) near_.resize(id + 1);
    return *(near_[id] = &value);
  }
  const Value* Find(uint64_t id) const {
    if (id < kNear) return id < near_.size() ? near_[id] : nullptr;
    const auto found = values_.find(id);
    return found == values_.end() ? nullptr : &found->second;
  }

 private:
  static constexpr uint64_t kNear = 64 << 10;
  std::unordered_map<uint64_t, Value> values_;
  std::vector<Value*> near_;  // those of ids below kNear
};

struct XSpacePlaneHead {
  struct Name {
    std::string name;
    std::vector<XSpaceStat> stats;  // of all events of that name
  };
  std::string name;
  XSpaceTable<Name> events;
  XSpaceTable<std::string> stats;  // names, also texts of stats
  std::vector<XSpaceStat> plane_stats;
  std::vector<std::pair<int64_t, std::string>> lines;  // id and name

  bool HasStat(std::string_view key) const;
  std::string_view StatOf(std::string_view key) const;  // "": missing
};

// Takes the content: all planes' heads, then lines and their events in the file's order.
class XSpaceTarget {
 public:
  virtual ~XSpaceTarget() = default;
  virtual void TakeHeads(const std::vector<XSpacePlaneHead>& planes) = 0;
  // `event` has a name, a begin, a duration and its stats as arguments.
  virtual void Take(size_t plane, int64_t line, const ChromeEvent& event) = 0;
  // An event without a time: a sum of many.
  virtual void Skip() = 0;
  // Whether its writer puts the host's name behind all planes.
  virtual bool EndsWithHostName() const { return false; }
};

// Whether bytes begin like an XSpace: a plane of a known name.
bool IsXSpace(std::string_view bytes);

// Reads the input twice, because the names come after the lines. Fills the report's complete, events, events_bad and
// problems. kDataLoss, with the reason, if the file is cut off or damaged.
// Limits: 64 MiB an event or a name with its details.
Status ReadXSpaceFile(const Input& input, std::vector<XSpacePlaneHead>* planes, XSpaceTarget* target,
                      TraceReport* report);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_XSPACE_FILE_H_
