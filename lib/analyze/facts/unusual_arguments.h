// SPDX-License-Identifier: Apache-2.0
//
// Arguments of a scope much larger than usual: "n_prompt 2578, usually 55".
#ifndef PITOT_LIB_ANALYZE_FACTS_UNUSUAL_ARGUMENTS_H_
#define PITOT_LIB_ANALYZE_FACTS_UNUSUAL_ARGUMENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyze/facts/patience.h"
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

// The usual numbers of a trace's scopes: medians of eight or more scopes of the same site and name.
class UsualArguments {
 public:
  // One pass over the events, and a sort of at most 4,096 scopes of each name. The trace must outlive this. Throws
  // Over.
  UsualArguments(const model::Trace& trace, Patience* patience);

  // The numbers of a scope beyond twice the usual. A number that only grows, like one of steps done, is left out. At
  // most two, the largest by its usual first. If `event` has none, those of the nearest scope around it. O(log n), and
  // the scopes around it.
  UnusualArguments Find(uint32_t event) const;
  // " (n_prompt 2578, usually 55)", " of "forward" (n_prompt 2578, usually 55)"; "" if all is as usual.
  std::string Text(uint32_t event) const;

 private:
  struct Scope {
    uint32_t event;
    uint32_t around;  // place in the thread's list of the scope around it; kNone: there is none
  };
  struct Like;
  void Add(uint32_t event);
  std::vector<UnusualArgument> FindIn(uint32_t event) const;
  std::vector<uint32_t> AndAround(uint32_t event) const;

  const model::Trace& trace_;
  std::vector<std::vector<Scope>> of_threads_;  // scopes with numbers, by begin; empty: there are none
  std::map<std::pair<uint32_t, model::StringId>, std::vector<double>> usual_;  // by site and name: NaN is not known
};

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_UNUSUAL_ARGUMENTS_H_
