// SPDX-License-Identifier: Apache-2.0
//
// The server's flight recorder.
#ifndef SAMPLES_DECODE_SERVER_RECORDER_H_
#define SAMPLES_DECODE_SERVER_RECORDER_H_

#include "decode_server/options.h"
#include "pitot/pitot.h"

namespace decode_server {

// Starts recording as the options say. To be called before the network is loaded and threads start.
pitot::Recorder StartRecorder(const Options& options);

}  // namespace decode_server

#endif  // SAMPLES_DECODE_SERVER_RECORDER_H_
