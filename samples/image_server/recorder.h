// SPDX-License-Identifier: Apache-2.0
//
// The server's flight recorder.
#ifndef SAMPLES_IMAGE_SERVER_RECORDER_H_
#define SAMPLES_IMAGE_SERVER_RECORDER_H_

#include "image_server/options.h"
#include "pitot/pitot.h"

namespace image_server {

// Starts recording as the options say. To be called before the network is loaded and threads start.
pitot::Recorder StartRecorder(const Options& options);

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_RECORDER_H_
