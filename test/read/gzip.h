// SPDX-License-Identifier: Apache-2.0
//
// Packs a text as a file of gzip.
#ifndef PITOT_TEST_READ_GZIP_H_
#define PITOT_TEST_READ_GZIP_H_

#include <zlib.h>

#include <catch2/catch.hpp>
#include <string>

namespace read_test {

inline std::string Gzip(const std::string& text) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace read_test

#endif  // PITOT_TEST_READ_GZIP_H_
