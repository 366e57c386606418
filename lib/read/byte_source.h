// SPDX-License-Identifier: Apache-2.0
//
// The source of a reader's bytes: memory or a file, plain or gzip. Gives them piece by piece.
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
  // Reads up to `size` bytes and returns their number. 0: the end, or an error, as `status` tells.
  virtual size_t Read(char* out, size_t size) = 0;
  // Ok, or the reason why the bytes ended early.
  const Status& status() const { return status_; }

 protected:
  Status status_;
};

std::unique_ptr<ByteSource> FromMemory(const void* data, uint64_t size);
// Not mapped: a file that shrinks under a mapping kills its reader.
std::unique_ptr<ByteSource> FromFile(const std::string& path);
// Unpacks `packed` if it begins like gzip; consecutive members become one text. Skips the byte order mark of UTF-8.
std::unique_ptr<ByteSource> Unpacked(std::unique_ptr<ByteSource> packed, bool* is_gzip);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_BYTE_SOURCE_H_
