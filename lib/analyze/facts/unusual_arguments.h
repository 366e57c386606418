// SPDX-License-Identifier: Apache-2.0
//
// Arguments of a scope much larger than usual: "n_prompt 2578, usually 55".
#ifndef PITOT_LIB_ANALYZE_FACTS_UNUSUAL_ARGUMENTS_H_
#define PITOT_LIB_ANALYZE_FACTS_UNUSUAL_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::facts {

struct UnusualArgument {
  model::StringId name = 0;
  double value = 0, usual = 0;
};

struct UnusualArguments {
  uint32_t scope = model::kNone;  // an event; kNone: there are none
  std::vector<UnusualArgument> all;
};

// The numbers of a scope beyond twice the median of its like: eight or more scopes of the same site and name. A number
// that only grows, like one of steps done, is left out. At most two, the largest by its usual first. If `event` has
// none, those of the nearest scope around it. O(events) for each scope with numbers.
UnusualArguments FindUnusualArguments(const model::Trace& trace, uint32_t event);

// " (n_prompt 2578, usually 55)", " of "forward" (n_prompt 2578, usually 55)"; "" if all is as usual.
std::string UnusualText(const model::Trace& trace, uint32_t event);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_UNUSUAL_ARGUMENTS_H_
