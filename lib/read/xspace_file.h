// SPDX-License-Identifier: Apache-2.0
//
// Reads an XSpace (xplane.pb): planes of lines of events, and tables of their names.
#ifndef PITOT_LIB_READ_XSPACE_FILE_H_
#define PITOT_LIB_READ_XSPACE_FILE_H_

#include <cstdint>
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

// A named value, as a text.
struct XSpaceStat {
  std::string key, text;
  bool is_text = false;
};

struct XSpacePlaneHead {
  struct Name {
    std::string name;
    std::vector<XSpaceStat> stats;  // of all events of that name
  };
  std::string name;
  std::unordered_map<uint64_t, Name> events;        // by id
  std::unordered_map<uint64_t, std::string> stats;  // names, also texts of stats
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
