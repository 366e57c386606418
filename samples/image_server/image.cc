// SPDX-License-Identifier: Apache-2.0
#include "image_server/image.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <string>

// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>

#include "pitot/trace.h"

namespace image_server {
namespace {

// libjpeg reports errors through callbacks and expects the fatal one not to return; exceptions must not cross its C
// frames, so it jumps back to Decoder::Run, which owns nothing with a destructor.
struct ErrorState {
  jpeg_error_mgr callbacks;  // first: libjpeg hands back a pointer to it
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void OnError(j_common_ptr info) {
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  info->err->format_message(info, state->message);
  std::longjmp(state->escape, 1);
}

// Negative levels are warnings: the data is damaged and libjpeg would invent the rest.
void OnMessage(j_common_ptr info, int level) {
  if (level < 0) OnError(info);
}

class Decoder {
 public:
  Decoder() {
    info_.err = jpeg_std_error(&errors_.callbacks);
    errors_.callbacks.error_exit = OnError;
    errors_.callbacks.emit_message = OnMessage;
    errors_.message[0] = '\0';
  }
  ~Decoder() { jpeg_destroy_decompress(&info_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  void ReadHeader(std::string_view bytes) {
    Run([&] {
      jpeg_create_decompress(&info_);
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_read_header(&info_, TRUE);
      info_.out_color_space = JCS_RGB;  // refuses CMYK when decompression starts
    });
  }
  int width() const { return static_cast<int>(info_.image_width); }
  int height() const { return static_cast<int>(info_.image_height); }

  void ReadRows(uint8_t* rgb) {
    Run([&] {
      jpeg_start_decompress(&info_);
      while (info_.output_scanline < info_.output_height) {
        JSAMPROW row = rgb + size_t{info_.output_scanline} * info_.output_width * 3;
        jpeg_read_scanlines(&info_, &row, 1);
      }
      jpeg_finish_decompress(&info_);
    });
  }

 private:
  template <class Calls> void Run(const Calls& calls) {
    if (setjmp(errors_.escape) == 0) {
      calls();
      return;
    }
    throw ImageError(std::string("cannot decode the JPEG: ") + errors_.message);
  }

  jpeg_decompress_struct info_{};
  ErrorState errors_{};
};

// Where one output coordinate lies between two input coordinates.
struct Tap {
  int first;
  int second;
  float second_weight;
};

float Mix(float first, float second, float second_weight) { return first + (second - first) * second_weight; }

std::vector<Tap> MakeTaps(int from, int to) {
  std::vector<Tap> taps(static_cast<size_t>(to));
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  for (int i = 0; i < to; ++i) {
    // Pixel centres are at halves.
    const float at = std::clamp((static_cast<float>(i) + 0.5f) * scale - 0.5f, 0.0f, static_cast<float>(from - 1));
    const int first = static_cast<int>(at);
    taps[static_cast<size_t>(i)] = {first, std::min(first + 1, from - 1), at - static_cast<float>(first)};
  }
  return taps;
}

}  // namespace

Image DecodeJpeg(std::string_view bytes, int64_t max_pixels) {
  PITOT_SCOPE("libjpeg", bytes.size());
  Decoder decoder;
  decoder.ReadHeader(bytes);
  Image image{decoder.width(), decoder.height(), {}};
  if (const int64_t pixels = int64_t{image.width} * image.height; pixels > max_pixels) {
    throw ImageError("the picture has " + std::to_string(pixels) + " pixels, the limit is " +
                     std::to_string(max_pixels));
  }
  image.rgb.resize(size_t{3} * static_cast<size_t>(image.width) * static_cast<size_t>(image.height));
  decoder.ReadRows(image.rgb.data());
  return image;
}

Image Resize(const Image& image, int side) {
  PITOT_SCOPE("resize", image.width, image.height);
  Image out{side, side, std::vector<uint8_t>(size_t{3} * static_cast<size_t>(side) * static_cast<size_t>(side))};
  const std::vector<Tap> columns = MakeTaps(image.width, side), rows = MakeTaps(image.height, side);
  const size_t stride = size_t{3} * static_cast<size_t>(image.width);
  uint8_t* to = out.rgb.data();
  for (const Tap& row : rows) {
    const uint8_t* const above = image.rgb.data() + static_cast<size_t>(row.first) * stride;
    const uint8_t* const below = image.rgb.data() + static_cast<size_t>(row.second) * stride;
    for (const Tap& column : columns) {
      for (int channel = 0; channel < 3; ++channel) {
        const int left = 3 * column.first + channel, right = 3 * column.second + channel;
        const float top = Mix(above[left], above[right], column.second_weight);
        const float bottom = Mix(below[left], below[right], column.second_weight);
        *to++ = static_cast<uint8_t>(Mix(top, bottom, row.second_weight) + 0.5f);
      }
    }
  }
  return out;
}

Planes Normalise(const Image& image) {
  PITOT_SCOPE("normalise");
  constexpr std::array<float, 3> kMean = {0.485f, 0.456f, 0.406f}, kDeviation = {0.229f, 0.224f, 0.225f};
  const size_t pixels = image.rgb.size() / 3;
  Planes planes(image.rgb.size());
  for (size_t channel = 0; channel < 3; ++channel) {
    const float scale = 1.0f / (255.0f * kDeviation[channel]), offset = kMean[channel] / kDeviation[channel];
    float* const plane = planes.data() + channel * pixels;
    for (size_t i = 0; i < pixels; ++i) plane[i] = static_cast<float>(image.rgb[3 * i + channel]) * scale - offset;
  }
  return planes;
}

}  // namespace image_server
