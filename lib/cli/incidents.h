// SPDX-License-Identifier: Apache-2.0
//
// Incidents on disk: the parts of their names, the dumps below a folder, and which of these are of one moment.
#ifndef PITOT_LIB_CLI_INCIDENTS_H_
#define PITOT_LIB_CLI_INCIDENTS_H_

#include <string>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::cli {

inline constexpr char kDumpFile[] = "dump.pitot";
inline constexpr int kLevelsBelow = 3;  // folders below the named one that are searched

// The parts of an incident directory's name: "2026-11-21T01:53:59Z", "0007", "latency-classify"; all "" for another
// name.
struct NameParts {
  std::string at, number, trigger;
};
NameParts PartsOf(const std::string& name);

// The dumps in the subfolders of `folder`, three levels deep, the oldest first: the dump.pitot of a subfolder,
// otherwise all its files *.pitot. Hidden ones are left out.
std::vector<std::string> DumpsBelow(const std::string& folder);

// For a folder with incidents below it: a message that counts the files *.pitot in it, which are left out.
void ComplainOfDumpsIn(const std::string& folder);

// The last of `dumps`, and those of other processes that recorded the same moment: their windows overlap, on the clock
// of one machine since its last start. In the order of `dumps`.
std::vector<std::string> OfLastMoment(const std::vector<std::string>& dumps);

// A short name for each path, by which they differ: "rank0" of "in/rank0.json", and for a dump.pitot that of its
// directory. The paths themselves if they differ in extensions only.
std::vector<std::string> ShortNames(const std::vector<std::string>& paths);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_INCIDENTS_H_
