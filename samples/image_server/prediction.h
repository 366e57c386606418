// SPDX-License-Identifier: Apache-2.0
//
// What the network says about a picture.
#ifndef SAMPLES_IMAGE_SERVER_PREDICTION_H_
#define SAMPLES_IMAGE_SERVER_PREDICTION_H_

#include <cstdint>
#include <vector>

namespace image_server {

struct ClassScore {
  int64_t class_index = 0;
  float probability = 0;
};

// Likeliest first.
using Prediction = std::vector<ClassScore>;

struct Answer {
  Prediction prediction;
  uint64_t ready_ns = 0;  // CLOCK_MONOTONIC
};

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_PREDICTION_H_
