// SPDX-License-Identifier: Apache-2.0
//
// Where a reader's bytes come from, a piece at a time: memory or a file, plain or gzip.
#ifndef PITOT_LIB_READ_BYTE_SOURCE_H_
#define PITOT_LIB_READ_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "pitot/status.h"

namespace pitot::read {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `size` bytes (at least one unless the end was reached), and how many. What went wrong says `status`.
  virtual size_t Read(char* out, size_t size) = 0;
  // Ok, or why the bytes ended before their end.
  const Status& status() const { return status_; }

 protected:
  Status status_;
};

std::unique_ptr<ByteSource> FromMemory(const void* data, uint64_t size);
// Not mapped: a file that shrinks under a mapping kills its reader.
std::unique_ptr<ByteSource> FromFile(const std::string& path);
// What `packed` holds, if that begins as gzip does, else `packed` itself. Members that follow each other are one text.
std::unique_ptr<ByteSource> Unpacked(std::unique_ptr<ByteSource> packed, bool* is_gzip);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_BYTE_SOURCE_H_
