// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a dump, for dump_reader.cc: memory of the caller, or a file through a window.
#ifndef PITOT_LIB_READ_DUMP_BYTES_H_
#define PITOT_LIB_READ_DUMP_BYTES_H_

#include <stdint.h>

#include <string>
#include <vector>

#include "pitot/status.h"

namespace pitot::read {

class DumpBytes {
 public:
  static constexpr uint64_t kWindowBytes = 2 << 20;

  // The memory must outlive this.
  DumpBytes(const void* data, uint64_t size);
  // A regular file. It is not mapped: a mapped file that shrinks kills its reader.
  explicit DumpBytes(const std::string& path);
  ~DumpBytes();
  DumpBytes(const DumpBytes&) = delete;
  DumpBytes& operator=(const DumpBytes&) = delete;

  // Fewer from the moment on in which the file turns out to have shrunk.
  uint64_t size() const { return size_; }
  // Not ok if the file could not be opened or read. `size` is then where its readable part ends.
  const Status& status() const { return status_; }
  // The `count` bytes from `at` on, valid until the next call; null if there are fewer. A file's are read as needed:
  // memory is for the window, or for `count` if that is more.
  const uint8_t* At(uint64_t at, uint64_t count) {
    if (at > size_ || count > size_ - at) return nullptr;
    if (at >= base_ && at - base_ <= held_ && count <= held_ - (at - base_)) return held_data_ + (at - base_);
    return Fill(at, count);
  }
  // Where `byte` comes first, from `at` on; size() if it does not.
  uint64_t Find(uint8_t byte, uint64_t at);

 private:
  const uint8_t* Fill(uint64_t at, uint64_t count);
  void Fail(int error);

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  std::vector<uint8_t> window_;
  // The bytes at hand are those of `held_data_`, and in the file from base_ on.
  const uint8_t* held_data_ = nullptr;
  uint64_t base_ = 0, held_ = 0;
  Status status_;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_DUMP_BYTES_H_
