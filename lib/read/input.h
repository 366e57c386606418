// SPDX-License-Identifier: Apache-2.0
//
// What is read: a file, or bytes in memory. It can be opened more than once: to recognise it, and to read it.
#ifndef PITOT_LIB_READ_INPUT_H_
#define PITOT_LIB_READ_INPUT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "read/byte_source.h"

namespace pitot::read {

struct Input {
  std::string path;            // "": in memory
  const void* data = nullptr;  // must outlive the input
  uint64_t size = 0;

  bool IsFile() const { return !path.empty(); }
  // From its first byte on, unpacked if it is gzip.
  std::unique_ptr<ByteSource> Open(bool* is_gzip) const {
    return Unpacked(IsFile() ? FromFile(path) : FromMemory(data, size), is_gzip);
  }
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_INPUT_H_
