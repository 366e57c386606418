// SPDX-License-Identifier: Apache-2.0
#include "read/log_lines.h"

#include <algorithm>

namespace pitot::read {

bool LogLines::Next() {
  is_too_long_ = false;
  buffer_.erase(0, next_);
  next_ = 0;
  size_t end, looked = 0;
  while ((end = buffer_.find('\n', looked)) == std::string::npos) {
    if (buffer_.size() > kMostBytes) {
      is_too_long_ = true;
      buffer_.resize(kMostBytes);
    }
    looked = buffer_.size();
    if (!ReadMore()) break;
  }
  const bool is_over = end == std::string::npos;
  if (is_over && buffer_.empty()) return false;
  next_ = is_over ? buffer_.size() : end + 1;
  line_ = std::string_view(buffer_).substr(0, std::min(is_over ? next_ : end, kMostBytes));
  is_too_long_ |= (is_over ? next_ : end) > kMostBytes;
  if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
  return true;
}

bool LogLines::ReadMore() {
  constexpr size_t kBytes = 256 << 10;
  const size_t size = buffer_.size();
  buffer_.resize(size + kBytes);
  const size_t got = source_.Read(buffer_.data() + size, kBytes);
  buffer_.resize(size + got);
  return got != 0;
}

}  // namespace pitot::read
