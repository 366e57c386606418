// SPDX-License-Identifier: Apache-2.0
//
// What the server does with one request, from the bytes of the body to the bytes of the reply. The function to read
// first if you want to see how a handler is instrumented.
#ifndef SAMPLES_IMAGE_SERVER_CLASSIFY_H_
#define SAMPLES_IMAGE_SERVER_CLASSIFY_H_

#include <cstdint>
#include <string_view>

#include "image_server/batcher.h"
#include "image_server/image.h"
#include "pitot/request.h"
#include "scoreboard/image_server/faults.h"
#include "scoreboard/image_server/preprocessor.h"
#include "server_common/reply.h"

namespace image_server {

struct ClassifyOptions {
  int side = 64;                    // of the pictures the network takes
  int64_t max_pixels = 64'000'000;  // of the pictures the client sends
  uint64_t timeout_ns = 5'000'000'000;
};

using server_common::Reply;

class ClassifyHandler {
 public:
  ClassifyHandler(const ClassifyOptions& options, Preprocessor* preprocessor, Batcher* batcher, Faults* faults);

  // Never throws. `id` is the request's id as the client gets it.
  Reply Handle(std::string_view jpeg, pitot::Request& request, uint64_t id);

 private:
  Image Decode(std::string_view jpeg, uint64_t id);

  const ClassifyOptions options_;
  Preprocessor* const preprocessor_;
  Batcher* const batcher_;
  Faults* const faults_;
};

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_CLASSIFY_H_
