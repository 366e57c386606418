// SPDX-License-Identifier: Apache-2.0
//
// A format of files, and its reader. To add one: a file with a `const Format`, and a line in formats.h.
#ifndef PITOT_LIB_READ_FORMAT_H_
#define PITOT_LIB_READ_FORMAT_H_

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/read/trace.h"
#include "pitot/status.h"
#include "read/input.h"
#include "read/json_head.h"

namespace pitot::read {

// The beginning of a file's content, unpacked.
struct Head {
  std::string bytes;
  bool is_gzip = false;
  bool is_whole = false;  // it is the whole content
  JsonHead json;
  bool is_database = false;  // of SQLite
  std::set<std::string> tables;
  std::string database_problem;  // why its tables are not known

  // Whether it is JSON that goes on before its first event ends.
  bool IsCutJson() const { return json.is_json && json.values == 0 && !is_whole; }
};

// Adds to what is wrong with a file, for people.
inline void AddProblem(const std::string& problem, TraceReport* report) {
  report->problems += (report->problems.empty() ? "" : "; ") + problem;
}

struct Format {
  const char* id;      // TraceReport::format
  const char* name;    // TraceReport::name
  const char* plural;  // in a list of formats: "Pitot's dumps"
  const char* tool;    // its writer; a reader may know better
  const char* advice;  // for a file without events: what to do in the tool
  std::vector<const char*> lacks;
  std::vector<std::pair<const char*, const char*>> how;  // TraceReport::how
  bool (*recognizes)(const Head& head);
  // Fills an empty trace, and the report's complete, events, events_bad, problems and counts.
  Status (*read)(const Input& input, model::Trace* trace, TraceReport* report);
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_FORMAT_H_
