// SPDX-License-Identifier: Apache-2.0
//
// Cuts a log into lines of any length. At most kMostBytes of a line are in memory.
#ifndef PITOT_LIB_READ_LOG_LINES_H_
#define PITOT_LIB_READ_LOG_LINES_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "read/byte_source.h"

namespace pitot::read {

class LogLines {
 public:
  static constexpr size_t kMostBytes = 16 << 20;

  explicit LogLines(ByteSource* source) : source_(*source) {}

  // Goes to the next line. False at the end.
  bool Next();
  // Without its end, and without the rest of a line that is too long. Valid until the next.
  std::string_view text() const { return line_; }
  bool is_too_long() const { return is_too_long_; }

 private:
  bool ReadMore(size_t kept);

  ByteSource& source_;
  std::string buffer_;
  std::string_view line_;
  size_t next_ = 0;  // where the next line begins
  bool is_too_long_ = false;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_LOG_LINES_H_
