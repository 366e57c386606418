// SPDX-License-Identifier: Apache-2.0
#include "read/json_cursor.h"

#include <string.h>

#include <algorithm>

namespace pitot::read {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool EndsNumber(char c) { return c == ',' || c == ']' || c == '}' || c == ':' || IsBlank(c); }

}  // namespace

JsonCursor::JsonCursor(ByteSource* source) : source_(source), buffer_(kReadBytes + kPaddingBytes) {}

bool JsonCursor::Fault(const char* fault) {
  if (*fault_ == 0) fault_ = source_->status().ok() ? fault : source_->status().message();
  return false;
}

bool JsonCursor::Fill() {
  if (begin_ != 0) {
    memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    at_ -= begin_;
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ > kMaxValueBytes) return Fault("a value of it is larger than 16 MiB");
  if (buffer_.size() - kPaddingBytes - end_ < kReadBytes / 2) buffer_.resize(buffer_.size() * 2);
  const size_t got = source_->Read(buffer_.data() + end_, buffer_.size() - kPaddingBytes - end_);
  end_ += got;
  memset(buffer_.data() + end_, 0, kPaddingBytes);
  return got != 0;
}

char JsonCursor::Peek() {
  for (;;) {
    while (at_ < end_ && IsBlank(buffer_[at_])) ++at_;
    if (at_ < end_) return buffer_[at_];
    begin_ = at_;
    if (!Fill()) return 0;
  }
}

bool JsonCursor::Begin(char bracket) {
  if (*fault_ != 0 || Peek() != bracket) return false;
  ++at_;
  return true;
}

bool JsonCursor::Next(char end) {
  if (*fault_ != 0) return false;
  char c = Peek();
  if (c == ',') {
    ++at_;
    c = Peek();
  }
  if (c == end) return ++at_, false;
  return c != 0 || Fault("it ends in the middle");
}

bool JsonCursor::NextElement() { return Next(']'); }

bool JsonCursor::NextMember() {
  if (!Next('}')) return false;
  if (Peek() != '"') return Fault("it is not JSON between its members");
  if (!Take()) return false;
  key_ = text().substr(1, text().size() - 2);
  if (Peek() != ':') return Fault("it is not JSON between its members");
  ++at_;
  return true;
}

bool JsonCursor::Pass(bool is_kept) {
  if (*fault_ != 0) return false;
  const char first = Peek();
  begin_ = at_;
  if (EndsNumber(first) || first == 0)
    return Fault(first == 0 ? "it ends in the middle" : "it is not JSON between its values");
  const bool is_nested = first == '{' || first == '[' || first == '"';
  size_t depth = 0;
  bool is_string = false;
  for (;;) {
    if (at_ == end_) {
      if (!is_kept) begin_ = at_;
      if (!Fill()) return Fault("it ends in the middle");
    }
    const char c = buffer_[at_];
    if (!is_nested) {
      if (EndsNumber(c)) break;
    } else if (is_string) {
      if (c == '\\') {
        if (end_ - at_ < 2 && !Fill()) return Fault("it ends in the middle");
        ++at_;  // with the character that it escapes
      } else if (c == '"') {
        is_string = false;
      }
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
    ++at_;
    if (is_nested && depth == 0 && !is_string) break;
  }
  end_of_text_ = at_;
  return true;
}

}  // namespace pitot::read
