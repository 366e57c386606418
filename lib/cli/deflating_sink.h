// SPDX-License-Identifier: Apache-2.0
//
// Compresses what is written to it, piece by piece, and passes it on.
#ifndef PITOT_LIB_CLI_DEFLATING_SINK_H_
#define PITOT_LIB_CLI_DEFLATING_SINK_H_

#include <stdint.h>
#include <zlib.h>

#include "pitot/extend/serializer.h"

namespace pitot::cli {

class DeflatingSink final : public ByteSink {
 public:
  enum class Format { kZlib, kGzip };  // RFC 1950, RFC 1952

  // `level` is zlib's. Without memory for it, Write fails.
  DeflatingSink(Format format, int level, ByteSink* packed);
  ~DeflatingSink();
  bool Write(const void* data, uint64_t size) noexcept override;
  // Call it at the end. Whether all was taken.
  bool Finish();

 private:
  void Deflate(const Bytef* from, uint64_t size, int flush) noexcept;

  ByteSink& packed_;
  z_stream stream_ = {};
  bool is_ok_;
  Bytef out_[64 << 10];
};

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_DEFLATING_SINK_H_
