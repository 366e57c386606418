// SPDX-License-Identifier: Apache-2.0
#include "read/event_splitter.h"

#include <string.h>

#include <algorithm>
#include <array>
#include <utility>

namespace pitot::read {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool EndsScalar(char c) { return c == ',' || c == ']' || c == '}' || IsSpace(c); }

constexpr size_t kMostSpaces = 64;  // before an event

// The characters at which a scan stops, in strings and outside. Zeros are behind the bytes read.
using Stops = std::array<bool, 256>;
constexpr Stops StopsAt(std::string_view characters) {
  Stops stops = {};
  stops[0] = true;
  for (const char c : characters) stops[static_cast<unsigned char>(c)] = true;
  return stops;
}
constexpr Stops kInString = StopsAt("\"\\\n"), kOutside = StopsAt("\"{}[]");
const char* SkipTo(const Stops& stops, const char* at) {
  while (!stops[static_cast<unsigned char>(*at)]) ++at;
  return at;
}

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
      const char first = Peek();
      if (first != '{' && first != '[') {
        place_ = Place::kOver;
        problem_ = first == 0 ? "it is empty" : "it is not JSON";
        return Piece::kNoTrace;
      }
      ++at_;
      is_bare_ = document_has_events_ = first == '[';
      has_events_ |= is_bare_;
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

EventSplitter::Piece EventSplitter::EndDocument() {
  begin_ = at_;
  const char c = Peek();
  if (c == 0 || !has_events_) return Over();
  if ((c != '{' && c != '[') || !document_has_events_) return Cut("it goes on after its end, and not with a trace");
  place_ = Place::kStart;
  return Piece::kDocument;
}

EventSplitter::Piece EventSplitter::SkipToEvent() {
  for (;;) {
    begin_ = at_;
    while (at_ < end_ && buffer_[at_] != '\n') ++at_;
    if (at_ == end_) {
      if (!Fill()) return Cut("it is not JSON between its events");
    } else if (IsEventAhead(1)) {
      is_broken_ = true;
      return Piece::kBroken;
    } else {
      ++at_;
    }
  }
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
    if (c == '}') {
      ++at_;
      return EndDocument();
    }
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
      has_events_ = document_has_events_ = true;
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
      if (is_bare_) return EndDocument();
      place_ = Place::kMembers;
      return Piece::kAgain;
    }
    if (c == 0) {
      const bool is_over = at_ == end_;  // otherwise it is a byte of the text
      ended_between_ = is_bare_ && is_over;
      return Cut(is_over ? "it ends in the middle of its events" : "it is not JSON between its events");
    }
    if (c == '}' || c == ':') return SkipToEvent();
    if (std::exchange(is_broken_, false) && IsAhead(0, kDocumentKey)) {
      place_ = Place::kStart;
      return Piece::kDocument;
    }
    is_event_ = true;
    const bool is_whole = TakeValue();
    is_event_ = false;
    if (!is_whole) return Cut("it ends in the middle of an event");
    return is_broken_ ? Piece::kBroken : is_too_deep_ ? Piece::kTooDeep : Piece::kEvent;
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

bool EventSplitter::IsAhead(size_t ahead, std::string_view key) {
  const size_t most = ahead + kMostSpaces;
  const auto next = [&] {
    for (; ahead < most; ++ahead) {
      if (at_ + ahead >= end_ && !Fill()) break;
      if (!IsSpace(buffer_[at_ + ahead])) return buffer_[at_ + ahead];
    }
    return '\0';
  };
  if (next() != '{') return false;
  ++ahead;
  if (next() != '"') return false;
  while (end_ - at_ < ahead + key.size()) {
    if (!Fill()) return false;
  }
  return std::string_view(&buffer_[at_ + ahead], key.size()) == key;
}

bool EventSplitter::BeginsLine() const {
  for (size_t at = at_; at > begin_ && at_ - at < kMostSpaces; --at) {
    if (buffer_[at - 1] == '\n') return true;
    if (!IsSpace(buffer_[at - 1])) return false;
  }
  return false;
}

bool EventSplitter::TakeNested() {
  is_too_deep_ = is_broken_ = false;
  size_t depth = 0;
  bool is_string = false;
  for (;;) {
    const char* const at = SkipTo(is_string ? kInString : kOutside, buffer_.data() + at_);
    at_ = static_cast<size_t>(at - buffer_.data());
    if (at_ >= end_) {
      at_ = end_;
      if (!Fill()) return false;
      continue;
    }
    const char c = *at;
    if (is_string && c == '\\') {
      if (end_ - at_ < 2 && !Fill()) return false;
      ++at_;  // with the character that it escapes
    } else if (c == '"') {
      is_string = !is_string;
    } else if (c == '{' || c == '[') {
      if (c == '{' && depth != 0 && is_event_ && BeginsLine() && IsEventAhead(0)) return is_broken_ = true;
      is_too_deep_ |= ++depth > kMaxDepth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == '\n' && is_event_ && IsEventAhead(1)) {
      return is_broken_ = true;
    }
    ++at_;
    if (depth == 0 && !is_string) return true;
  }
}

bool EventSplitter::TakeScalar() {
  is_too_deep_ = is_broken_ = false;
  for (;;) {
    while (at_ < end_ && !EndsScalar(buffer_[at_])) ++at_;
    if (at_ < end_) return at_ > begin_;
    if (!Fill()) return false;
  }
}

}  // namespace pitot::read
