// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc and /sys, kept open: what they say is made anew at each read.
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
  // One that cannot be opened reads as "".
  explicit File(const std::string& path) noexcept;
  ~File();
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  bool is_open() const { return fd_ >= 0; }
  int descriptor() const { return fd_; }
  // Leaves it open for good.
  void Release() { fd_ = -1; }
  // What it says now, cut at the buffer's size; "" if it does not answer. Cost: a system call, 0.6 us and more.
  template <size_t kSize> std::string_view Read(char (&buffer)[kSize]) const noexcept { return Read(buffer, kSize); }

 private:
  std::string_view Read(char* buffer, size_t size) const noexcept;
  int fd_ = -1;
};

// All that a file says; "" if it cannot be opened.
std::string ReadWhole(const std::string& path);

// Cuts off and returns what comes before the next `separator`, or all.
std::string_view TakeUntil(std::string_view* text, char separator) noexcept;

// The number that follows `key` in `text`, where a line or a word begins with it.
std::optional<uint64_t> NumberAfter(std::string_view text, std::string_view key) noexcept;

}  // namespace pitot::host

#endif  // PITOT_LIB_COLLECT_HOST_FILE_H_
