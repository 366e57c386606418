// SPDX-License-Identifier: Apache-2.0
//
// Makes JPEGs to send: seeded textures of waves and noise, which take as long to decode as photographs.
#ifndef SAMPLES_LOAD_GENERATOR_JPEG_MAKER_H_
#define SAMPLES_LOAD_GENERATOR_JPEG_MAKER_H_

#include <cstdint>
#include <string>

namespace load_generator {

// Makes a colour picture of `width` x `height`; the same for the same seed. Throws std::runtime_error if libjpeg fails.
std::string MakeJpeg(int width, int height, uint64_t seed);

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_JPEG_MAKER_H_
