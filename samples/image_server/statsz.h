// SPDX-License-Identifier: Apache-2.0
//
// The body of GET /statsz.
#ifndef SAMPLES_IMAGE_SERVER_STATSZ_H_
#define SAMPLES_IMAGE_SERVER_STATSZ_H_

#include <string>

#include "pitot/recorder.h"

namespace image_server {

// {"recorder": {"status": "ok", ...pitot::Stats}, "process": {"cpu_seconds": ..., "resident_bytes": ...}}
std::string StatszJson(const pitot::Recorder& recorder);

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_STATSZ_H_
