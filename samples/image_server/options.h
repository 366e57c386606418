// SPDX-License-Identifier: Apache-2.0
//
// The server's command line.
#ifndef SAMPLES_IMAGE_SERVER_OPTIONS_H_
#define SAMPLES_IMAGE_SERVER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "image_server/batcher.h"
#include "image_server/classifier.h"
#include "image_server/classify.h"
#include "image_server/http_server.h"
#include "scoreboard/image_server/faults.h"
#include "server_common/recording.h"

namespace image_server {

struct Options {
  HttpOptions http;
  std::string port_file;
  ClassifierOptions classifier;
  BatcherOptions batcher;
  ClassifyOptions classify;
  size_t preprocess_threads = 0;
  FaultOptions faults;

  server_common::RecordingOptions recording;
  double slo_ms = 50;
};

// Exits the process for --help and for what it does not understand.
Options ParseOptions(int argc, char** argv);

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_OPTIONS_H_
