// SPDX-License-Identifier: Apache-2.0
//
// Cuts the text of a Chrome trace into the members of its traceEvents and those that stand beside that, one at a time,
// so that a parser needs memory for one event and not for the file.
//
// It knows of JSON what it takes to find where a value ends: strings, escapes and brackets. Whether a piece is JSON is
// for who parses it.
#ifndef PITOT_LIB_READ_EVENT_SPLITTER_H_
#define PITOT_LIB_READ_EVENT_SPLITTER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "read/byte_source.h"

namespace pitot::read {

class EventSplitter {
 public:
  static constexpr size_t kPaddingBytes = 64;  // readable after every piece
  static constexpr size_t kMaxDepth = 500;
  static constexpr size_t kMaxPieceBytes = 64 << 20;

  enum class Piece {
    kEvent,          // a member of traceEvents, or of a bare list
    kMember,         // a member of the outermost object: `key` and `text`
    kTooDeep,        // the same as kEvent, but nested more than kMaxDepth deep
    kTooDeepMember,  // the same as kMember, but so
    kEnd,            // the text ended where its JSON does
    kCut,            // before that: `problem` says how
    kNoTrace,        // neither an object nor a list
    kAgain,          // never given
  };

  explicit EventSplitter(ByteSource* source);
  // The next piece. After kEnd, kCut or kNoTrace there is none.
  Piece Next();
  // Of the last piece, until the next; may be written to.
  std::string_view text() const { return {buffer_.data() + begin_, piece_end_ - begin_}; }
  char* data() { return buffer_.data() + begin_; }
  size_t capacity() const { return buffer_.size() - begin_; }
  std::string_view key() const { return key_; }
  const char* problem() const { return problem_; }
  bool has_events() const { return has_events_; }
  uint64_t bytes() const { return bytes_; }

 private:
  enum class Place { kStart, kMembers, kEvents, kOver };
  static constexpr size_t kReadBytes = 1 << 20;

  Piece Step();  // or kAgain
  Piece NextMember();
  Piece NextEvent();
  Piece Cut(const char* problem);
  Piece Over();
  // Reads on; false at the end of the text. Keeps what is from begin_ on; positions move.
  bool Fill();
  // The next character that is no space, without taking it; 0 at the end of the text.
  char Peek();
  // Takes a value; text() is that. False: the text ended in it, or it is too large.
  bool TakeValue();
  bool TakeNested();  // a string, a list or an object
  bool TakeScalar();

  ByteSource* source_;
  std::vector<char> buffer_;
  size_t begin_ = 0;      // of the piece
  size_t at_ = 0;         // how far it was looked at
  size_t end_ = 0;        // of what was read
  size_t piece_end_ = 0;  // of the last piece
  std::string key_;
  Place place_ = Place::kStart;
  bool is_bare_ = false;  // a list of events, no object around it
  bool has_events_ = false;
  bool is_too_deep_ = false;
  const char* problem_ = "";
  uint64_t bytes_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_EVENT_SPLITTER_H_
