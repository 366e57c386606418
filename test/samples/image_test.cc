// SPDX-License-Identifier: Apache-2.0
#include "image_server/image.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>

#include "load_generator/jpeg_maker.h"

namespace image_server {
namespace {

constexpr int64_t kManyPixels = 1'000'000;

std::string ErrorOf(const std::string& bytes, int64_t max_pixels = kManyPixels) {
  try {
    DecodeJpeg(bytes, max_pixels);
  } catch (const ImageError& error) {
    return error.what();
  }
  return "";
}

// A picture of one colour, in the colour space of so many channels.
std::string EncodeFlat(int side, const std::vector<uint8_t>& colour, J_COLOR_SPACE space) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = info.image_height = static_cast<JDIMENSION>(side);
  info.input_components = static_cast<int>(colour.size());
  info.in_color_space = space;
  jpeg_set_defaults(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> row_bytes;
  for (int i = 0; i < side; ++i) row_bytes.insert(row_bytes.end(), colour.begin(), colour.end());
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = row_bytes.data();
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string text(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return text;
}

TEST_CASE("a JPEG decodes to its size and colour", "[image]") {
  const Image image = DecodeJpeg(EncodeFlat(24, {200, 100, 50}, JCS_RGB), kManyPixels);

  CHECK(image.width == 24);
  CHECK(image.height == 24);
  REQUIRE(image.rgb.size() == 24 * 24 * 3);
  CHECK(std::abs(image.rgb[0] - 200) <= 3);
  CHECK(std::abs(image.rgb[1] - 100) <= 3);
  CHECK(std::abs(image.rgb[2] - 50) <= 3);
}

TEST_CASE("a grey JPEG becomes RGB", "[image]") {
  const Image image = DecodeJpeg(EncodeFlat(8, {90}, JCS_GRAYSCALE), kManyPixels);

  REQUIRE(image.rgb.size() == 8 * 8 * 3);
  CHECK(image.rgb[0] == image.rgb[1]);
  CHECK(image.rgb[1] == image.rgb[2]);
}

TEST_CASE("what is not a JPEG is refused with a reason", "[image]") {
  CHECK(ErrorOf("") != "");
  CHECK(ErrorOf("GIF89a is something else").find("Not a JPEG file") != std::string::npos);
  CHECK(ErrorOf(EncodeFlat(8, {1, 2, 3, 4}, JCS_CMYK)) != "");
}

TEST_CASE("a JPEG cut off anywhere is refused", "[image]") {
  const std::string whole = load_generator::MakeJpeg(64, 48, 7);
  REQUIRE(ErrorOf(whole) == "");

  std::vector<size_t> accepted;
  for (size_t size = 0; size + 2 < whole.size(); ++size) {  // the end marker is 2 bytes
    if (ErrorOf(whole.substr(0, size)) == "") accepted.push_back(size);
  }

  CHECK(accepted.empty());
}

TEST_CASE("a JPEG with flipped bits is decoded or refused, and never harms", "[image]") {
  const std::string whole = load_generator::MakeJpeg(64, 48, 7);
  size_t decoded = 0, refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    ++(ErrorOf(damaged) == "" ? decoded : refused);
  }

  CHECK(decoded + refused == whole.size());
  CHECK(refused > 0);
}

TEST_CASE("a picture beyond the limit is refused before it takes memory", "[image]") {
  const std::string jpeg = load_generator::MakeJpeg(64, 48, 7);

  CHECK(ErrorOf(jpeg, 64 * 48) == "");
  CHECK(ErrorOf(jpeg, 64 * 48 - 1).find("3072 pixels") != std::string::npos);
}

TEST_CASE("resizing keeps a flat picture and mixes neighbours", "[image]") {
  const Image flat{4, 4, std::vector<uint8_t>(4 * 4 * 3, 77)};
  CHECK(Resize(flat, 9).rgb == std::vector<uint8_t>(9 * 9 * 3, 77));

  // Two columns, black and white, to one: the middle.
  const Image halves{2, 1, {0, 0, 0, 255, 255, 255}};
  CHECK(Resize(halves, 1).rgb == std::vector<uint8_t>{128, 128, 128});
}

TEST_CASE("resizing to the same size changes nothing", "[image]") {
  const Image image = DecodeJpeg(load_generator::MakeJpeg(32, 32, 3), kManyPixels);

  CHECK(Resize(image, 32).rgb == image.rgb);
}

TEST_CASE("normalising makes planes around zero", "[image]") {
  const Planes planes = Normalise({2, 1, {255, 0, 0, 0, 255, 0}});

  REQUIRE(planes.size() == 6);
  CHECK(planes[0] == Approx((1 - 0.485) / 0.229));
  CHECK(planes[1] == Approx(-0.485 / 0.229));
  CHECK(planes[2] == Approx(-0.456 / 0.224));
  CHECK(planes[3] == Approx((1 - 0.456) / 0.224));
  CHECK(planes[5] == Approx(-0.406 / 0.225));
}

}  // namespace
}  // namespace image_server
