// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include "benchmarks/register.h"

namespace pitot::benchmarks {
namespace {

uint64_t Run(void*, const void* data, uint64_t size, void* out, uint64_t capacity) {
  uLongf written = static_cast<uLongf>(capacity);
  const int status = compress2(static_cast<Bytef*>(out), &written, static_cast<const Bytef*>(data),
                               static_cast<uLong>(size), Z_DEFAULT_COMPRESSION);
  return status == Z_OK ? written : 0;
}

}  // namespace

Compress ZlibCompress() { return Run; }

}  // namespace pitot::benchmarks
