// SPDX-License-Identifier: Apache-2.0
//
// The body of GET /statsz.
#ifndef SAMPLES_SERVER_COMMON_STATSZ_H_
#define SAMPLES_SERVER_COMMON_STATSZ_H_

#include <string>

#include "pitot/recorder.h"

namespace server_common {

// {"recorder": {"status": "ok", ...pitot::Stats}, "process": {"cpu_seconds": ..., "resident_bytes": ...}}
std::string StatszJson(const pitot::Recorder& recorder);

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_STATSZ_H_
