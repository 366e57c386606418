// SPDX-License-Identifier: Apache-2.0
#include "cli/view/packed.h"

#include <zlib.h>

#include <algorithm>
#include <new>

namespace pitot::cli::view {

std::string Deflated(std::string_view bytes) {
  constexpr int kLevel = 5;                           // a third of the time of zlib's default, and 3 % larger
  constexpr size_t kRoom = 1 << 16, kMost = 1 << 30;  // zlib counts in 32 bits
  z_stream stream = {};
  if (deflateInit(&stream, kLevel) != Z_OK) throw std::bad_alloc();
  std::string out;
  do {
    const size_t part = std::min(bytes.size(), kMost);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib does not write to it
    stream.avail_in = static_cast<uInt>(part);
    bytes.remove_prefix(part);
    do {
      const size_t size = out.size();
      out.resize(size + kRoom);
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + size);
      stream.avail_out = kRoom;
      deflate(&stream, bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
      out.resize(out.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  } while (!bytes.empty());
  deflateEnd(&stream);
  return out;
}

std::string Base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < left ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= left ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace pitot::cli::view
