// SPDX-License-Identifier: Apache-2.0
#include "collect/host/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace pitot::host {

File::File(const std::string& path) noexcept : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

std::string_view File::Read(char* buffer, size_t size) const noexcept {
  const ssize_t read = fd_ >= 0 ? pread(fd_, buffer, size, 0) : 0;
  return {buffer, read > 0 ? static_cast<size_t>(read) : 0};
}

std::string ReadWhole(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char part[4096];
  for (ssize_t size = 0; (size = read(fd, part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(size));
  close(fd);
  return text;
}

std::string_view TakeUntil(std::string_view* text, char separator) noexcept {
  const size_t end = std::min(text->find(separator), text->size());
  const std::string_view taken = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return taken;
}

std::optional<uint64_t> NumberAfter(std::string_view text, std::string_view key) noexcept {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != '\n' && text[at - 1] != ' ') continue;
    uint64_t value = 0;
    const char* const begin = text.data() + at + key.size();
    if (std::from_chars(begin, text.data() + text.size(), value).ec == std::errc()) return value;
  }
  return std::nullopt;
}

}  // namespace pitot::host
