// SPDX-License-Identifier: Apache-2.0
//
// The server's options.
#ifndef SAMPLES_IMAGE_SERVER_OPTIONS_H_
#define SAMPLES_IMAGE_SERVER_OPTIONS_H_

#include "image_server/batcher.h"
#include "image_server/classifier.h"
#include "image_server/classify.h"
#include "server_common/command_line.h"
#include "server_common/http_listener.h"
#include "server_common/recording.h"

namespace image_server {

inline constexpr char kAbout[] =
    "An image-classification server on LibTorch with Pitot linked in: POST a JPEG to /classify.";

struct Options {
  server_common::HttpOptions http{};
  ClassifierOptions classifier{};
  BatcherOptions batcher{};
  ClassifyOptions classify{};

  server_common::RecordingOptions recording{};
  double slo_ms = 50;
};

void AddOptions(server_common::CommandLine* command_line, Options* options);

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_OPTIONS_H_
