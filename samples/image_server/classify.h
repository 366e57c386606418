// SPDX-License-Identifier: Apache-2.0
//
// The handler of one request, from the bytes of the body to the bytes of the reply. Read it first to see how a handler
// is instrumented.
#ifndef SAMPLES_IMAGE_SERVER_CLASSIFY_H_
#define SAMPLES_IMAGE_SERVER_CLASSIFY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "image_server/batcher.h"
#include "server_common/http_listener.h"
#include "server_common/reply.h"

namespace image_server {

struct ClassifyOptions {
  int side = 64;                    // of the pictures the network takes
  int64_t max_pixels = 64'000'000;  // of the pictures the client sends
  uint64_t timeout_ns = 5'000'000'000;
};

// Replies {"id": ..., "top": [{"class", "index", "probability"}, ...]}. Never throws. Threads: any.
server_common::Reply Classify(std::string_view jpeg, server_common::Exchange& exchange, Batcher* batcher,
                              const ClassifyOptions& options);

// The body of the reply.
std::string ToJson(const Prediction& prediction, uint64_t request_id);

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_CLASSIFY_H_
