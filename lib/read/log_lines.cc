// SPDX-License-Identifier: Apache-2.0
#include "read/log_lines.h"

#include <algorithm>

namespace pitot::read {

bool LogLines::Next() {
  is_too_long_ = false;
  size_t end, looked = next_;
  while ((end = buffer_.find('\n', looked)) == std::string::npos) {
    looked = buffer_.size() - next_;
    if (looked > kMostBytes) {
      is_too_long_ = true;
      looked = kMostBytes;
    }
    if (!ReadMore(looked)) break;
  }
  const bool is_over = end == std::string::npos;
  if (is_over && next_ == buffer_.size()) return false;
  if (is_over) end = buffer_.size();
  is_too_long_ |= end - next_ > kMostBytes;
  line_ = std::string_view(buffer_).substr(next_, std::min(end - next_, kMostBytes));
  next_ = std::min(end + 1, buffer_.size());
  if (line_.ends_with('\r')) line_.remove_suffix(1);
  return true;
}

// Forgets the lines before, and keeps the first bytes of this one.
bool LogLines::ReadMore(size_t kept) {
  constexpr size_t kBytes = 256 << 10;
  buffer_.erase(0, next_);
  next_ = 0;
  buffer_.resize(kept + kBytes);
  const size_t got = source_.Read(buffer_.data() + kept, kBytes);
  buffer_.resize(kept + got);
  return got != 0;
}

}  // namespace pitot::read
