// SPDX-License-Identifier: Apache-2.0
//
// Names and arguments of events.
#ifndef PITOT_LIB_ANALYZE_FACTS_ARGUMENTS_H_
#define PITOT_LIB_ANALYZE_FACTS_ARGUMENTS_H_

#include <string.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::facts {

// The id of an event's name, as Trace::EventName finds it.
inline model::StringId EventNameId(const model::Trace& trace, uint32_t event) {
  const model::SiteRow& site = trace.sites[trace.events.site[event]];
  if (site.name_is_first_arg && trace.events.args[event] != model::kNone)
    return static_cast<model::StringId>(trace.arg_values[trace.events.args[event]]);
  return site.name;
}

// A number's value; 0 for texts.
inline double NumberOf(ArgType type, model::ArgValue value) {
  if (model::IsText(type)) return 0;
  if (type == ArgType::kInt) return static_cast<double>(static_cast<int64_t>(value));
  if (type != ArgType::kDouble) return static_cast<double>(value);
  double number;
  memcpy(&number, &value, sizeof number);
  return number;
}

// An argument by name, looked up once for each site. The trace must outlive this.
class Argument {
 public:
  // O(sites).
  Argument(const model::Trace& trace, std::string_view name) : trace_(trace), place_(trace.sites.size(), model::kNone) {
    for (uint32_t site = 0; site < trace.sites.size(); ++site) {
      const std::vector<model::StringId>& names = trace.sites[site].arg_names;
      for (uint32_t i = 0; i < names.size(); ++i) {
        if (trace.strings[names[i]] == name) place_[site] = i;
      }
      is_anywhere_ |= place_[site] != model::kNone;
    }
  }
  bool is_anywhere() const { return is_anywhere_; }
  // The argument's value; null where the event has none.
  const model::ArgValue* Of(uint32_t event) const {
    const uint32_t place = place_[trace_.events.site[event]], first = trace_.events.args[event];
    return place == model::kNone || first == model::kNone ? nullptr : &trace_.arg_values[first + place];
  }
  // The argument as a number; 0 where the event has none, or a text.
  double Number(uint32_t event) const {
    const model::ArgValue* const value = Of(event);
    if (value == nullptr) return 0;
    return NumberOf(trace_.sites[trace_.events.site[event]].arg_types[place_[trace_.events.site[event]]], *value);
  }
  // The argument as a text; "" where the event has none, or a number.
  std::string_view Text(uint32_t event) const {
    const model::ArgValue* const value = Of(event);
    if (value == nullptr) return {};
    const model::SiteRow& site = trace_.sites[trace_.events.site[event]];
    const bool is_text = model::IsText(site.arg_types[place_[trace_.events.site[event]]]);
    return is_text ? trace_.strings[static_cast<model::StringId>(*value)] : std::string_view();
  }

 private:
  const model::Trace& trace_;
  std::vector<uint32_t> place_;  // by site
  bool is_anywhere_ = false;
};

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_ARGUMENTS_H_
