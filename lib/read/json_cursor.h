// SPDX-License-Identifier: Apache-2.0
//
// Walks through JSON of any size without reading it into memory: into objects and lists, over values, and taking single
// ones as text. It knows just enough JSON to find the end of a value; the parser of a text finds out whether it is
// JSON.
#ifndef PITOT_LIB_READ_JSON_CURSOR_H_
#define PITOT_LIB_READ_JSON_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "read/byte_source.h"

namespace pitot::read {

class JsonCursor {
 public:
  static constexpr size_t kPaddingBytes = 64;         // readable after every text
  static constexpr size_t kMaxValueBytes = 16 << 20;  // of a text

  explicit JsonCursor(ByteSource* source);

  // Whether the next value is an object (a list), and goes into it.
  bool BeginObject() { return Begin('{'); }
  bool BeginList() { return Begin('['); }
  // Goes to the value of the next member, or to the next element. False at the end, which it leaves, and after a fault.
  bool NextMember();
  bool NextElement();
  // Takes the next value. False after a fault.
  bool Take() { return Pass(true); }
  bool Skip() { return Pass(false); }
  // Whether nothing follows but spaces. A fault if something does.
  bool End() { return *fault_ == 0 && (Peek() == 0 || Fault("it goes on after its end, and not with an object")); }

  std::string_view key() const { return key_; }  // as written; valid until the next member
  // Valid until the next call.
  std::string_view text() const { return {buffer_.data() + begin_, end_of_text_ - begin_}; }
  size_t capacity() const { return buffer_.size() - begin_; }
  const char* fault() const { return fault_; }  // "": none

 private:
  static constexpr size_t kReadBytes = 1 << 20;

  bool Begin(char bracket);
  bool Next(char end);
  bool Pass(bool is_kept);
  bool Fault(const char* fault);
  // Reads more, and keeps the bytes from begin_ on. False at the end of the text.
  bool Fill();
  char Peek();  // the next character that is not a space; 0: none

  ByteSource* source_;
  std::vector<char> buffer_;
  size_t begin_ = 0, at_ = 0, end_ = 0, end_of_text_ = 0;
  std::string key_;
  const char* fault_ = "";
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_JSON_CURSOR_H_
