// SPDX-License-Identifier: Apache-2.0
//
// The neighbours of the judged request: lanes of report.html, over the request's time.
#ifndef PITOT_LIB_ANALYZE_JUDGE_NEIGHBOURS_H_
#define PITOT_LIB_ANALYZE_JUDGE_NEIGHBOURS_H_

#include <string>
#include <vector>

#include "analyze/judge/lanes.h"
#include "pitot/analyze/judgement.h"

namespace pitot::judge {

struct Lanes {
  std::string title;
  std::vector<Lane> lanes;
  std::string more;  // the number left out; "": none
};

// The members of the batch with most of the excess: how long each stayed, its work, whose fault it was.
// At most 7 lanes, the culprit first, then the request itself and the largest. No lanes if there was no such batch.
Lanes MembersOfStep(const Judgement& of);
// The scopes, waits and GPU work of each culprit of the tree meanwhile. At most 4 lanes.
Lanes CulpritsMeanwhile(const Judgement& of);

}  // namespace pitot::judge

#endif  // PITOT_LIB_ANALYZE_JUDGE_NEIGHBOURS_H_
