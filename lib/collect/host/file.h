// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc and /sys, kept open: their text is made anew for each read.
#ifndef PITOT_LIB_COLLECT_HOST_FILE_H_
#define PITOT_LIB_COLLECT_HOST_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace pitot::host {

class File {
 public:
  File() = default;
  // Opens `path`. If it cannot be opened, it reads as "".
  explicit File(const std::string& path) noexcept;
  ~File();
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  bool is_open() const { return fd_ >= 0; }
  int descriptor() const { return fd_; }
  // Leaves it open for the life of the process.
  void Release() { fd_ = -1; }
  // The present text, cut at the buffer's size; "" if the read fails. Cost: a system call, 0.6 us and more.
  template <size_t kSize> std::string_view Read(char (&buffer)[kSize]) const noexcept { return Read(buffer, kSize); }

 private:
  std::string_view Read(char* buffer, size_t size) const noexcept;
  int fd_ = -1;
};

// The whole text of a file; "" if it cannot be opened.
std::string ReadWhole(const std::string& path);

// Cuts off and returns the text before the next `separator`, or all of it.
std::string_view TakeUntil(std::string_view* text, char separator) noexcept;

// The number after `key` in `text`, if a line or a word begins with `key`.
std::optional<uint64_t> NumberAfter(std::string_view text, std::string_view key) noexcept;

}  // namespace pitot::host

#endif  // PITOT_LIB_COLLECT_HOST_FILE_H_
