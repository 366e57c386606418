// SPDX-License-Identifier: Apache-2.0
#include "cli/deflating_sink.h"

namespace pitot::cli {

DeflatingSink::DeflatingSink(Format format, int level, ByteSink* packed) : packed_(*packed) {
  constexpr int kGzip = 16, kWindowBits = 15, kMemoryLevel = 8;
  const int bits = kWindowBits + (format == Format::kGzip ? kGzip : 0);
  is_ok_ = deflateInit2(&stream_, level, Z_DEFLATED, bits, kMemoryLevel, Z_DEFAULT_STRATEGY) == Z_OK;
}

DeflatingSink::~DeflatingSink() { deflateEnd(&stream_); }

bool DeflatingSink::Write(const void* data, uint64_t size) noexcept {
  constexpr uint64_t kMost = 1 << 30;  // zlib counts in 32 bits
  const auto* from = static_cast<const Bytef*>(data);
  for (; size > kMost && is_ok_; size -= kMost, from += kMost) Deflate(from, kMost, Z_NO_FLUSH);
  Deflate(from, size, Z_NO_FLUSH);
  return is_ok_;
}

bool DeflatingSink::Finish() {
  Deflate(nullptr, 0, Z_FINISH);
  return is_ok_;
}

void DeflatingSink::Deflate(const Bytef* from, uint64_t size, int flush) noexcept {
  stream_.next_in = const_cast<Bytef*>(from);  // zlib does not write to it
  stream_.avail_in = static_cast<uInt>(size);
  do {
    stream_.next_out = out_;
    stream_.avail_out = sizeof out_;
    if (!is_ok_) return;
    is_ok_ = deflate(&stream_, flush) >= Z_OK || stream_.avail_out == sizeof out_;
    is_ok_ = is_ok_ && packed_.Write(out_, sizeof out_ - stream_.avail_out);
  } while (stream_.avail_out == 0);
}

}  // namespace pitot::cli
