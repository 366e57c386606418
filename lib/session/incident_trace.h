// SPDX-License-Identifier: Apache-2.0
//
// The part of an incident's trace that is not in its copy: its firings, and facts about the recorder.
#ifndef PITOT_LIB_SESSION_INCIDENT_TRACE_H_
#define PITOT_LIB_SESSION_INCIDENT_TRACE_H_

#include <cstdint>
#include <map>
#include <string>

#include "pitot/model/trace.h"
#include "pitot/stats.h"
#include "session/incident.h"

namespace pitot::session {

// May throw bad_alloc.
void AddFirings(const Incident& incident, model::Trace* trace);
// `stats` counts costs over the last `age_ns`.
void AddFacts(const Incident& incident, const Stats& stats, int64_t age_ns, uint64_t budget_bytes, model::Trace* trace);
// Adds the collectors that could not start: name and reason.
void AddRefused(const std::map<std::string, std::string>& refused, model::Trace* trace);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_INCIDENT_TRACE_H_
