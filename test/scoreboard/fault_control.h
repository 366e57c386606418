// SPDX-License-Identifier: Apache-2.0
//
// Faults over HTTP:
//   POST /faultz   {"active": true, "faults": ["lock_held:rate=0.1,dose_ms=40"]}, both optional
#ifndef PITOT_TEST_SCOREBOARD_FAULT_CONTROL_H_
#define PITOT_TEST_SCOREBOARD_FAULT_CONTROL_H_

#include "scoreboard/fault_schedule.h"
#include "server_common/http_listener.h"

namespace scoreboard {

// Serves it if `options` allow it. `faults` outlives `http`.
void AllowControl(const FaultOptions& options, FaultSchedule* faults, server_common::HttpListener* http);

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_FAULT_CONTROL_H_
