// SPDX-License-Identifier: Apache-2.0
//
// What an incident is about, in words that are the same whenever the same happens: the route, the root or the first
// cause with its place, and whose it is. No ids, and no digits except in routes: threads of a pool differ in their
// numbers.
#ifndef PITOT_LIB_ANALYZE_JUDGE_SIGNATURE_H_
#define PITOT_LIB_ANALYZE_JUDGE_SIGNATURE_H_

#include <string>

#include "analyze/judge/namespace.h"
#include "pitot/analyze/asked.h"
#include "pitot/analyze/judgement.h"

namespace pitot::judge {

// "/classify: host_lock in "cache" on http, of /report", "scope step on engine: lock weights", "/classify: failed".
// `judgement` is of the asked request; null: there is none. "" if nothing says what it is about. Throws std::bad_alloc.
std::string Signature(const BlameIndex& index, const Asked& asked, const Judgement* judgement);

// A verdict for programs (FiredJson) with the members "signature" and "excess_ns" first. Throws std::bad_alloc.
std::string WithSignature(const std::string& json, const std::string& signature, int64_t excess_ns);

}  // namespace pitot::judge

#endif  // PITOT_LIB_ANALYZE_JUDGE_SIGNATURE_H_
