// SPDX-License-Identifier: Apache-2.0
//
// From the bytes of a JPEG to the numbers a network takes, in three steps, each with a scope.
#ifndef SAMPLES_IMAGE_SERVER_IMAGE_H_
#define SAMPLES_IMAGE_SERVER_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace image_server {

// The picture cannot be used, and the client is told why: it is not a JPEG, it is damaged, it is too large.
class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Rows of RGB, 8 bits each, without padding.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;
};

// Three planes (red, green, blue) of `side` times `side` numbers, normalised.
using Planes = std::vector<float>;

// Decodes a JPEG of at most `max_pixels`. Throws ImageError, also for a truncated picture: its missing part
// would be classified as grey.
Image DecodeJpeg(std::string_view bytes, int64_t max_pixels);

// Scales to a square, bilinear, without regard to the aspect ratio.
Image Resize(const Image& image, int side);

// Subtracts ImageNet's mean and divides by its standard deviation.
Planes Normalise(const Image& image);

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_IMAGE_H_
