// SPDX-License-Identifier: Apache-2.0
#include "load_generator/jpeg_maker.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <random>
#include <stdexcept>
#include <vector>

// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>

namespace load_generator {
namespace {

constexpr int kQuality = 85;

std::vector<uint8_t> MakeTexture(int width, int height, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(0, 1);
  struct Wave {
    float across, down, phase, strength;
  };
  std::vector<Wave> waves[3];
  for (std::vector<Wave>& channel : waves) {
    for (int i = 1; i <= 4; ++i) {
      const float frequency = uniform(random) * static_cast<float>(i * i) * 2 * std::numbers::pi_v<float>;
      channel.push_back({frequency / static_cast<float>(width),
                         frequency * uniform(random) / static_cast<float>(height), uniform(random) * 6,
                         60.0f / static_cast<float>(i)});
    }
  }

  std::vector<uint8_t> rgb;
  rgb.reserve(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const float noise = 24 * uniform(random);
      for (const std::vector<Wave>& channel : waves) {
        float value = 116 + noise;
        for (const Wave& wave : channel) {
          value += wave.strength *
                   std::sin(wave.across * static_cast<float>(x) + wave.down * static_cast<float>(y) + wave.phase);
        }
        rgb.push_back(static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)));
      }
    }
  }
  return rgb;
}

// libjpeg's fatal error must neither return nor throw across C: it jumps.
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

// Owns libjpeg's memory, so that the jump skips no destructor.
struct Encoder {
  jpeg_compress_struct info{};
  ErrorState errors{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  ~Encoder() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
  // On failure returns false; the reason is in errors.message.
  bool Encode(int width, int height, uint8_t* rgb) {
    info.err = jpeg_std_error(&errors.callbacks);
    errors.callbacks.error_exit = OnError;
    if (setjmp(errors.escape) != 0) return false;
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &bytes, &size);
    info.image_width = static_cast<JDIMENSION>(width);
    info.image_height = static_cast<JDIMENSION>(height);
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, kQuality, TRUE);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
      JSAMPROW row = rgb + size_t{3} * info.next_scanline * info.image_width;
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    return true;
  }
};

}  // namespace

std::string MakeJpeg(int width, int height, uint64_t seed) {
  std::vector<uint8_t> rgb = MakeTexture(width, height, seed);
  Encoder encoder;
  if (!encoder.Encode(width, height, rgb.data())) {
    throw std::runtime_error(std::string("cannot make a JPEG: ") + encoder.errors.message);
  }
  return std::string(reinterpret_cast<const char*>(encoder.bytes), encoder.size);
}

}  // namespace load_generator
