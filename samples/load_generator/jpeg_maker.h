// SPDX-License-Identifier: Apache-2.0
//
// Makes JPEGs to send: seeded textures of waves and noise, which decode as slowly as photographs do.
#ifndef SAMPLES_LOAD_GENERATOR_JPEG_MAKER_H_
#define SAMPLES_LOAD_GENERATOR_JPEG_MAKER_H_

#include <cstdint>
#include <string>

namespace load_generator {

// A picture of `width` x `height` in colour; the same for the same seed. Throws std::runtime_error when libjpeg fails.
std::string MakeJpeg(int width, int height, uint64_t seed);

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_JPEG_MAKER_H_
