// SPDX-License-Identifier: Apache-2.0
//
// A trace in a form for comparison in tests: names and values instead of rows and indices.
#ifndef PITOT_TEST_FAKES_TRACE_TEXT_H_
#define PITOT_TEST_FAKES_TRACE_TEXT_H_

#include <bit>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"

namespace fakes {

inline std::string Text(const pitot::model::Trace& trace, pitot::model::StringId id) {
  return std::string(trace.strings[id]);
}

// "" if the key does not exist.
inline std::string Attribute(const pitot::model::Trace& trace, std::string_view key) {
  for (const auto& attribute : trace.attributes) {
    if (trace.strings[attribute.key] == key) return Text(trace, attribute.value);
  }
  return "";
}

struct EventText {
  std::string name;
  std::string thread;
  int64_t begin_ns;
  int64_t duration_ns;
  uint64_t request_id;  // 0: none
  uint64_t batch_id;
  std::vector<std::pair<std::string, std::string>> args;
  bool operator==(const EventText&) const = default;
};

inline std::string ArgText(const pitot::model::Trace& trace, pitot::ArgType type, uint64_t value) {
  std::ostringstream text;
  switch (type) {
    case pitot::ArgType::kInt:
      text << static_cast<int64_t>(value);
      break;
    case pitot::ArgType::kUint:
      text << value;
      break;
    case pitot::ArgType::kDouble:
      text << std::bit_cast<double>(value);
      break;
    case pitot::ArgType::kBool:
      text << (value != 0 ? "true" : "false");
      break;
    default:
      text << trace.strings[static_cast<pitot::model::StringId>(value)];
      break;
  }
  return text.str();
}

inline EventText Event(const pitot::model::Trace& trace, uint32_t event) {
  const auto& events = trace.events;
  EventText out;
  out.name = trace.EventName(event);
  out.thread = trace.strings[trace.threads[events.thread[event]].name];
  out.begin_ns = events.begin_ns[event];
  out.duration_ns = events.duration_ns[event];
  out.request_id = events.request[event] != pitot::model::kNone ? trace.requests[events.request[event]].id : 0;
  out.batch_id = events.batch[event] != pitot::model::kNone ? trace.batches[events.batch[event]].id : 0;
  const pitot::model::SiteRow& site = trace.sites[events.site[event]];
  if (events.args[event] == pitot::model::kNone) return out;
  for (uint32_t i = 0; i < site.arg_types.size(); ++i) {
    out.args.emplace_back(trace.strings[site.arg_names[i]],
                          ArgText(trace, site.arg_types[i], trace.arg_values[events.args[event] + i]));
  }
  return out;
}

inline std::vector<EventText> Events(const pitot::model::Trace& trace) {
  std::vector<EventText> out;
  for (uint32_t i = 0; i < trace.events.size(); ++i) out.push_back(Event(trace, i));
  return out;
}

inline std::vector<EventText> EventsNamed(const pitot::model::Trace& trace, const std::string& name) {
  std::vector<EventText> out;
  for (uint32_t i = 0; i < trace.events.size(); ++i) {
    if (trace.EventName(i) == name) out.push_back(Event(trace, i));
  }
  return out;
}

// Null if the request does not exist.
inline const pitot::model::RequestRow* RequestOf(const pitot::model::Trace& trace, uint64_t id) {
  for (const pitot::model::RequestRow& row : trace.requests) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_TRACE_TEXT_H_
