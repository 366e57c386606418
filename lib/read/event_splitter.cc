// SPDX-License-Identifier: Apache-2.0
#include "read/event_splitter.h"

#include <string.h>

#include <algorithm>

namespace pitot::read {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool EndsScalar(char c) { return c == ',' || c == ']' || c == '}' || IsSpace(c); }

}  // namespace

EventSplitter::EventSplitter(ByteSource* source) : source_(source), buffer_(kReadBytes + kPaddingBytes) {}

EventSplitter::Piece EventSplitter::Next() {
  Piece piece;
  do piece = Step();
  while (piece == Piece::kAgain);
  return piece;
}

EventSplitter::Piece EventSplitter::Step() {
  switch (place_) {
    case Place::kStart: {
      begin_ = at_;
      char first = Peek();
      if (first == '\xef' && (end_ - at_ >= 3 || Fill()) && memcmp(&buffer_[at_], "\xef\xbb\xbf", 3) == 0) {
        at_ += 3;  // a byte order mark
        first = Peek();
      }
      if (first != '{' && first != '[') {
        place_ = Place::kOver;
        problem_ = first == 0 ? "it is empty" : "it is not JSON";
        return Piece::kNoTrace;
      }
      ++at_;
      is_bare_ = has_events_ = first == '[';
      place_ = is_bare_ ? Place::kEvents : Place::kMembers;
      return Piece::kAgain;
    }
    case Place::kMembers:
      return NextMember();
    case Place::kEvents:
      return NextEvent();
    case Place::kOver:
      break;
  }
  return Over();
}

EventSplitter::Piece EventSplitter::Over() {
  place_ = Place::kOver;
  return *problem_ == 0 ? Piece::kEnd : Piece::kCut;
}

EventSplitter::Piece EventSplitter::Cut(const char* problem) {
  if (!source_->status().ok()) {
    problem_ = source_->status().message();
  } else if (*problem_ == 0) {
    problem_ = problem;
  }
  return Over();
}

EventSplitter::Piece EventSplitter::NextMember() {
  for (;;) {
    begin_ = at_;
    const char c = Peek();
    if (c == '}') return Over();
    if (c == ',') {
      ++at_;
      continue;
    }
    begin_ = at_;
    if (c != '"') return Cut(c == 0 ? "it ends in the middle" : "it is not JSON between its members");
    if (!TakeNested()) return Cut("it ends in the middle");
    key_.assign(buffer_.data() + begin_ + 1, at_ - begin_ - 2);
    if (Peek() != ':') return Cut("it is not JSON between its members");
    ++at_;
    const char value = Peek();
    if (key_ == "traceEvents" && value == '[') {
      ++at_;
      has_events_ = true;
      place_ = Place::kEvents;
      return Piece::kAgain;
    }
    if (!TakeValue()) return Cut("it ends in the middle");
    return is_too_deep_ ? Piece::kTooDeepMember : Piece::kMember;
  }
}

EventSplitter::Piece EventSplitter::NextEvent() {
  for (;;) {
    begin_ = at_;
    const char c = Peek();
    if (c == ',') {
      ++at_;
      continue;
    }
    if (c == ']') {
      ++at_;
      if (is_bare_) return Over();
      place_ = Place::kMembers;
      return Piece::kAgain;
    }
    if (c == 0) {
      ended_between_ = is_bare_;
      return Cut("it ends in the middle of its events");
    }
    if (c == '}' || c == ':') return Cut("it is not JSON between its events");
    if (!TakeValue()) return Cut("it ends in the middle of an event");
    return is_too_deep_ ? Piece::kTooDeep : Piece::kEvent;
  }
}

bool EventSplitter::Fill() {
  if (begin_ != 0) {
    memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    at_ -= begin_;
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ > kMaxPieceBytes) {
    problem_ = "an event or member of it is larger than 64 MiB";
    return false;
  }
  if (buffer_.size() - kPaddingBytes - end_ < kReadBytes / 2)
    buffer_.resize(std::max(buffer_.size() * 2, kReadBytes + kPaddingBytes));
  const size_t got = source_->Read(buffer_.data() + end_, buffer_.size() - kPaddingBytes - end_);
  end_ += got;
  bytes_ += got;
  memset(buffer_.data() + end_, 0, kPaddingBytes);
  return got != 0;
}

char EventSplitter::Peek() {
  for (;;) {
    while (at_ < end_ && IsSpace(buffer_[at_])) ++at_;
    if (at_ < end_) return buffer_[at_];
    if (!Fill()) return 0;
  }
}

bool EventSplitter::TakeValue() {
  const char c = Peek();
  begin_ = at_;
  const bool is_whole = c == '"' || c == '{' || c == '[' ? TakeNested() : TakeScalar();
  piece_end_ = at_;
  return is_whole;
}

bool EventSplitter::TakeNested() {
  is_too_deep_ = false;
  size_t depth = 0;
  bool is_string = false, is_escaped = false;
  for (;;) {
    const char* at = buffer_.data() + at_;
    const char* const end = buffer_.data() + end_;
    while (at < end) {
      if (is_escaped) {
        is_escaped = false;
        ++at;
        continue;
      }
      if (is_string) {
        while (at < end && *at != '"' && *at != '\\') ++at;
        if (at == end) break;
        is_escaped = *at == '\\';
        is_string = is_escaped;
      } else if (*at == '"') {
        is_string = true;
      } else if (*at == '{' || *at == '[') {
        is_too_deep_ |= ++depth > kMaxDepth;
      } else if (*at == '}' || *at == ']') {
        --depth;
      }
      ++at;
      if (depth == 0 && !is_string) {
        at_ = static_cast<size_t>(at - buffer_.data());
        return true;
      }
    }
    at_ = end_;
    if (!Fill()) return false;
  }
}

bool EventSplitter::TakeScalar() {
  is_too_deep_ = false;
  for (;;) {
    while (at_ < end_ && !EndsScalar(buffer_[at_])) ++at_;
    if (at_ < end_) return at_ > begin_;
    if (!Fill()) return false;
  }
}

}  // namespace pitot::read
