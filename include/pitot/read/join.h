// SPDX-License-Identifier: Apache-2.0
//
// Joins traces of several processes, or several files about one, into one trace: ranks of a training job, workers of a
// server, a dump and a profiler's trace of the same incident. For tools: component `reader`.
#ifndef PITOT_READ_JOIN_H_
#define PITOT_READ_JOIN_H_

#include <stdint.h>

#include <string>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

struct TracePart {
  std::string name;  // stands before the names of its threads: "rank 0"
  model::Trace trace;
  std::string format = {};  // of its file, for people: "dump 1.4"; "" if unknown
};

struct JoinReport {
  // The names of parts whose window overlaps no other's, on the common clock.
  std::vector<std::string> apart;
  // If several parts have GPUs: those of unknown UUID. One that several parts used is counted in each.
  uint64_t devices_without_uuid = 0;
};

// Puts all parts on the clock of the first: by the monotonic clock if they were recorded on one machine since its last
// start, otherwise by their dates. Their threads, devices and process-wide counters have the part's name before their
// own. Requests of other processes than the first's get the label "service.name". Rows that are open at the end of
// their part's window end there if others go on; `end_known` of requests stays false. What one part's format cannot say
// (attribute "not_recorded") the joined trace does not either. Devices with the same UUID (attribute
// "gpu.<ordinal>.uuid") become one; then its streams have the part's name. Requests with an id that an earlier part has
// get another. What a judge had learned is the first part's. The attribute "joined.0" is the name of the first part,
// and "joined.0.format", "joined.0.process", "joined.0.pid" and "joined.0.host" say more. `parts` are used up. `report`
// may be null. Errors: kInvalidArgument if a part has no date or is from another time, if two are of one process and
// their windows overlap, or if they do not fit into one trace; it names them. kResourceExhausted.
PITOT_EXPORT Status JoinTraces(std::vector<TracePart>* parts, model::Trace* joined,
                               JoinReport* report = nullptr) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_READ_JOIN_H_
