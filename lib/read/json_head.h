// SPDX-License-Identifier: Apache-2.0
//
// What the beginning of a file says if it is JSON with a list of events: enough to tell the tools apart that write such
// files.
#ifndef PITOT_LIB_READ_JSON_HEAD_H_
#define PITOT_LIB_READ_JSON_HEAD_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace pitot::read {

struct JsonHead {
  bool is_json = false;           // begins like an object or a list
  bool has_events = false;        // a list of events has begun: "traceEvents", or one without an object around it
  bool is_bare = false;           // without an object around it
  bool is_cut = false;            // it ends before its list of events does
  uint64_t values = 0;            // members of that list
  uint64_t events = 0;            // those with a phase
  std::set<std::string> members;  // next to the events
  std::map<std::string, uint64_t> categories;  // of events; the first hundred
  std::set<std::string> arguments;             // names, of events; the first hundred
  std::set<std::string> processes;             // names; the first hundred

  bool HasMember(std::string_view name) const { return members.count(std::string(name)) != 0; }
  bool HasCategory(std::string_view name) const { return categories.count(std::string(name)) != 0; }
  bool HasProcess(std::string_view prefix) const;
};

// `bytes` is the beginning of a text, or all of it. The first 256 KiB are looked at; all bytes if no event ends there.
JsonHead LookAtJson(std::string_view bytes);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_JSON_HEAD_H_
