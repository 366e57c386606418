// SPDX-License-Identifier: Apache-2.0
//
// What a verdict is, in words that are the same whenever the same happens: the route, the root or the first cause with
// its place, and whose it is. No ids, and no digits except in routes: threads of a pool differ in their numbers.
#ifndef PITOT_LIB_ANALYZE_JUDGE_SIGNATURE_H_
#define PITOT_LIB_ANALYZE_JUDGE_SIGNATURE_H_

#include <string>

#include "analyze/judge/namespace.h"
#include "pitot/analyze/judgement.h"

namespace pitot::judge {

// "/classify: host_lock in "cache" on http, of /report". Throws std::bad_alloc.
std::string Signature(const Judgement& judgement);

}  // namespace pitot::judge

#endif  // PITOT_LIB_ANALYZE_JUDGE_SIGNATURE_H_
