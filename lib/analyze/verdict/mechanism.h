// SPDX-License-Identifier: Apache-2.0
//
// Sentences about causes begin with a predicate of the request: "waited 13.5 ms for its executor".
#ifndef PITOT_LIB_ANALYZE_VERDICT_MECHANISM_H_
#define PITOT_LIB_ANALYZE_VERDICT_MECHANISM_H_

#include <string>

#include "analyze/verdict/namespace.h"
#include "pitot/analyze/why.h"

namespace pitot::verdict {

struct Took {
  Blame blame;
  std::string time;        // a duration in words
  bool is_counted = true;  // false: code or not recorded, and no counter shows whether its thread had a CPU
  bool has_run = false;    // code or not recorded, and samples show that its thread did not sleep
  bool may_await_driver = false;
  bool is_stop = false;  // the interpreter had stopped all threads, and no collection is known
};

std::string Mechanism(const Took& took);

// Adds the place of all of its time, in the words of Places::Of: "waited 13.5 ms for its executor in queue "images"". A
// call or a kernel follows a colon.
std::string MechanismAt(const Took& took, const std::string& place);

// The same where stacks show the place: "spent 150 ms in recv below fetch (app.py:88) on http".
std::string MechanismSeenAt(const Took& took, const std::string& place);

// Adds the place of a `part` of it: "spent 16.0 ms on model code, 9.00 ms of it in "forward" on executor".
std::string MechanismPartlyAt(const Took& took, const std::string& place, const std::string& part);

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_MECHANISM_H_
