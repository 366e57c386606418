// SPDX-License-Identifier: Apache-2.0
//
// Cuts the text of a Chrome trace into pieces: the members of its traceEvents, and the members next to traceEvents. A
// parser then needs memory for one event instead of the whole file. Documents may follow each other.
//
// It knows just enough JSON to find the end of a value: strings, escapes and brackets. The parser of a piece finds out
// whether it is JSON. A quote in a name that is not escaped turns strings inside out. So an event also ends where a
// line begins the next one.
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
    kTooDeep,        // a kEvent that is nested more than kMaxDepth deep
    kTooDeepMember,  // a kMember that is nested more than kMaxDepth deep
    kBroken,         // an event, or text between events, that does not end before the next event
    kDocument,       // another document begins, after one with events or within a broken one
    kEnd,            // the text ended with its JSON
    kCut,            // the text ended too early: see `problem`
    kNoTrace,        // neither an object nor a list
    kAgain,          // internal: try again
  };

  explicit EventSplitter(ByteSource* source);
  // The next piece. After kEnd, kCut or kNoTrace there is none.
  Piece Next();
  // The last piece, valid until the next. May be written to.
  std::string_view text() const { return {buffer_.data() + begin_, piece_end_ - begin_}; }
  char* data() { return buffer_.data() + begin_; }
  size_t capacity() const { return buffer_.size() - begin_; }
  std::string_view key() const { return key_; }
  const char* problem() const { return problem_; }
  bool has_events() const { return has_events_; }
  bool is_bare_list() const { return is_bare_; }  // without an object around it; of the last document
  // After kCut: a bare list ended after a whole event, without its bracket.
  bool ended_between_events() const { return ended_between_; }
  uint64_t bytes() const { return bytes_; }

 private:
  enum class Place { kStart, kMembers, kEvents, kOver };
  static constexpr size_t kReadBytes = 1 << 20;
  static constexpr std::string_view kDocumentKey = "\"schemaVersion\"";  // the first one of PyTorch's

  Piece Step();  // or kAgain
  Piece NextMember();
  Piece NextEvent();
  Piece Cut(const char* problem);
  Piece Over();
  // Behind a document.
  Piece EndDocument();
  // Skips what is not JSON between events.
  Piece SkipToEvent();
  // Reads more; false at the end of the text. Keeps the bytes from begin_ on, but moves them.
  bool Fill();
  // The next character that is not a space, without taking it. 0 at the end of the text.
  char Peek();
  // Takes a value as text(). False if the text ended in it or it is too large.
  bool TakeValue();
  bool TakeNested();  // a string, a list or an object; also true if it is broken
  bool TakeScalar();
  // Whether spaces, and an event or another document, begin at at_ + `ahead`.
  bool IsEventAhead(size_t ahead) { return IsAhead(ahead, "\"ph\"") || IsAhead(ahead, kDocumentKey); }
  // Whether spaces and an object that begins with `key` do.
  bool IsAhead(size_t ahead, std::string_view key);
  // Whether only spaces are between at_ and the begin of its line.
  bool BeginsLine() const;

  ByteSource* source_;
  std::vector<char> buffer_;
  size_t begin_ = 0;      // of the piece
  size_t at_ = 0;         // the next byte to look at
  size_t end_ = 0;        // of the bytes read
  size_t piece_end_ = 0;  // of the last piece
  std::string key_;
  Place place_ = Place::kStart;
  bool is_bare_ = false;              // a list of events without an object around it
  bool has_events_ = false;           // any document
  bool document_has_events_ = false;  // this document
  bool is_event_ = false;             // the value being taken
  bool is_too_deep_ = false, is_broken_ = false;
  bool ended_between_ = false;
  const char* problem_ = "";
  uint64_t bytes_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_EVENT_SPLITTER_H_
